"""What delegates take, and a command that fails where they do not take all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.export import Artifact, coverage, export_checkpoint
from unplug.export.delegates import Coverage
from unplug.sdk.cli import main


@pytest.fixture(scope="module")
def artifacts(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    out = tmp_path_factory.mktemp("delegates")
    made = export_checkpoint(checkpoint, targets=["litert"], precisions=["fp32", "int8-dynamic"], out=out)
    return {item.card.precision: item for item in made}


def test_xnnpack_takes_all_of_a_float_file(artifacts: dict[str, Artifact]) -> None:
    found = coverage(artifacts["fp32"], "xnnpack")
    placed = found.placement
    assert found.whole and placed is not None and placed.nodes_delegated == placed.nodes_total
    assert placed.partitions == 1 and placed.left == ()
    assert str(found) == "age.fp32.tflite: xnnpack takes all of it"


def test_it_leaves_depthwise_convolutions_that_are_rounded_as_they_come(artifacts: dict[str, Artifact]) -> None:
    """Why int8-dynamic is a poor choice for these networks."""
    found = coverage(artifacts["int8-dynamic"], "xnnpack")
    blocks = 10
    placed = found.placement
    assert not found.whole and placed is not None and placed.left == ("DEPTHWISE_CONV_2D",) * blocks
    assert placed.nodes_delegated is not None and placed.nodes_total == placed.nodes_delegated + blocks
    assert str(found) == "age.int8-dynamic.tflite: xnnpack does not take 10 DEPTHWISE_CONV_2D"


def test_without_a_delegate_all_is_left(artifacts: dict[str, Artifact]) -> None:
    found = coverage(artifacts["fp32"], "none")
    assert not found.whole and found.placement is not None and len(found.placement.left) == found.placement.nodes_total


def test_a_reason_instead_of_counts() -> None:
    found = Coverage(file="a.tflite", delegate="gpu", whole=False, reason="it (no)")
    assert str(found) == "a.tflite: gpu does not take it (no)"


@pytest.mark.parametrize(
    "precisions", [("fp32", "int8-dynamic"), pytest.param(("fp32",), marks=pytest.mark.slow)], ids=["left", "whole"]
)
def test_the_command_fails_where_something_is_left(checkpoint: Path, tmp_path: Path, precisions: tuple[str, ...]) -> None:
    words = ["export", str(checkpoint), "--to", "litert", "--precision", ",".join(precisions), "--require-delegate", "xnnpack"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path), "--json"])
    assert done.exit_code == len(precisions) - 1, done.stderr
    assert [item["whole"] for item in json.loads(done.stdout)["delegates"]] == [True, False][: len(precisions)]
    assert all((tmp_path / f"age.{precision}.tflite").is_file() for precision in precisions)


def test_there_must_be_a_litert_file(checkpoint: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["export", str(checkpoint), "--to", "onnx", "--require-delegate", "gpu", "--out", str(tmp_path)]
    )
    assert done.exit_code == 2 and "no LiteRT file is exported" in done.stderr
