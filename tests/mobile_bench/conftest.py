"""A nano age model at 32 pixels as ONNX, and a Core ML package that only has a card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.once import once

from unplug.core import sha256_tree
from unplug.export import Artifact, export_checkpoint, load_artifact
from unplug.export.artifact import write_card
from unplug.plugins import AgePredictor, save_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("bench-checkpoint") / "nano"
    save_checkpoint(AgePredictor(size="nano", image_size=32).eval(), path, record={}, card="A test model.")
    return path


@pytest.fixture(scope="session")
def onnx(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return export_checkpoint(checkpoint, targets=["onnx"], out=tmp_path_factory.mktemp("bench-artifacts"))[0]


@pytest.fixture(scope="session")
def litert(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    pytest.importorskip("litert_torch")
    out = once(tmp_path_factory, "bench-litert", lambda folder: export_checkpoint(checkpoint, targets=["litert"], out=folder))
    return load_artifact(out / "age.fp32.tflite")


@pytest.fixture(scope="session")
def coreml(onnx: Artifact) -> Artifact:
    path = onnx.path.with_name("age.fp32.mlpackage")
    path.mkdir()
    (path / "Manifest.json").write_text("{}")
    digest, size = sha256_tree(path)
    return write_card(path, replace(onnx.card, target="coreml", file=path.name, sha256=digest, bytes=size))
