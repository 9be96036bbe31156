"""One file, several runtimes and delegates: what each takes and refuses, and that they agree."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from unplug.core import ArtifactError, ConversionError, InputError, MissingExtraError
from unplug.export import Artifact, Session, compare, coverage, verdict
from unplug.export.delegates import Coverage
from unplug.sdk.cli import main

from .conftest import Files, given, resigned

FP32, INT8, DYNAMIC = "age.fp32.tflite", "age.int8-static.tflite", "age.int8-dynamic.tflite"
needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None, reason="the extra [tensorflow] is not installed"
)
needs_device = pytest.mark.skipif(
    "VK_DRIVER_FILES" not in os.environ, reason="VK_DRIVER_FILES names no Vulkan driver"
)


def runs_on(artifact: Artifact, runtime: str | None, delegate: str | None) -> dict[str, np.ndarray]:
    return Session(artifact, runtime=runtime, delegate=delegate).run(given(artifact, 4, seed=2))


@pytest.mark.parametrize(
    ("name", "runtime", "delegate", "least_db"),
    [
        # in fp32 bit by bit, as DESIGN measured; in int8 within its tolerance
        *(
            pytest.param(name, "tensorflow", None, db, marks=[pytest.mark.long, needs_tensorflow])
            for name, db in ((FP32, np.inf), (INT8, 30.0))
        ),
        pytest.param("age.fp16.tflite", None, "gpu", 60.0, marks=needs_device),
        # the delegate computes in floats between the int8 tensors that the file names
        *(
            pytest.param(name, None, "gpu", db, marks=[pytest.mark.long, needs_device])
            for name, db in (("age.int8-weight.tflite", 60.0), (INT8, 30.0))
        ),
    ],
)
def test_another_runtime_or_delegate_agrees(
    by_name: Files,
    name: str,
    runtime: str | None,
    delegate: str | None,
    least_db: float,
) -> None:
    wanted = runs_on(by_name[name], None, "xnnpack")
    made = runs_on(by_name[name], runtime, delegate)
    for output, value in wanted.items():
        assert verdict(compare(value, made[output]), least_db) is None, output
        # on a GPU it was another arithmetic
        assert delegate is None or not np.array_equal(value, made[output])


@pytest.mark.long
@needs_tensorflow
@pytest.mark.parametrize(
    ("keep", "message"),
    [
        pytest.param(16, "tensorflow cannot load it", marks=pytest.mark.nightly),
        (5000, "on tensorflow: its child process"),
    ],
)
def test_a_truncated_file_is_refused_or_ends_the_child_alone(
    by_name: Files, tmp_path: Path, keep: int, message: str
) -> None:
    """Unlike LiteRT, TensorFlow reads beyond the end of a file before it looks (2.21: a
    segmentation fault).
    """
    forged = resigned(by_name[FP32], tmp_path, by_name[FP32].path.read_bytes()[:keep])
    with pytest.raises((ArtifactError, ConversionError), match=message):
        runs_on(forged, "tensorflow", None)


@pytest.mark.skipif(find_spec("tensorflow") is not None, reason="it is installed here")
def test_without_it_the_extra_is_named(by_name: Files) -> None:
    with pytest.raises(MissingExtraError, match=r"\[tensorflow\]"):
        Session(by_name[FP32], runtime="tensorflow")


@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        ("age.fp32.onnx", "litert"),
        (FP32, "onnx"),
        ("age.fp32.onnx", "tensorflow"),
        ("age.fp32.onnx", "mil"),
    ],
)
def test_a_runtime_of_other_files(by_name: Files, name: str, runtime: str) -> None:
    words = rf"runtime '{runtime}': it runs .* files, and this is {name}"
    with pytest.raises(InputError, match=words):
        Session(by_name[name], runtime=runtime)


@pytest.mark.parametrize(
    ("name", "delegate", "words"),
    [
        pytest.param(
            "age.fp32.onnx",
            "cuda",
            "delegate 'cuda': this ONNX Runtime has no CUDAExecutionProvider",
            marks=pytest.mark.skipif("CUDA_PATH" in os.environ, reason="a GPU may be here"),
        ),
        (FP32, "gpu", "delegate 'gpu': there is no GPU here"),
    ],
)
def test_without_a_device_it_says_so(
    by_name: Files,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    delegate: str,
    words: str,
) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/nowhere/none.json")
    with pytest.raises(InputError, match=words):
        runs_on(by_name[name], None, delegate)


BLOCKS = 10


@pytest.mark.parametrize(
    ("name", "delegate", "left", "partitions", "words"),
    [
        (FP32, "xnnpack", 0, 1, f"{FP32}: xnnpack takes all of it"),
        # depthwise convolutions that are rounded as they come: why int8-dynamic is a poor choice
        (
            DYNAMIC,
            "xnnpack",
            BLOCKS,
            None,
            f"{DYNAMIC}: xnnpack does not take 10 DEPTHWISE_CONV_2D",
        ),
        (FP32, "none", None, 0, f"{FP32}: none does not take "),
    ],
)
def test_what_a_delegate_takes(
    by_name: Files,
    name: str,
    delegate: str,
    left: int | None,
    partitions: int | None,
    words: str,
) -> None:
    covered = coverage(by_name[name], delegate)
    placed = covered.placement
    assert placed is not None and str(covered).startswith(words)
    assert len(placed.left) == (placed.nodes_total if left is None else left)
    assert covered.whole == (left == 0) and partitions in (None, placed.partitions)
    assert (placed.nodes_total, placed.delegate_got) == (
        placed.nodes_delegated + len(placed.left),
        delegate,
    )


def test_a_reason_instead_of_counts() -> None:
    covered = Coverage(file="a.tflite", delegate="gpu", whole=False, reason="it (no)")
    assert str(covered) == "a.tflite: gpu does not take it (no)"


def export(checkpoint: Path, out: Path, *words: str) -> object:
    return CliRunner().invoke(main, ["export", str(checkpoint), "--out", str(out), *words])


@pytest.mark.long
@pytest.mark.parametrize("precisions", ["fp32", "fp32,int8-dynamic"])
def test_the_command_fails_where_something_is_left(
    by_name: Files,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precisions: str,
) -> None:
    monkeypatch.setattr(
        "unplug.export.export_checkpoint",
        lambda *_, precisions, **__: [by_name[f"age.{name}.tflite"] for name in precisions],
    )
    words = ["--to", "litert", "--precision", precisions, "--require-delegate", "xnnpack"]
    done = export(checkpoint, tmp_path, *words, "--json")
    whole = [row["whole"] for row in json.loads(done.stdout)["delegates"]]
    assert whole == [name == "fp32" for name in precisions.split(",")]
    assert done.exit_code == (not all(whole)), done.stderr


def test_there_must_be_a_litert_file(checkpoint: Path, tmp_path: Path) -> None:
    done = export(checkpoint, tmp_path, "--to", "onnx", "--require-delegate", "gpu")
    assert done.exit_code == 2 and "no LiteRT file is exported" in done.stderr
