"""A nano age model at 32 pixels, exported once for all test processes: every target and precision, and channels last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from unplug.export import TARGETS, Artifact, export_checkpoint, load_artifact, random_inputs
from unplug.plugins import AgePredictor, load_checkpoint, save_checkpoint

from .once import once

CALIBRATION_SAMPLES = 24
CHANNELS_LAST = {"litert": ("fp32", "int8-static"), "onnx": ("fp32",)}


def save_age_model(path: Path, seed: int) -> Path:
    """A model with running statistics and logits of a trained one's size."""
    torch.manual_seed(seed)
    model = AgePredictor(size="nano", image_size=32).train()
    with torch.no_grad():
        for _ in range(5):
            model(torch.rand(16, 3, 32, 32))
        model.classifier.weight.mul_(20.0)
    save_checkpoint(model.eval(), path, record={}, card="A test model.")
    return path


def age_checkpoint(factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of all these files; nobody may write to it."""
    return once(factory, "age", lambda folder: save_age_model(folder / "nano", seed=0)) / "nano"


def calibration_of(checkpoint: Path) -> dict[str, np.ndarray]:
    """What the int8 files looked at."""
    return random_inputs(load_checkpoint(checkpoint).model.iospec, CALIBRATION_SAMPLES, seed=1)


def age_files(factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Every precision of every target, by file name; nobody may write to them."""
    wanted = {name: TARGETS.get(name).precisions for name in TARGETS}
    return _made(factory, "exported", wanted, "NCHW")


def age_files_channels_last(factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """`CHANNELS_LAST`, by file name."""
    return _made(factory, "exported-nhwc", CHANNELS_LAST, "NHWC")


def _made(factory: pytest.TempPathFactory, name: str, wanted: dict[str, tuple[str, ...]], layout: str) -> dict[str, Artifact]:
    def make(out: Path) -> None:
        checkpoint = age_checkpoint(factory)
        calibration = calibration_of(checkpoint)

        def convert(target: str) -> None:
            export_checkpoint(
                checkpoint, targets=[target], precisions=wanted[target], out=out, calibration=calibration, layout=layout
            )

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(convert, wanted))

    out = once(factory, name, make)
    files = [f"age.{precision}{TARGETS.get(target).suffix}" for target in wanted for precision in wanted[target]]
    return {file: load_artifact(out / file) for file in files}
