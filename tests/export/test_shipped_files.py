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

FAST = {"face_landmark", "small/decoder"}
SLOW = {"canny", "depth", "small/text_encoder", "small/unet", "small/vae"}
"""A minute or more of converting each; `make nightly` has them."""
MODELS = (*shipped_plugins(), *PARTS)


@dataclass(frozen=True)
class Exported:
    """One model's files, and inputs for them."""

    checkpoint: Path
    files: dict[str, Artifact]
    inputs: dict[str, Any]


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
    files = {file.path.name.partition(".")[2]: file for file in made}
    card = made[0].card
    return Exported(checkpoint, files, example_inputs(card.model_type, card.iospec, 2))


def test_what_ships() -> None:
    assert set(MODELS) == FAST | SLOW
    assert all(path.is_dir() and path.is_absolute() for path in map(shipped_folder, MODELS))


@pytest.mark.nightly
def test_parity_on_every_target(exported: Exported) -> None:
    source, files = load_checkpoint(exported.checkpoint), list(exported.files.values())
    assert {file.card.iospec for file in files} == {source.model.iospec}
    assert {file.card.checkpoint_sha256 for file in files} == {source.sha256}
    report = measure_parity(files, exported.checkpoint, exported.inputs)
    assert report.passed and len(files) == 3 * 2, report.rows
    assert {row.status for row in report.rows} == {"pass"}, report.rows


@pytest.mark.skipif(
    "VK_DRIVER_FILES" not in os.environ, reason="VK_DRIVER_FILES names no Vulkan driver"
)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_gpu_takes_all_of_it_and_agrees_with_the_cpu(
    exported: Exported, precision: str
) -> None:
    file = exported.files[f"{precision}.tflite"]
    if file.card.model_type == "text_encoder":
        pytest.skip("the GPU delegate refuses its fp16 file and computes its fp32 file wrongly")
    on_gpu, on_cpu = (
        Session(file, delegate=name).run(exported.inputs) for name in ("gpu", "xnnpack")
    )
    for name, wanted in on_cpu.items():
        assert verdict(compare(wanted, on_gpu[name]), 60.0) is None, name
        assert not np.array_equal(wanted, on_gpu[name])  # it was another arithmetic
