"""Layer by layer: alignment by hand and against all alternatives, and planted errors that must be
named.
"""

from __future__ import annotations

import itertools
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given as drawn
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from unplug.core import ReportError, read_dataclass
from unplug.export import Explanation, explain
from unplug.export.layers.align import ELSEWHERE_DB, EXACT_DB, Nearness, align
from unplug.export.layers.tracers import as_floats
from unplug.plugins import load_checkpoint
from unplug.sdk.cli import main

from .conftest import Files, given, resigned
from .test_mil import edited

pytestmark = pytest.mark.long


# Alignment


def test_nearness_by_hand() -> None:
    """Errors of 1 in a peak of 10 are 20 dB; channels may be first or last; other shapes are
    nothing.
    """
    near, layer = Nearness(), np.arange(12.0).reshape(1, 3, 2, 2) - 1
    other, spoilt = np.zeros((1, 3, 4)), np.full(layer.shape, np.nan)
    near.add([layer], [layer, layer.transpose(0, 2, 3, 1), layer + 1, other, spoilt])
    twenty = pytest.approx(20.0)
    assert near.psnr_db().tolist() == [[EXACT_DB, EXACT_DB, twenty, -math.inf, -math.inf]]
    layer = layer * 10
    near.add([layer], [layer, layer.transpose(0, 2, 3, 1), layer + 1, other, layer])
    assert near.psnr_db()[0, 2] == pytest.approx(40.0) and near.max_abs_error(0, 2) == 1.0
    assert near.psnr_db()[0, 4] == -math.inf  # a NaN in one sample spoils it


def worth(psnr_MT: np.ndarray, row: int, column: int) -> float:
    best = max(psnr_MT[row].max(), psnr_MT[:, column].max())
    value = float(psnr_MT[row, column])
    return 0.0 if value == -math.inf or value < best - ELSEWHERE_DB else max(value, 0.0) + 1.0


@drawn(st.integers(1, 4), st.integers(1, 4), st.data())
def test_no_other_pairs_in_order_are_worth_more(
    layers: int, tensors: int, data: st.DataObject
) -> None:
    cells = st.one_of(st.just(-math.inf), st.floats(-30, 120))
    matrix = np.array([[data.draw(cells) for _ in range(tensors)] for _ in range(layers)])
    pairs = align(matrix)
    assert all(a < c and b < d for (a, b), (c, d) in itertools.pairwise(pairs))
    most = max(
        sum(worth(matrix, *pair) for pair in zip(rows, columns, strict=True))
        for size in range(min(layers, tensors) + 1)
        for rows in itertools.combinations(range(layers), size)
        for columns in itertools.combinations(range(tensors), size)
    )
    values = [worth(matrix, *pair) for pair in pairs]
    assert sum(values) == pytest.approx(most) and all(value > 0 for value in values)


def test_codes_by_channel() -> None:
    how = {
        "scales": np.array([0.5, 2.0]),
        "zero_points": np.array([0, 1]),
        "quantized_dimension": 1,
    }
    assert as_floats(np.array([[2, 2], [4, 0]], np.int8), how).tolist() == [[1.0, 2.0], [2.0, -2.0]]
    plain = {"scales": np.array([]), "zero_points": np.array([]), "quantized_dimension": 0}
    assert as_floats(np.array([3.5], np.float32), plain).tolist() == [3.5]


# Files


@pytest.fixture(scope="module")
def kernels(checkpoint: Path) -> list[str]:
    """Every convolution of the model; the last one's ReLU6 may be all that a file keeps of it."""
    modules = load_checkpoint(checkpoint).model.named_modules()
    return [name for name, layer in modules if isinstance(layer, nn.Conv2d)]


@pytest.mark.parametrize("precision", ["fp32", pytest.param("fp16", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("suffix", [".tflite", ".onnx", ".mlpackage"])
def test_every_convolution_is_found_and_near(
    by_name: Files,
    checkpoint: Path,
    kernels: list[str],
    precision: str,
    suffix: str,
) -> None:
    file = by_name[f"age.{precision}{suffix}"]
    told = explain(file, checkpoint, given(file, 2, seed=1))
    blocks = {name.rpartition(".")[0] for name in kernels}
    assert blocks <= {row.layer.rpartition(".")[0] for row in told.layers}
    assert told.first is None
    assert str(told).startswith(f"{file.path.name}: all {len(told.layers)} layers stay above")
    assert [row.layer for row in told.layers[-2:]] == ["age_logits", "expected_age"]


@pytest.mark.nightly
def test_channels_last_and_eight_bits(
    channels_last: Files, checkpoint: Path, kernels: list[str]
) -> None:
    file = channels_last["age.int8-static.tflite"]
    told = explain(file, checkpoint, given(file, 2, seed=2))
    assert len(told.layers) > len(kernels) and told.first is None
    # it is the quantized tensors that are looked at
    assert max(row.psnr_db or EXACT_DB for row in told.layers) < 70


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "what", "layer"),
    [
        ("age.fp32.mlpackage", "weight", "stem.0"),
        # The second padded convolution is the first depthwise one; all before it is untouched.
        ("age.fp16.mlpackage", "padding", "blocks.0.depthwise.0"),
    ],
)
def test_what_was_planted_is_named(
    by_name: Files,
    checkpoint: Path,
    tmp_path: Path,
    name: str,
    what: str,
    layer: str,
) -> None:
    file = resigned(by_name[name], tmp_path, partial(edited, what))
    told = explain(file, checkpoint, given(file, 2, seed=1))
    assert told.first is not None and told.layers[0].layer == "stem.0"
    assert (told.first.layer, told.first.operator) == (layer, "conv")
    assert f"first below {told.threshold_db:g} dB: operator conv" in str(told)


def test_other_weights_leave_at_the_first_layer(by_name: Files, other_checkpoint: Path) -> None:
    file = by_name["age.fp32.onnx"]
    told = explain(file, other_checkpoint, given(file, 2, seed=1))
    assert told.first is not None and told.first.layer.startswith("stem.")


def test_the_command_draws_and_writes(by_name: Files, checkpoint: Path, tmp_path: Path) -> None:
    words = ["parity", str(by_name["age.fp16.onnx"].path), "--checkpoint", str(checkpoint)]
    words += ["--samples", "2", "--walk", str(tmp_path), "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.stderr
    (value,) = json.loads(done.stdout)["layers"]
    saved = read_dataclass(Explanation, tmp_path / "age.fp16.onnx.json", ReportError)
    assert len(saved.layers) == len(value["layers"]) > 20 and saved.first is None
    with Image.open(tmp_path / "age.fp16.onnx.png") as picture:
        assert picture.width > 700 and len(picture.convert("RGB").getcolors(10**6) or []) > 20
