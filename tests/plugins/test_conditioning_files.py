"""Plugin checkpoints: diffusers' folders, back to the bit, and nothing else is let in."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import EntryNotFoundError
from safetensors.torch import load_file

from unplug.core import CheckpointError, InputError
from unplug.plugins import CODE_FILE, ConditioningPlugin, load_checkpoint, save_checkpoint

from .unets import tiny_unet, trained

WEIGHTS = "diffusion_pytorch_model.safetensors"
BIAS = "projections.0.bias"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plugin = trained(tiny_unet(), condition="face_landmark", input_range=(-1.0, 1.0))
    save_checkpoint(plugin, tmp_path / "plugin", record={"base": "ours"}, card="# Card\n")
    return tmp_path / "plugin"


def refused(folder: Path, words: str) -> None:
    """Both doors say no, in these words."""
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(folder)
    with pytest.raises(CheckpointError, match=words):
        ConditioningPlugin.from_pretrained(folder)


def edit_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def same(one: ConditioningPlugin, other: ConditioningPlugin) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(
        torch.equal(mine[name], theirs[name]) for name in mine
    )


@pytest.mark.parametrize("family", ["sd15", "sdxl", "small"])
def test_round_trip_is_exact_through_both_doors(tmp_path: Path, family: str) -> None:
    plugin = trained(tiny_unet(family), condition="depth", image_size=64, input_range=(-1.0, 1.0))
    save_checkpoint(plugin, tmp_path / "ours", record={"a": [1]}, card="# Card\n")
    plugin.save_pretrained(tmp_path / "theirs")
    names = {"config.json", WEIGHTS, CODE_FILE}
    assert {path.name for path in (tmp_path / "theirs").iterdir()} == names
    assert {path.name for path in (tmp_path / "ours").iterdir()} == names | {
        "README.md",
        "unplug.json",
    }
    image = torch.rand(2, 3, 64, 64) * 2 - 1
    loaded = load_checkpoint(tmp_path / "ours", expect="plugin")
    assert loaded.record == {"a": [1], "weights_sha256": loaded.sha256}
    assert loaded.model_type == "plugin"
    for other in (
        loaded.model,
        *(ConditioningPlugin.from_pretrained(tmp_path / name) for name in ("ours", "theirs")),
    ):
        assert same(other, plugin) and not other.training and other.iospec == plugin.iospec
        assert other.config.condition == "depth" and list(other.config.input_range) == [-1.0, 1.0]
        assert all(torch.equal(a, b) for a, b in zip(other(image), plugin(image), strict=True))


def test_half_precision_files_and_the_type_asked_for(tmp_path: Path) -> None:
    plugin = trained(tiny_unet()).to(torch.float16)
    plugin.save_pretrained(tmp_path / "half")
    assert load_file(tmp_path / "half" / WEIGHTS)[BIAS].dtype == torch.float16
    full = ConditioningPlugin.from_pretrained(tmp_path / "half")
    assert full.dtype == torch.float32
    half = ConditioningPlugin.from_pretrained(tmp_path / "half", torch_dtype=torch.float16)
    other = ConditioningPlugin.from_pretrained(tmp_path / "half", dtype=torch.bfloat16)
    assert same(half, plugin) and other.dtype == torch.bfloat16
    assert same(ConditioningPlugin.from_pretrained(tmp_path, subfolder="half"), full)


def test_loading_is_silent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ConditioningPlugin.from_pretrained(folder, torch_dtype=torch.float16)
    load_checkpoint(folder)
    assert capsys.readouterr() == ("", "")


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    """diffusers cuts what is larger than a shard."""
    plugin = trained(tiny_unet())
    plugin.save_pretrained(tmp_path / "small", max_shard_size="10KB", variant=None)
    assert same(ConditioningPlugin.from_pretrained(tmp_path / "small"), plugin)
    with pytest.raises(TypeError):
        plugin.save_pretrained(tmp_path / "more", True)  # type: ignore[misc]


def test_a_variant_is_saved_and_opened_by_its_name(tmp_path: Path) -> None:
    plugin = trained(tiny_unet())
    plugin.save_pretrained(tmp_path / "half", variant="fp16")
    assert (tmp_path / "half" / "diffusion_pytorch_model.fp16.safetensors").is_file()
    for how in ({}, {"variant": "fp16"}):
        assert same(ConditioningPlugin.from_pretrained(tmp_path / "half", **how), plugin)
    with pytest.raises(CheckpointError, match=r"no model\.safetensors"):
        ConditioningPlugin.from_pretrained(tmp_path / "half", variant="bf16")


def test_pickles_are_neither_read_nor_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
    plugin = ConditioningPlugin.from_pretrained(folder)
    with pytest.raises(InputError, match="safe_serialization=False: a pickle can run code"):
        plugin.save_pretrained(tmp_path / "out", safe_serialization=False)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="use_safetensors=False: a pickle can run code"):
        ConditioningPlugin.from_pretrained(folder, use_safetensors=False)
    (folder / WEIGHTS).write_bytes(pickle.dumps({"a": 1}))
    refused(folder, "this is a pickle under another name")
    (folder / WEIGHTS).rename(folder / "diffusion_pytorch_model.bin")
    refused(folder, "only the pickle diffusion_pytorch_model.bin is there")
    (folder / "diffusion_pytorch_model.bin").unlink()
    refused(folder, f"no model.safetensors .a plugin: {WEIGHTS}. in it")


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"_class_name": "T2IAdapter"}, "model_type 'unknown'"),
        ({"_class_name": ["ConditioningPlugin"]}, "model_type 'unknown'"),
        ({"model_type": "age"}, "model_type 'age'|config.json"),
        ({"backdoor": 1}, "backdoor"),
        ({"quantization_config": {"load_in_8bit": True}}, "quantization_config"),
        ({"widths": [24, 32, 48, 64]}, "widths .*: not a list of the right length"),
        ({"widths": [10**9] * 3}, "widths 1000000000: out of range"),
        ({"widths": "abc"}, "widths abc: not a list"),
        ({"widths": [24, 32, 64]}, "another model"),
        ({"depths": [10**12, 1, 1]}, "depths 1000000000000: out of range"),
        ({"widths": [1024] * 3, "depths": [16] * 3, "expand": [8] * 3}, "it would have about"),
        ({"block_out_channels": [10**9] * 3}, "out of range"),
        ({"block_out_channels": [32] * 9, "down_block_types": ["DownBlock2D"] * 9}, "1 to 8 of"),
        ({"block_out_channels": 5}, "config.json"),
        ({"down_block_types": ["os.system"] * 3}, "os.system.*adds no residual"),
        ({"down_block_types": [["DownBlock2D"]] * 3}, "adds no residual"),
        ({"image_size": 2**40}, "image_size 1099511627776: out of range"),
        ({"image_size": 4096, "stem": [512], "stem_expand": 8}, "a tensor of up to"),
        (
            {
                "downscale": 64,
                "image_size": 64,
                "stem": [512] * 8,
                "stem_expand": 8,
                "depths": [12] * 3,
                "widths": [400] * 3,
                "expand": [4] * 3,
            },
            "it would have about",
        ),
        ({"input_range": [0, 1e400]}, "not a rising pair"),
        ({"input_range": ["0", "1"]}, "not a rising pair"),
        ({"condition": 7}, "it is not a name"),
        ({"condition": "x" * 1000}, "it is not a name"),
        ({"stem": []}, "stem"),
        ({"downscale": None}, "downscale None: out of range"),
    ],
)
def test_configs_that_no_plugin_has_are_refused(
    folder: Path, change: dict[str, Any], words: str
) -> None:
    edit_config(folder, **change)
    refused(folder, words)


def test_hub_repositories(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []

    def download(
        *, repo_id: str, filename: str, revision: str = "main", subfolder: str | None
    ) -> str:
        asked.append((filename, (repo_id, revision, subfolder)))
        if repo_id == "somebody/empty":
            raise EntryNotFoundError("404\nmore")
        return str(folder / filename)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    loaded = ConditioningPlugin.from_pretrained(
        "somebody/plugin", revision="abc", subfolder="adapter"
    )
    assert same(loaded, load_checkpoint(folder).model)
    assert asked == [
        (name, ("somebody/plugin", "abc", "adapter")) for name in (WEIGHTS, "config.json")
    ]
    with pytest.raises(
        CheckpointError,
        match=rf"somebody/empty: no such folder, and the hub gave no {WEIGHTS} \(404\)",
    ):
        ConditioningPlugin.from_pretrained("somebody/empty")
    with pytest.raises(InputError, match="argument device_map: it is not known here"):
        ConditioningPlugin.from_pretrained("somebody/plugin", device_map="auto")
    with pytest.raises(CheckpointError, match="no such folder"):
        ConditioningPlugin.from_pretrained(folder / "none")
