"""A nano age model at 32 pixels, exported once a session to every target in every precision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from unplug.export import Artifact, export_checkpoint
from unplug.plugins import AgePredictor, save_checkpoint

SIDE = 32


def make_checkpoint(path: Path, seed: int) -> Path:
    """A model with running statistics and logits of a trained one's size."""
    torch.manual_seed(seed)
    model = AgePredictor(size="nano", image_size=SIDE).train()
    with torch.no_grad():
        for _ in range(5):
            model(torch.rand(16, 3, SIDE, SIDE))
        model.classifier.weight.mul_(20.0)
    save_checkpoint(model.eval(), path, record={}, card="A test model.")
    return path


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "nano", seed=0)


@pytest.fixture(scope="session")
def other_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "other", seed=1)


@pytest.fixture(scope="session")
def exported(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    """All pairs; tests must not write to these files."""
    out = tmp_path_factory.mktemp("exported")
    targets = ("litert", "coreml", "onnx")
    return export_checkpoint(checkpoint, targets=targets, precisions=("fp32", "fp16"), out=out, workers=2)


@pytest.fixture(scope="session")
def by_name(exported: list[Artifact]) -> dict[str, Artifact]:
    return {artifact.path.name: artifact for artifact in exported}
