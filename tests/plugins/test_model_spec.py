"""The header of a weight file, read by safetensors itself."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from unplug.plugins import AgePredictor, ConditioningPlugin, describe_weights, load_checkpoint

UNET = {"block_out_channels": [8, 8], "down_block_types": ["DownBlock2D"] * 2, "sample_size": 8}


def header(file: Path) -> dict[str, str]:
    with safe_open(file, framework="np") as weights:
        return dict(weights.metadata())


def test_a_file_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_file({"x": torch.tensor([1.0, 2.0])}, file, metadata={"format": "pt"})
    numbers = torch.tensor([1.0, 2.0]).numpy().tobytes()
    describe_weights(file, architecture="none", title="Zwei Zahlen, größer als 0")
    assert header(file) == {
        "format": "pt",
        "modelspec.architecture": "none",
        "modelspec.hash_sha256": f"0x{hashlib.sha256(numbers).hexdigest()}",
        "modelspec.implementation": "unplug-sdk",
        "modelspec.sai_model_spec": "1.0.0",
        "modelspec.title": "Zwei Zahlen, größer als 0",
    }
    assert load_file(file)["x"].tolist() == [1.0, 2.0]
    raw = file.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert length % 8 == 0 and raw[8 + length :] == numbers
    assert list(json.loads(raw[8 : 8 + length])) == ["__metadata__", "x"]
    describe_weights(file, architecture="none", title="Zwei Zahlen, größer als 0")
    assert file.read_bytes() == raw


def test_equal_weights_are_equal_files_and_say_what_they_are(tmp_path: Path) -> None:
    for name in ("one", "two"):
        torch.manual_seed(0)
        AgePredictor(size="nano", image_size=32).eval().save_pretrained(tmp_path / name)
    one, two = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    told = header(one)
    assert told["modelspec.title"] == "Face-age predictor, nano, 32 px"
    assert told["modelspec.resolution"] == "32x32"
    torch.manual_seed(1)
    AgePredictor(size="nano", image_size=32).eval().save_pretrained(tmp_path / "other")
    hashes = {
        header(tmp_path / name / one.name)["modelspec.hash_sha256"] for name in ("one", "other")
    }
    assert len(hashes) == 2


def test_a_plugin_of_a_variant_says_its_condition(tmp_path: Path) -> None:
    plugin = ConditioningPlugin.for_unet(UNET, condition="depth", size="nano")
    plugin.save_pretrained(tmp_path, variant="fp16")
    told = header(tmp_path / "diffusion_pytorch_model.fp16.safetensors")
    assert told["format"] == "pt" and told["modelspec.title"] == "Conditioning plugin, depth"
    assert load_checkpoint(tmp_path, variant="fp16").model_type == "plugin"
