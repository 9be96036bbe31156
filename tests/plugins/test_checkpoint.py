"""Checkpoints: what is saved comes back to the bit, and nothing else is let in."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import EntryNotFoundError
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError, OutputError, sha256_file
from unplug.plugins import AgePredictor, age, load_checkpoint, load_weights, save_checkpoint
from unplug.plugins.checkpoint import MAX_CONFIG_BYTES

SIDE = 32


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.path,)


def model_of(seed: int = 0, **arguments: Any) -> AgePredictor:
    torch.manual_seed(seed)
    model = AgePredictor(**{"image_size": SIDE, **arguments}).train()
    model(torch.rand(4, 3, SIDE, SIDE))  # running statistics that are not the initial ones
    return model.eval()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_checkpoint(model_of(dropout=0.25), tmp_path / "model", record={"seed": 3}, card="# Card\n")
    return tmp_path / "model"


def refused(path: Path, words: str) -> None:
    """`load_checkpoint` says no, in these words."""
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(path)


def edit_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def edit_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    tensors = load_file(folder / "model.safetensors")
    for name, value in changes.items():
        key = name.replace("__", ".")
        if value is None:
            del tensors[key]
        else:
            tensors[key] = value
    save_file(tensors, folder / "model.safetensors")


def bind(folder: Path) -> None:
    """Makes the record one of the weights that lie beside it now."""
    record = json.loads((folder / "unplug.json").read_text())
    record["weights_sha256"] = sha256_file(folder / "model.safetensors")
    (folder / "unplug.json").write_text(json.dumps(record))


@pytest.mark.parametrize("size", ["nano", "small"])
def test_round_trip_is_exact_through_both_doors(tmp_path: Path, size: str) -> None:
    edges, centers = (0.0, 7.0, 21.5, 80.0), (3.3333, 15.1, 41.7)
    model = model_of(size=size, age_edges=edges, age_centers=centers, dropout=0.3)
    save_checkpoint(model, tmp_path / "out", record={"a": [1]}, card="# Card\n")
    loaded = load_checkpoint(tmp_path / "out", expect="age")
    image = torch.rand(2, 3, SIDE, SIDE)
    for other in (loaded.model, AgePredictor.from_pretrained(tmp_path / "out")):
        assert not other.training and other.size == size and other.dropout.p == 0.3
        assert other.age_edges == edges and other.image_size == SIDE
        theirs = other.state_dict()
        assert theirs.keys() == model.state_dict().keys()
        assert all(torch.equal(theirs[name], value) for name, value in model.state_dict().items())
        assert torch.equal(other(image)["expected_age"], model(image)["expected_age"])
    assert (
        loaded.record == {"a": [1], "weights_sha256": loaded.sha256}
        and loaded.model_type == "age"
        and len(loaded.sha256) == 64
    )
    assert (tmp_path / "out" / "README.md").read_text() == "# Card\n"


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_checkpoint(model_of(), tmp_path / name, record={}, card="")
    assert load_checkpoint(tmp_path / "a").sha256 == load_checkpoint(tmp_path / "b").sha256
    assert (tmp_path / "a" / "config.json").read_bytes() == (
        tmp_path / "b" / "config.json"
    ).read_bytes()


def test_nothing_but_checkpoints_is_overwritten(folder: Path, tmp_path: Path) -> None:
    save_checkpoint(model_of(seed=1), folder, record={}, card="")
    assert "seed" not in load_checkpoint(folder).record
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("precious")
    with pytest.raises(OutputError, match="not written by this command"):
        save_checkpoint(model_of(), tmp_path / "photos", record={}, card="")


def test_loading_is_silent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    AgePredictor.from_pretrained(folder)
    load_checkpoint(folder)
    assert capsys.readouterr() == ("", "")


def test_weights_that_are_not_there_are_said_to_be_none(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such file"):
        load_weights(load_checkpoint(folder).model, tmp_path / "none.safetensors")


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_a_pickle_under_the_name_of_the_weights_is_not_opened(
    folder: Path, tmp_path: Path, protocol: int
) -> None:
    (folder / "model.safetensors").write_bytes(
        pickle.dumps(Bomb(tmp_path / "exploded"), protocol=protocol)
    )
    refused(folder, "pickle under another name" if protocol >= 2 else "it is a text")
    with pytest.raises(CheckpointError):
        AgePredictor.from_pretrained(folder)
    assert not (tmp_path / "exploded").exists()


def test_a_torch_save_under_the_name_of_the_weights_is_named_as_one(folder: Path) -> None:
    torch.save(model_of().state_dict(), folder / "model.safetensors")
    refused(folder, "this is a pickle under another name")
    with pytest.raises(CheckpointError, match="this is a pickle under another name"):
        AgePredictor.from_pretrained(folder)


def test_pickles_beside_or_instead_of_the_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    refused(folder, "no model.safetensors")
    torch.save(model_of().state_dict(), folder / "pytorch_model.bin")
    refused(folder, "only the pickle pytorch_model.bin")
    with pytest.raises(CheckpointError):
        AgePredictor.from_pretrained(folder)
    refused(folder / "pytorch_model.bin", "this is a pickle")
    (tmp_path / "model.pt").write_bytes(b"")
    refused(tmp_path / "model.pt", "this is a pickle")


def test_a_folder_may_be_called_like_a_pickle(folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "run.ckpt")
    assert load_checkpoint(tmp_path / "run.ckpt").model_type == "age"


def test_a_header_length_that_looks_like_a_pickle_is_no_pickle(folder: Path) -> None:
    weights = folder / "model.safetensors"
    raw = weights.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    wanted = int.from_bytes(b"PK", "little")  # 19280 bytes of header: the file starts with "PK"
    assert wanted > length
    weights.write_bytes(
        struct.pack("<Q", wanted) + raw[8 : 8 + length].ljust(wanted) + raw[8 + length :]
    )
    assert weights.read_bytes()[:2] == b"PK"
    bind(folder)
    assert load_checkpoint(folder).record["seed"] == 3


@pytest.mark.parametrize("keep", [0, 8, 100, -1])
def test_truncated_weights_are_refused(folder: Path, keep: int) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    refused(folder, "not a whole safetensors file" if keep else "it is empty")
    with pytest.raises(CheckpointError):
        AgePredictor.from_pretrained(folder)


def test_tensors_of_another_model_are_refused(folder: Path) -> None:
    edit_config(folder, size="small")
    refused(folder, "checkpoint of another model")
    with pytest.raises(CheckpointError, match="another model"):
        AgePredictor.from_pretrained(folder)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classifier__bias": None}, "'classifier.bias' is missing"),
        ({"extra": torch.zeros(1)}, "'extra' does not belong"),
        ({"classifier__bias": torch.zeros(11)}, r"\[11\] where \[13\] is expected"),
        ({"classifier__bias": torch.zeros(13, dtype=torch.int64)}, "int64 where torch.float32"),
        ({"classifier__bias": torch.zeros(13, dtype=torch.complex64)}, "complex64"),
        ({"classifier__bias": torch.full((13,), torch.nan)}, "NaN or infinity"),
        ({"classifier__bias": torch.full((13,), torch.inf)}, "NaN or infinity"),
        ({"classifier__bias": torch.full((13,), 1e300, dtype=torch.float64)}, "NaN or infinity"),
        ({"age_centers": torch.full((13,), torch.nan)}, "NaN or infinity"),
    ],
)
def test_wrong_tensors_are_refused_by_both_doors(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    edit_weights(folder, **changes)
    refused(folder, words)
    with pytest.raises(CheckpointError, match=words):
        AgePredictor.from_pretrained(folder)


def test_half_precision_weights_are_taken(folder: Path) -> None:
    half = {
        name: value.half()
        for name, value in load_file(folder / "model.safetensors").items()
        if name == "classifier.bias"
    }
    edit_weights(folder, classifier__bias=half["classifier.bias"] + 1)
    bind(folder)
    model = load_checkpoint(folder).model
    assert (
        model.classifier.bias.dtype == torch.float32
        and model.classifier.bias.tolist() == [1.0] * 13
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"backdoor": 1}, "backdoor"),
        ({"model_type": "diffusion"}, "model_type 'diffusion'"),
        ({"model_type": "os:system"}, "model_type 'os:system'"),
        ({"model_type": ["age"]}, "model_type"),
        ({"size": "../../etc"}, "no such age predictor"),
        ({"size": ["nano"]}, "config.json"),
        ({"image_size": "64"}, "image size"),
        ({"image_size": 10**9}, "Use 32 to 224"),
        ({"image_size": None}, "image size"),
        ({"age_edges": 7}, "config.json"),
        ({"age_edges": ["a", "b", "c"]}, "config.json"),
        ({"age_edges": list(range(100_000))}, "borders"),
        ({"age_edges": [0, 1, 10**400]}, "config.json"),
        ({"age_centers": "0123456789"}, "config.json"),
        ({"dropout": "0.1"}, "config.json"),
    ],
)
def test_configs_that_no_model_has_are_refused(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    edit_config(folder, **changes)
    refused(folder, words)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"model_type": "age"}'[:-1], "[" * 50_000]
)
def test_a_config_that_is_no_object_is_refused(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    refused(folder, "not valid JSON|is not an object")


def test_a_huge_config_is_not_even_parsed(folder: Path) -> None:
    edit_config(folder, padding="x" * MAX_CONFIG_BYTES)
    refused(folder, f"larger than {MAX_CONFIG_BYTES} bytes")


def test_missing_parts_are_named(folder: Path, tmp_path: Path) -> None:
    refused(tmp_path / "none", "no such folder")
    refused(folder / "config.json", "no such folder")
    refused(folder / ".." / "none", "no such folder")
    (folder / "config.json").unlink()
    refused(folder, "config.json")


def test_a_broken_record_is_refused_and_a_missing_one_is_empty(folder: Path) -> None:
    (folder / "unplug.json").write_text("[]")
    refused(folder, "is not an object")
    (folder / "unplug.json").unlink()
    assert load_checkpoint(folder).record == {}


def test_a_record_describes_the_weights_beside_it_or_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    save_checkpoint(
        model_of(seed=1, dropout=0.25),
        tmp_path / "other",
        record={"role": "retrained"},
        card="# Card\n",
    )
    shutil.copyfile(folder / "model.safetensors", tmp_path / "other" / "model.safetensors")
    refused(tmp_path / "other", "describes other weights than those beside it")
    for record in (
        {"role": "retrained"},
        {"weights_sha256": None},
        {"weights_sha256": 7},
        {"weights_sha256": "0" * 64},
    ):
        (folder / "unplug.json").write_text(json.dumps(record))
        refused(folder, "describes other weights than those beside it")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"cost": 3}, "cost is no object"),
        ({"cost": {"wall_s": "long"}}, "cost.wall_s is no number"),
        ({"cost": {"wall_s": -1}}, "cost.wall_s is no number"),
        ({"seed": 1e30}, "seed is no whole number"),
        ({"seed": 10**30}, "seed is no whole number"),
        ({"seed": True}, "seed is no whole number"),
        ({"forget": {"cost": {"retrain": []}}}, "cost.retrain is no object"),
        ({"lineage": None}, "lineage is no object"),
        ({"lineage": {"original": ["a"]}}, "lineage.original is no text"),
        ({"history": {}}, "history is no list"),
        ({"split": "none"}, "split is no object"),
        ({"recipe": [1]}, "recipe is no object"),
        ({"role": 1}, "role is no text"),
    ],
)
def test_a_record_of_another_shape(folder: Path, change: dict[str, Any], place: str) -> None:
    record = json.loads((folder / "unplug.json").read_text())
    (folder / "unplug.json").write_text(json.dumps(record | change))
    refused(folder, place)


def test_the_wrong_model_type_is_refused(folder: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"model_type 'age'.*Give a checkpoint of type 'plugin'"
    ):
        load_checkpoint(folder, expect="plugin")


def test_a_hub_repository_without_safetensors_is_refused_not_unpickled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def download(*, repo_id: str, filename: str, **_: Any) -> str:
        asked.append(filename)
        raise EntryNotFoundError(f"{repo_id} has no {filename}")

    monkeypatch.setattr(age, "hf_hub_download", download)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
    with pytest.raises(CheckpointError, match=r"no model\.safetensors"):
        AgePredictor._from_pretrained(
            model_id="somebody/model",
            revision=None,
            cache_dir=None,
            force_download=False,
            local_files_only=False,
            token=None,
        )
    assert asked == ["model.safetensors"]


def test_a_hub_repository_is_read_strictly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import hub_mixin

    def download(*, filename: str, **_: Any) -> str:
        return str(folder / filename)

    monkeypatch.setattr(hub_mixin, "hf_hub_download", download)
    monkeypatch.setattr(age, "hf_hub_download", download)
    same = load_checkpoint(folder).model
    loaded = AgePredictor.from_pretrained("somebody/model")
    assert all(
        torch.equal(loaded.state_dict()[name], value) for name, value in same.state_dict().items()
    )
    edit_weights(folder, classifier__bias=None)
    with pytest.raises(CheckpointError, match="is missing"):
        AgePredictor.from_pretrained("somebody/model")
