"""One file, several runtimes and delegates: what each takes and refuses, and that they agree."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from unplug.core import (
    ArtifactError,
    Child,
    ConversionError,
    InputError,
    MissingExtraError,
    sha256_tree,
)
from unplug.export import (
    Artifact,
    Session,
    compare,
    coverage,
    load_artifact,
    random_inputs,
    verdict,
)
from unplug.export.artifact import write_card
from unplug.export.delegates import Coverage
from unplug.sdk.cli import main

SAMPLES = 4
needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None, reason="the extra [tensorflow] is not installed"
)


@pytest.fixture(scope="module")
def artifacts(by_name: Mapping[str, Artifact]) -> list[Artifact]:
    return [by_name["age.fp32.tflite"], by_name["age.int8-static.tflite"]]


@pytest.mark.long
@needs_tensorflow
def test_the_older_interpreter_gives_the_same_numbers(artifacts: list[Artifact]) -> None:
    """In fp32 bit by bit, as DESIGN measured; in int8 within its tolerance."""
    inputs = random_inputs(artifacts[0].card.iospec, SAMPLES, seed=2)
    with Child() as child:
        for item, least_db in zip(artifacts, (np.inf, 30.0), strict=True):
            ours, theirs = (
                Session(item).run(inputs),
                Session(item, runtime="tensorflow", child=child).run(inputs),
            )
            assert all(
                verdict(compare(ours[name], theirs[name]), least_db) is None for name in ours
            )


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
    artifacts: list[Artifact], tmp_path: Path, keep: int, message: str
) -> None:
    """Unlike LiteRT, TensorFlow reads beyond the end of a file before it looks (2.21: a
    segmentation fault).
    """
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
    with pytest.raises(MissingExtraError, match=r"\[tensorflow\]"):
        Session(artifacts[0], runtime="tensorflow")


@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        ("age.fp32.onnx", "litert"),
        ("age.fp32.tflite", "onnx"),
        ("age.fp32.onnx", "tensorflow"),
        ("age.fp32.onnx", "mil"),
    ],
)
def test_a_runtime_of_other_files(by_name: Mapping[str, Artifact], name: str, runtime: str) -> None:
    with pytest.raises(
        InputError, match=rf"runtime '{runtime}': it runs .* files, and this is {name}"
    ):
        Session(by_name[name], runtime=runtime)


@pytest.mark.skipif("CUDA_PATH" in os.environ, reason="there may be a GPU here")
def test_without_cuda_it_says_so(by_name: Mapping[str, Artifact]) -> None:
    item = by_name["age.fp32.onnx"]
    with pytest.raises(
        InputError, match="delegate 'cuda': this ONNX Runtime has no CUDAExecutionProvider"
    ):
        Session(item, delegate="cuda").run(random_inputs(item.card.iospec, 1, seed=0))


MIN_PSNR_DB = 60.0
needs_device = pytest.mark.skipif(
    "VK_DRIVER_FILES" not in os.environ, reason="VK_DRIVER_FILES names no Vulkan driver"
)


@pytest.fixture(scope="module")
def by_precision(by_name: Mapping[str, Artifact]) -> dict[str, Artifact]:
    return {
        name: by_name[f"age.{name}.tflite"]
        for name in ("fp32", "fp16", "int8-weight", "int8-static")
    }


@needs_device
@pytest.mark.parametrize("precision", ["fp16", pytest.param("int8-weight", marks=pytest.mark.long)])
def test_the_gpu_takes_all_of_it_and_agrees_with_the_cpu(
    by_precision: dict[str, Artifact], precision: str
) -> None:
    item = by_precision[precision]
    inputs = random_inputs(item.card.iospec, 4, seed=2)
    on_gpu, on_cpu = (Session(item, delegate=name).run(inputs) for name in ("gpu", "xnnpack"))
    for name, wanted in on_cpu.items():
        assert verdict(compare(wanted, on_gpu[name]), MIN_PSNR_DB) is None, name
        assert not np.array_equal(wanted, on_gpu[name])  # it was another arithmetic


@pytest.mark.long
@needs_device
def test_static_int8_runs_there_within_its_own_tolerance(by_precision: dict[str, Artifact]) -> None:
    """The delegate computes in floats between the int8 tensors that the file names."""
    item = by_precision["int8-static"]
    inputs = random_inputs(item.card.iospec, 4, seed=2)
    on_gpu, on_cpu = (Session(item, delegate=name).run(inputs) for name in ("gpu", "xnnpack"))
    assert all(
        verdict(compare(wanted, on_gpu[name]), 30.0) is None for name, wanted in on_cpu.items()
    )


def test_without_a_device_it_says_so(
    by_precision: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", str(tmp_path / "none.json"))
    inputs = random_inputs(by_precision["fp32"].card.iospec, 1, seed=2)
    with pytest.raises(InputError, match="delegate 'gpu': there is no GPU here"):
        Session(by_precision["fp32"], delegate="gpu").run(inputs)


@pytest.fixture(scope="module")
def graded(by_name: Mapping[str, Artifact]) -> dict[str, Artifact]:
    return {precision: by_name[f"age.{precision}.tflite"] for precision in ("fp32", "int8-dynamic")}


def test_xnnpack_takes_all_of_a_float_file(graded: dict[str, Artifact]) -> None:
    found = coverage(graded["fp32"], "xnnpack")
    placed = found.placement
    assert found.whole and placed is not None and placed.nodes_delegated == placed.nodes_total
    assert placed.partitions == 1 and placed.left == ()
    assert str(found) == "age.fp32.tflite: xnnpack takes all of it"


def test_it_leaves_depthwise_convolutions_that_are_rounded_as_they_come(
    graded: dict[str, Artifact],
) -> None:
    """Why int8-dynamic is a poor choice for these networks."""
    found = coverage(graded["int8-dynamic"], "xnnpack")
    blocks = 10
    placed = found.placement
    assert not found.whole and placed is not None and placed.left == ("DEPTHWISE_CONV_2D",) * blocks
    assert (
        placed.nodes_delegated is not None and placed.nodes_total == placed.nodes_delegated + blocks
    )
    assert str(found) == "age.int8-dynamic.tflite: xnnpack does not take 10 DEPTHWISE_CONV_2D"


def test_without_a_delegate_all_is_left(graded: dict[str, Artifact]) -> None:
    found = coverage(graded["fp32"], "none")
    placed = found.placement
    assert not found.whole and placed is not None and len(placed.left) == placed.nodes_total
    assert (placed.delegate_got, placed.partitions, placed.nodes_delegated) == ("none", 0, 0)


def test_a_reason_instead_of_counts() -> None:
    found = Coverage(file="a.tflite", delegate="gpu", whole=False, reason="it (no)")
    assert str(found) == "a.tflite: gpu does not take it (no)"


@pytest.mark.long
def test_the_command_fails_where_something_is_left(
    graded: dict[str, Artifact], checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "unplug.export.export_checkpoint",
        lambda *_, precisions, **__: [graded[name] for name in precisions],
    )
    for precisions in ("fp32", "fp32,int8-dynamic"):
        words = [
            "export",
            str(checkpoint),
            "--to",
            "litert",
            "--precision",
            precisions,
            "--require-delegate",
            "xnnpack",
        ]
        done = CliRunner().invoke(main, [*words, "--out", str(tmp_path), "--json"])
        whole = [item["whole"] for item in json.loads(done.stdout)["delegates"]]
        assert whole == [name == "fp32" for name in precisions.split(",")] and done.exit_code == (
            not all(whole)
        ), done.stderr


def test_there_must_be_a_litert_file(checkpoint: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main,
        [
            "export",
            str(checkpoint),
            "--to",
            "onnx",
            "--require-delegate",
            "gpu",
            "--out",
            str(tmp_path),
        ],
    )
    assert done.exit_code == 2 and "no LiteRT file is exported" in done.stderr
