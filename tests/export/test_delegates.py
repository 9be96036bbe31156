"""What delegates take, and a command that fails where they do not take all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.export import Artifact, coverage
from unplug.export.delegates import Coverage
from unplug.sdk.cli import main


@pytest.fixture(scope="module")
def artifacts(by_name: dict[str, Artifact]) -> dict[str, Artifact]:
    return {precision: by_name[f"age.{precision}.tflite"] for precision in ("fp32", "int8-dynamic")}


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


@pytest.mark.long
def test_the_command_fails_where_something_is_left(
    artifacts: dict[str, Artifact], checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "unplug.export.export_checkpoint", lambda *_, precisions, **__: [artifacts[name] for name in precisions]
    )
    for precisions in ("fp32", "fp32,int8-dynamic"):
        words = ["export", str(checkpoint), "--to", "litert", "--precision", precisions, "--require-delegate", "xnnpack"]
        done = CliRunner().invoke(main, [*words, "--out", str(tmp_path), "--json"])
        whole = [item["whole"] for item in json.loads(done.stdout)["delegates"]]
        assert whole == [name == "fp32" for name in precisions.split(",")] and done.exit_code == (not all(whole)), done.stderr


def test_there_must_be_a_litert_file(checkpoint: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["export", str(checkpoint), "--to", "onnx", "--require-delegate", "gpu", "--out", str(tmp_path)]
    )
    assert done.exit_code == 2 and "no LiteRT file is exported" in done.stderr
