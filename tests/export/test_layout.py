"""Files whose images have their channels last: the same numbers, and no transposes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unplug.core import TensorSpec
from unplug.export import Session, export_checkpoint, measure_parity, random_inputs
from unplug.export.tensors import relaid
from unplug.plugins import load_checkpoint

from .conftest import Files, given, in_child

pytestmark = pytest.mark.long


def test_the_card_says_so_and_the_numbers_are_the_checkpoints(
    channels_last: Files, checkpoint: Path
) -> None:
    files, iospec = list(channels_last.values()), load_checkpoint(checkpoint).model.iospec
    assert {file.card.iospec for file in files} == {iospec.images_in("NHWC")}
    (image,) = files[0].card.iospec.inputs
    assert (image.layout, image.shape) == ("NHWC", (1, 32, 32, 3))
    rows = measure_parity(files, checkpoint, given(files[0], 2, seed=2)).rows
    assert {row.status for row in rows} == {"pass"}, rows


def test_channels_first_in_channels_first_out(channels_last: Files, checkpoint: Path) -> None:
    iospec, file = load_checkpoint(checkpoint).model.iospec, channels_last["age.fp32.onnx"]
    inputs = random_inputs(iospec, 2, seed=3)
    last = relaid(iospec.inputs, inputs, file.card.iospec.inputs)
    assert np.array_equal(last["image"], inputs["image"].transpose(0, 2, 3, 1))
    one, two = Session(file).run(last), Session(file).run_channels_first(inputs)
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("precision", ["fp32", "int8-static"])
def test_a_litert_file_has_no_transposes(channels_last: Files, precision: str) -> None:
    path = channels_last[f"age.{precision}.tflite"].path
    names = in_child("litert_operators", path=str(path)).values["names"]
    assert "TRANSPOSE" not in names and "CONV_2D" in names


@pytest.mark.nightly
@pytest.mark.parametrize("precision", ["palette8", "int8-weight", "int8-static"])
def test_newer_systems_for_core_ml(checkpoint: Path, tmp_path: Path, precision: str) -> None:
    """iOS 18 stores compressed weights by other operators; the numbers are the same."""
    (file,) = export_checkpoint(
        checkpoint,
        targets=["coreml"],
        precisions=[precision],
        out=tmp_path,
        calibration=random_inputs(load_checkpoint(checkpoint).model.iospec, 8, seed=1),
        ios=18,
    )
    rows = measure_parity(file, checkpoint, given(file, 2, seed=2)).rows
    assert file.card.minimum_ios == 18 and {row.status for row in rows} == {"pass"}, rows


def test_axes_must_be_the_same() -> None:
    spec = TensorSpec(name="x", shape=(1, 3, 4, 5), layout="NCHW")
    last = spec.in_layout("NHWC")
    assert last.shape == (1, 4, 5, 3) and spec.height == last.height == 4
    with pytest.raises(ValueError, match="NHC has other axes than NCHW"):
        spec.in_layout("NHC")
