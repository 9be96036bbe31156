"""Files whose images have their channels last: the same numbers, and no transposes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import InputError, TensorSpec, call_in_child
from unplug.export import Artifact, Session, export_checkpoint, measure_parity, random_inputs
from unplug.export.tensors import relaid
from unplug.plugins import load_checkpoint

pytestmark = pytest.mark.long

OPERATORS = """
from ai_edge_litert.interpreter import Interpreter

from unplug.core import Reply


def operators(job):
    runner = Interpreter(job.values["path"])
    return Reply(values={"names": [item["op_name"] for item in runner._get_ops_details()]})
"""


@pytest.fixture(scope="module")
def artifacts(channels_last: Mapping[str, Artifact]) -> list[Artifact]:
    return list(channels_last.values())


def test_the_card_says_so_and_the_numbers_are_the_checkpoints(
    artifacts: list[Artifact], checkpoint: Path
) -> None:
    own = load_checkpoint(checkpoint).model.iospec
    for item in artifacts:
        (image,) = item.card.iospec.inputs
        assert (image.layout, image.shape) == (
            "NHWC",
            (1, 32, 32, 3),
        ) and item.card.iospec == own.images_in("NHWC")
    report = measure_parity(
        artifacts, checkpoint, random_inputs(artifacts[0].card.iospec, 2, seed=2)
    )
    assert {row.status for row in report.rows} == {"pass"}, report.rows


def test_channels_first_in_channels_first_out(artifacts: list[Artifact], checkpoint: Path) -> None:
    own = load_checkpoint(checkpoint).model.iospec
    inputs = random_inputs(own, 2, seed=3)
    last = relaid(own.inputs, inputs, own.images_in("NHWC").inputs)
    assert np.array_equal(last["image"], inputs["image"].transpose(0, 2, 3, 1))
    item = next(item for item in artifacts if item.path.suffix == ".onnx")
    one, two = Session(item).run(last), Session(item).run_channels_first(inputs)
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("precision", ["fp32", "int8-static"])
def test_a_litert_file_has_no_transposes(
    channels_last: Mapping[str, Artifact],
    precision: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "operators.py").write_text(OPERATORS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    item = channels_last[f"age.{precision}.tflite"]
    names: list[Any] = call_in_child(
        "operators:operators", {"path": str(item.path)}, what="operators"
    ).values["names"]
    assert "TRANSPOSE" not in names and "CONV_2D" in names


@pytest.mark.nightly
@pytest.mark.parametrize("precision", ["palette8", "int8-weight", "int8-static"])
def test_newer_systems_for_core_ml(checkpoint: Path, tmp_path: Path, precision: str) -> None:
    """iOS 18 stores compressed weights by other operators; the numbers are the same."""
    calibration = random_inputs(load_checkpoint(checkpoint).model.iospec, 8, seed=1)
    made = export_checkpoint(
        checkpoint,
        targets=["coreml"],
        precisions=[precision],
        out=tmp_path,
        calibration=calibration,
        ios=18,
    )
    assert {item.card.minimum_ios for item in made} == {18}
    report = measure_parity(made, checkpoint, random_inputs(made[0].card.iospec, 2, seed=2))
    assert {row.status for row in report.rows} == {"pass"}, report.rows


def test_older_systems_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="iOS 12: Core ML files are not made for it here"):
        export_checkpoint(checkpoint, targets=["coreml"], out=tmp_path, ios=12)


def test_axes_must_be_the_same() -> None:
    spec = TensorSpec(name="x", shape=(1, 3, 4, 5), layout="NCHW")
    assert (
        spec.in_layout("NHWC").shape == (1, 4, 5, 3)
        and spec.height == spec.in_layout("NHWC").height == 4
    )
    with pytest.raises(ValueError, match="NHC has other axes than NCHW"):
        spec.in_layout("NHC")
