"""A nano age model at 32 pixels as ONNX and LiteRT, and a Core ML package that only has a card."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.exported import age_checkpoint, age_files

from unplug.core import sha256_tree
from unplug.export import Artifact, card_path, load_artifact
from unplug.export.artifact import write_card


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return age_checkpoint(tmp_path_factory)


def copied(factory: pytest.TempPathFactory, name: str) -> Artifact:
    artifact, folder = age_files(factory)[name], factory.mktemp("bench-artifacts")
    for file in (artifact.path, card_path(artifact.path)):
        shutil.copy(file, folder)
    return load_artifact(folder / name)


@pytest.fixture(scope="session")
def onnx(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return copied(tmp_path_factory, "age.fp32.onnx")


@pytest.fixture(scope="session")
def litert(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return copied(tmp_path_factory, "age.fp32.tflite")


@pytest.fixture(scope="session")
def coreml(onnx: Artifact) -> Artifact:
    path = onnx.path.with_name("age.fp32.mlpackage")
    path.mkdir()
    (path / "Manifest.json").write_text("{}")
    digest, size = sha256_tree(path)
    return write_card(
        path, replace(onnx.card, target="coreml", file=path.name, sha256=digest, bytes=size)
    )
