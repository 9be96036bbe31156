"""Every model that ships, exported: parity on every target, Core ML by the evaluator, LiteRT on the
GPU delegate too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.export import Artifact, Session, compare, export_checkpoint, measure_parity, verdict
from unplug.plugins import load_checkpoint
from unplug.sdk.drawing.conditions import example_inputs
from unplug.sdk.drawing.diffusion import shipped_folder
from unplug.sdk.drawing.diffusion.shipped import PARTS, shipped_plugins

pytestmark = pytest.mark.long

GPU_PSNR_DB = 60.0
MODELS = (*shipped_plugins(), *PARTS)
needs_device = pytest.mark.skipif(
    "VK_DRIVER_FILES" not in os.environ, reason="VK_DRIVER_FILES names no Vulkan driver"
)


@dataclass(frozen=True)
class Exported:
    """One model's files, and inputs for them."""

    checkpoint: Path
    files: dict[str, Artifact]
    inputs: dict[str, Any]


SLOW = ("canny", "depth", "small/text_encoder", "small/unet", "small/vae")
"""A minute or more of converting each; `make nightly` has them."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.nightly) if name in SLOW else name for name in MODELS
    ],
)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    checkpoint = shipped_folder(request.param)
    made = export_checkpoint(
        checkpoint, precisions=("fp32", "fp16"), out=tmp_path_factory.mktemp("shipped"), workers=2
    )
    inputs = example_inputs(made[0].card.model_type, made[0].card.iospec, 2)
    return Exported(checkpoint, {item.path.name.partition(".")[2]: item for item in made}, inputs)


def test_what_ships() -> None:
    assert set(MODELS) == {
        "canny",
        "depth",
        "face_landmark",
        "small/text_encoder",
        "small/unet",
        "small/vae",
    }
    assert all(path.is_dir() and path.is_absolute() for path in map(shipped_folder, MODELS))


@pytest.mark.nightly
def test_parity_on_every_target(exported: Exported) -> None:
    source = load_checkpoint(exported.checkpoint)
    assert all(item.card.iospec == source.model.iospec for item in exported.files.values())
    assert {item.card.checkpoint_sha256 for item in exported.files.values()} == {source.sha256}
    report = measure_parity(list(exported.files.values()), exported.checkpoint, exported.inputs)
    assert report.passed, [row for row in report.rows if row.status != "pass"]
    assert {(row.target, row.precision) for row in report.rows} == {
        (target, precision)
        for target in ("litert", "coreml", "onnx")
        for precision in ("fp32", "fp16")
    }


@needs_device
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_gpu_takes_all_of_it_and_agrees_with_the_cpu(
    exported: Exported, precision: str
) -> None:
    item = exported.files[f"{precision}.tflite"]
    if item.card.model_type == "text_encoder":
        pytest.skip(
            "the GPU delegate refuses its fp16 file and computes its fp32 file wrongly; it belongs "
            "on the CPU"
        )
    on_gpu, on_cpu = (
        Session(item, delegate=name).run(exported.inputs) for name in ("gpu", "xnnpack")
    )
    for name, wanted in on_cpu.items():
        assert verdict(compare(wanted, on_gpu[name]), GPU_PSNR_DB) is None, name
        assert not np.array_equal(wanted, on_gpu[name])  # it was another arithmetic
