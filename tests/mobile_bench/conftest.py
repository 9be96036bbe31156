"""A nano age model at 32 pixels as ONNX and LiteRT, and a Core ML package that only has a card."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.exported import age_checkpoint, age_files

from unplug.core import sha256_tree
from unplug.export import Artifact, card_path, load_artifact
from unplug.export.artifact import write_card
from unplug.mobile_bench import DEVICES, BenchRow, Plan, bench_artifacts

from .fakes import FakeDevice


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
    return resigned(onnx, path, target="coreml")


def resigned(like: Artifact, path: Path, **changes: Any) -> Artifact:
    """What lies at a path, with a card like another's that vouches for it."""
    digest, size = sha256_tree(path)
    changes = {"file": path.name, "sha256": digest, "bytes": size, **changes}
    return write_card(path, replace(like.card, **changes))


class OnFake(Protocol):
    def __call__(self, device: FakeDevice, **how: Any) -> BenchRow: ...


@pytest.fixture
def on_fake(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> OnFake:
    """The row of one artifact with 10^5 operations a run: 0.1 ms at the fake device's 1 GFLOP/s."""
    monkeypatch.setattr("unplug.mobile_bench.drive._load", lambda: None)
    small = replace(onnx, card=replace(onnx.card, flops=10**5))

    def run(device: FakeDevice, **how: Any) -> BenchRow:
        monkeypatch.setitem(DEVICES._targets, "fake", device)
        how = {"plan": Plan(iterations=9, repeats=3), **how}
        (row,) = bench_artifacts([small], on="fake", **how).rows
        return row

    return run
