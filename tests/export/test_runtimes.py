"""One file, several runtimes: TensorFlow's interpreter beside LiteRT, and what cannot run a file."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from unplug.core import ArtifactError, Child, ConversionError, InputError, MissingExtraError, sha256_tree
from unplug.export import Artifact, Session, compare, load_artifact, random_inputs, verdict
from unplug.export.artifact import write_card

SAMPLES = 4
needs_tensorflow = pytest.mark.skipif(find_spec("tensorflow") is None, reason="the extra [tensorflow] is not installed")


@pytest.fixture(scope="module")
def artifacts(by_name: dict[str, Artifact]) -> list[Artifact]:
    return [by_name["age.fp32.tflite"], by_name["age.int8-static.tflite"]]


@pytest.mark.long
@needs_tensorflow
def test_the_older_interpreter_gives_the_same_numbers(artifacts: list[Artifact]) -> None:
    """In fp32 bit by bit, as DESIGN measured; in int8 within its tolerance."""
    inputs = random_inputs(artifacts[0].card.iospec, SAMPLES, seed=2)
    with Child() as child:
        for item, least_db in zip(artifacts, (np.inf, 30.0), strict=True):
            ours, theirs = Session(item).run(inputs), Session(item, runtime="tensorflow", child=child).run(inputs)
            assert all(verdict(compare(ours[name], theirs[name]), least_db) is None for name in ours)


@needs_tensorflow
@pytest.mark.parametrize(
    ("keep", "message"),
    [pytest.param(16, "tensorflow cannot load it", marks=pytest.mark.slow), (5000, "on tensorflow: its child process")],
)
def test_a_truncated_file_is_refused_or_ends_the_child_alone(
    artifacts: list[Artifact], tmp_path: Path, keep: int, message: str
) -> None:
    """Unlike LiteRT, TensorFlow reads beyond the end of a file before it looks (2.21: a segmentation fault)."""
    content, item = artifacts[0].path.read_bytes()[:keep], artifacts[0]
    path = tmp_path / item.path.name
    path.write_bytes(content)
    digest, size = sha256_tree(path)
    write_card(path, replace(item.card, sha256=digest, bytes=size))
    forged = load_artifact(path)
    with pytest.raises((ArtifactError, ConversionError), match=message):
        Session(forged, runtime="tensorflow").run(random_inputs(forged.card.iospec, 1, seed=0))
    with pytest.raises(ArtifactError, match="litert cannot load it"):
        Session(forged).run(random_inputs(forged.card.iospec, 1, seed=0))


@pytest.mark.skipif(find_spec("tensorflow") is not None, reason="it is installed here")
def test_without_it_the_extra_is_named(artifacts: list[Artifact]) -> None:
    with pytest.raises(MissingExtraError, match=r"unplug-sdk\[tensorflow\]"):
        Session(artifacts[0], runtime="tensorflow")


@pytest.mark.parametrize(
    ("name", "runtime"),
    [("age.fp32.onnx", "litert"), ("age.fp32.tflite", "onnx"), ("age.fp32.mlpackage", "tensorflow"), ("age.fp32.onnx", "mil")],
)
def test_a_runtime_of_other_files(by_name: dict[str, Artifact], name: str, runtime: str) -> None:
    with pytest.raises(InputError, match=rf"runtime '{runtime}': it runs .* files, and this is {name}"):
        Session(by_name[name], runtime=runtime)


@pytest.mark.skipif("CUDA_PATH" in os.environ, reason="there may be a GPU here")
def test_without_cuda_it_says_so(by_name: dict[str, Artifact]) -> None:
    item = by_name["age.fp32.onnx"]
    with pytest.raises(InputError, match="delegate 'cuda': this ONNX Runtime has no CUDAExecutionProvider"):
        Session(item, delegate="cuda").run(random_inputs(item.card.iospec, 1, seed=0))
