"""Checkpoints: what is saved comes back to the bit, and nothing else is let in."""

from __future__ import annotations

import json
import pickle
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError, OutputError, sha256_file
from unplug.plugins import AgePredictor, load_checkpoint, load_weights, save_checkpoint
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
    """Both doors say no, in these words."""
    for opened in (load_checkpoint, AgePredictor.from_pretrained):
        with pytest.raises(CheckpointError, match=words):
            opened(path)


def edit_json(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


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
    edit_json(folder / "unplug.json", weights_sha256=sha256_file(folder / "model.safetensors"))


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
    assert loaded.record == {"a": [1], "weights_sha256": loaded.sha256}
    assert loaded.model_type == "age" and len(loaded.sha256) == 64
    assert (tmp_path / "out" / "README.md").read_text() == "# Card\n"
    save_checkpoint(model, tmp_path / "again", record={}, card="")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_a_checkpoint_is_shown_in_one_line(folder: Path) -> None:
    loaded = load_checkpoint(folder)
    made = replace(loaded, record={"design": {"name": "closed-form"}, "role": "unlearned"})
    assert repr(loaded) == f"Checkpoint(age at {str(folder)!r}, {loaded.sha256[:16]})"
    assert repr(made).endswith(f"{loaded.sha256[:16]}, closed-form, unlearned)")


def test_nothing_but_checkpoints_is_overwritten(folder: Path, tmp_path: Path) -> None:
    save_checkpoint(model_of(seed=1), folder, record={}, card="")
    assert "seed" not in load_checkpoint(folder).record
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("precious")
    with pytest.raises(OutputError, match="not written by this command"):
        save_checkpoint(model_of(), tmp_path / "photos", record={}, card="")


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL, None])
def test_a_pickle_under_the_name_of_the_weights_is_not_opened(
    folder: Path, tmp_path: Path, protocol: int | None
) -> None:
    bomb = Bomb(tmp_path / "exploded")
    if protocol is None:
        torch.save(bomb, folder / "model.safetensors")
    else:
        (folder / "model.safetensors").write_bytes(pickle.dumps(bomb, protocol=protocol))
    refused(folder, "it is a text" if protocol == 0 else "this is a pickle under another name")
    assert not (tmp_path / "exploded").exists()


def test_pickles_beside_or_instead_of_the_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    refused(folder, "no model.safetensors")
    torch.save({}, folder / "pytorch_model.bin")
    refused(folder, "only the pickle pytorch_model.bin")
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


def test_half_precision_weights_are_taken(folder: Path) -> None:
    edit_weights(folder, classifier__bias=torch.ones(13, dtype=torch.float16))
    bind(folder)
    bias = load_checkpoint(folder).model.classifier.bias
    assert bias.dtype == torch.float32 and bias.tolist() == [1.0] * 13


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"backdoor": 1}, "backdoor"),
        ({"size": "small"}, "checkpoint of another model"),
        ({"padding": "x" * MAX_CONFIG_BYTES}, f"larger than {MAX_CONFIG_BYTES} bytes"),
        ({"model_type": "diffusion"}, "model_type 'diffusion'"),
        ({"model_type": "os:system"}, "model_type 'os:system'"),
        ({"model_type": ["age"]}, "model_type"),
        ({"size": "../../etc"}, "no such size"),
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
    edit_json(folder / "config.json", **changes)
    refused(folder, words)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"model_type": "age"', "[" * 50_000])
@pytest.mark.parametrize("name", ["config.json", "unplug.json"])
def test_json_that_is_no_object_is_refused(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    refused(folder, "not valid JSON|is not an object")


def test_missing_parts_are_named_and_a_missing_record_is_empty(folder: Path) -> None:
    for path in (folder / "none", folder / "config.json"):
        with pytest.raises(CheckpointError, match="no such folder"):
            load_checkpoint(path)
    with pytest.raises(CheckpointError, match=r"'age'.*Give a checkpoint of type 'plugin'"):
        load_checkpoint(folder, expect="plugin")
    with pytest.raises(CheckpointError, match="no such file"):
        load_weights(load_checkpoint(folder).model, folder / "none.safetensors")
    (folder / "unplug.json").unlink()
    assert load_checkpoint(folder).record == {}
    (folder / "config.json").unlink()
    refused(folder, "config.json")


@pytest.mark.parametrize("claimed", [None, 7, "0" * 64])
def test_a_record_describes_the_weights_beside_it_or_is_refused(folder: Path, claimed: Any) -> None:
    edit_json(folder / "unplug.json", weights_sha256=claimed)
    refused(folder, "describes other weights than those next to it")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"cost": 3}, "cost is not an object"),
        ({"cost": {"wall_s": "long"}}, "cost.wall_s is not a number"),
        ({"cost": {"wall_s": -1}}, "cost.wall_s is not a number"),
        ({"seed": 1e30}, "seed is not a whole number"),
        ({"seed": 10**30}, "seed is not a whole number"),
        ({"seed": True}, "seed is not a whole number"),
        ({"forget": {"cost": {"retrain": []}}}, "cost.retrain is not an object"),
        ({"lineage": None}, "lineage is not an object"),
        ({"lineage": {"original": ["a"]}}, "lineage.original is not a text"),
        ({"history": {}}, "history is not a list"),
        ({"split": "none"}, "split is not an object"),
        ({"recipe": [1]}, "recipe is not an object"),
        ({"role": 1}, "role is not a text"),
    ],
)
def test_a_record_of_another_shape(folder: Path, change: dict[str, Any], place: str) -> None:
    edit_json(folder / "unplug.json", **change)
    refused(folder, place)
