"""The conditioning plugin exported: names, parity on every target, and what parity must not let through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from unplug.export import Artifact, Reference, export_checkpoint, load_artifact, measure_parity, random_inputs
from unplug.plugins import ConditioningPlugin, load_checkpoint, save_checkpoint

pytestmark = pytest.mark.long

SIDE, SAMPLES = 64, 2
CROSS, PLAIN = "CrossAttnDownBlock2D", "DownBlock2D"
BASE = {
    "block_out_channels": [32, 48, 64, 64],
    "down_block_types": [CROSS, CROSS, CROSS, PLAIN],
    "sample_size": SIDE // 8,
}
OUTPUTS = [f"adapter_res_samples_{index:02d}" for index in range(4)]
SHAPES = [(1, 32, 8, 8), (1, 48, 4, 4), (1, 64, 2, 2), (1, 64, 1, 1)]


def save_plugin(path: Path, *, trained: bool) -> Path:
    torch.manual_seed(0)
    plugin = ConditioningPlugin.for_unet(BASE, condition="canny", size="nano", input_range=(-1.0, 1.0)).train()
    if trained:
        with torch.no_grad():
            for projection in plugin.projections:
                nn.init.normal_(projection.weight, std=0.2)
                nn.init.normal_(projection.bias, std=0.2)
            for _ in range(5):
                plugin(torch.rand(4, 3, SIDE, SIDE) * 2 - 1)
    save_checkpoint(plugin.eval(), path, record={}, card="A test plugin.")
    return path


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_plugin(tmp_path_factory.mktemp("plugin") / "trained", trained=True)


@pytest.fixture(scope="session")
def files(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Core ML and half precision: see `test_shipped_files`. Tests must not write to these files."""
    made = export_checkpoint(
        plugin, targets=("litert", "onnx"), precisions=("fp32",), out=tmp_path_factory.mktemp("out"), workers=2
    )
    return {artifact.path.name: artifact for artifact in made}


def test_files_cards_and_names(files: dict[str, Artifact], plugin: Path) -> None:
    assert sorted(files) == ["plugin.fp32.onnx", "plugin.fp32.tflite"]
    source = load_checkpoint(plugin)
    for artifact in files.values():
        card = load_artifact(artifact.path).card
        assert card.iospec == source.model.iospec and card.checkpoint_sha256 == source.sha256
        assert [tensor.name for tensor in card.iospec.outputs] == OUTPUTS
        assert [tensor.shape for tensor in card.iospec.outputs] == SHAPES
        assert (card.iospec.inputs[0].name, card.iospec.inputs[0].range) == ("condition", (-1.0, 1.0))
        assert card.model_type == "plugin" and card.config["condition"] == "canny"
        assert card.flops is not None and card.flops > 1e5


def test_parity_on_every_target(files: dict[str, Artifact], plugin: Path) -> None:
    chosen = list(files.values())
    report = measure_parity(chosen, plugin, random_inputs(chosen[0].card.iospec, SAMPLES, seed=0))
    assert report.passed and len(report.rows) == 8
    for row in report.rows:
        assert row.status == "pass", row
        assert row.psnr_db is not None and not row.exact, "the same bits would mean that nothing was computed apart"
        assert row.cosine is not None and row.cosine > 0.999
    assert {row.output for row in report.rows} == set(OUTPUTS)


def test_zeros_of_an_untrained_plugin_are_no_parity(
    files: dict[str, Artifact], plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = files["plugin.fp32.onnx"]
    zeros = {name: np.zeros(shape, np.float32) for name, shape in zip(OUTPUTS, SHAPES, strict=True)}
    reference = Reference(checkpoint_sha256=artifact.card.checkpoint_sha256, model_type="plugin", outputs=zeros)
    monkeypatch.setattr("unplug.export.parity.reference_outputs", lambda *_: reference)
    monkeypatch.setattr("unplug.export.parity.Session.run", lambda *_: zeros)
    report = measure_parity(artifact, plugin, random_inputs(artifact.card.iospec, 1, seed=0))
    assert not report.passed
    for row in report.rows:
        assert row.status == "fail" and row.exact
        assert row.reason is not None and row.reason.startswith("the checkpoint gives zeros only")


@pytest.mark.slow
@pytest.mark.parametrize(("what", "precision"), [("weight", "fp16"), ("padding", "fp32")])
def test_a_planted_error_fails_parity(
    plugin: Path,
    tmp_path: Path,
    changed: Callable[..., Artifact],
    edit: Callable[..., Any],
    what: str,
    precision: str,
) -> None:
    (artifact,) = export_checkpoint(plugin, targets=["coreml"], precisions=[precision], out=tmp_path / "files")
    inputs = random_inputs(artifact.card.iospec, 1, seed=0)
    wrong = changed(artifact, edit(what, {"fp32": "float32", "fp16": "float16"}[precision]))
    report = measure_parity(wrong, plugin, inputs)
    assert not report.passed and all("dB" in str(row.reason) for row in report.rows if row.status == "fail")
