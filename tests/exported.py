"""A nano age model at 32 pixels, exported once for all test processes: every target and precision,
and channels last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from unplug.export import TARGETS, Artifact, export_checkpoint, load_artifact, random_inputs
from unplug.plugins import AgePredictor, load_checkpoint, save_checkpoint

from .once import once

CALIBRATION_SAMPLES = 24
EVERYWHERE = ("litert", "coreml", "onnx")
"""Targets whose packages every environment of the tests has, and what is exported where nothing is
said.
"""
CHANNELS_LAST = {"litert": ("fp32", "int8-static"), "onnx": ("fp32",)}


def require_installed(target: str) -> None:
    """Skips the test where the packages of a target are not installed, and says which extra has
    them.
    """
    found = TARGETS.get(target)
    for module in found.modules:
        if find_spec(module) is None:
            pytest.skip(f"the extra [{found.extra}] is not installed: there is no {module}")


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


class Files(Mapping[str, Artifact]):
    """Exported files by name; a target's are made when the first of them is asked for. Nobody may
    write to them.
    """

    def __init__(
        self, factory: pytest.TempPathFactory, wanted: dict[str, tuple[str, ...]], layout: str
    ) -> None:
        self.factory, self.wanted, self.layout = factory, wanted, layout
        self.targets = {
            f"age.{precision}{TARGETS.get(target).suffix}": target
            for target in wanted
            for precision in wanted[target]
        }

    def __getitem__(self, name: str) -> Artifact:
        target = self.targets[name]
        return load_artifact(
            once(
                self.factory,
                f"exported-{target}-{self.layout}",
                lambda out: self._make(target, out),
            )
            / name
        )

    def _make(self, target: str, out: Path) -> None:
        checkpoint, precisions = age_checkpoint(self.factory), self.wanted[target]
        export_checkpoint(
            checkpoint,
            targets=[target],
            precisions=precisions,
            out=out,
            calibration=calibration_of(checkpoint),
            layout=self.layout,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.targets)

    def __len__(self) -> int:
        return len(self.targets)


def age_files(factory: pytest.TempPathFactory) -> Files:
    """Every precision of the targets that are there `EVERYWHERE`."""
    return files_of(factory, EVERYWHERE)


def files_of(factory: pytest.TempPathFactory, targets: Sequence[str]) -> Files:
    """Every precision of some targets."""
    return Files(factory, {name: TARGETS.get(name).precisions for name in targets}, "NCHW")


def age_files_channels_last(factory: pytest.TempPathFactory) -> Files:
    """`CHANNELS_LAST`."""
    return Files(factory, CHANNELS_LAST, "NHWC")
