"""Exported files of one age model, and changes to ML Programs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.exported import age_checkpoint, age_files, age_files_channels_last, save_age_model

from unplug.core import call_in_child, sha256_tree
from unplug.export import Artifact, load_artifact
from unplug.export.artifact import write_card


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return age_checkpoint(tmp_path_factory)


@pytest.fixture(scope="session")
def other_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_age_model(tmp_path_factory.mktemp("checkpoint") / "other", seed=1)


@pytest.fixture(scope="session")
def by_name(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Artifact]:
    """All targets in all precisions; tests must not write to these files."""
    return age_files(tmp_path_factory)


@pytest.fixture(scope="session")
def channels_last(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Artifact]:
    return age_files_channels_last(tmp_path_factory)


@pytest.fixture(scope="session")
def exported(by_name: Mapping[str, Artifact]) -> list[Artifact]:
    """Those without samples."""
    return [item for item in by_name.values() if item.card.precision in ("fp32", "fp16")]


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Artifact, Callable[[Path], None]], Artifact]:
    """Makes a copy of a package, changed, with a card that vouches for the change."""

    def make(artifact: Artifact, change: Callable[[Path], None]) -> Artifact:
        path = tmp_path / artifact.path.name
        shutil.copytree(artifact.path, path)
        change(path)
        sha256, size = sha256_tree(path)
        write_card(path, replace(artifact.card, sha256=sha256, bytes=size))
        return load_artifact(path)

    return make


EDIT = """
from pathlib import Path
from unplug.core import Reply

def edit(job):
    import numpy as np
    import torch
    from coremltools.proto import Model_pb2
    from unplug.export.mil.package import Package
    file = next(Path(job.values["path"]).glob("Data/*/*.mlmodel"))
    spec = Model_pb2.Model()
    spec.ParseFromString(file.read_bytes())
    main = spec.mlProgram.functions["main"]
    block = main.block_specializations[main.opset]
    by_name = {item.outputs[0].name: item for item in block.operations}
    def given(item, name):
        return by_name[item.inputs[name].arguments[0].name].attributes["val"]
    convs = [item for item in block.operations if item.type == "conv"]
    if job.values["what"] == "padding":
        padded = [item for item in convs if given(item, "pad_type").immediateValue.tensor.strings.values[0] == "custom"]
        given(padded[1], "pad").immediateValue.tensor.ints.values[:] = [2, 0, 2, 0]  # the same shape, shifted by one pixel
    elif job.values["what"] == "weight":
        package = Package(Path(job.values["path"]))
        blob = given(convs[0], "weight").blobFileValue
        raw = bytes(package.blob(blob.fileName, blob.offset))
        weights = np.frombuffer(raw, job.values["dtype"]).copy()
        weights[np.abs(weights).argmax()] *= -1
        path = next(Path(job.values["path"]).glob("Data/*/weights/weight.bin"))
        path.write_bytes(path.read_bytes().replace(raw, weights.tobytes()))
    elif job.values["what"] == "operator":
        convs[3].type = "fancy_conv"
    elif job.values["what"] == "dynamic":
        main.inputs[0].type.tensorType.dimensions[0].unknown.variadic = False
    file.write_bytes(spec.SerializeToString())
    return Reply(values={})
"""


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[Path], None]]:
    """A change of the program by its name in `EDIT`."""
    (tmp_path / "edit_program.py").write_text(EDIT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def of(what: str, dtype: str = "float32") -> Callable[[Path], None]:
        def change(path: Path) -> None:
            call_in_child(
                "edit_program:edit", {"path": str(path), "what": what, "dtype": dtype}, what="edit"
            )

        return change

    return of
