"""Layer by layer: alignment by hand and against all alternatives, and planted errors that must be
named.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from unplug.core import ReportError, read_dataclass
from unplug.export import Artifact, Explanation, explain, random_inputs
from unplug.export.layers.align import ELSEWHERE_DB, EXACT_DB, Nearness, align
from unplug.export.layers.tracers import as_floats
from unplug.plugins import load_checkpoint
from unplug.sdk.cli import main

pytestmark = pytest.mark.long

Change = Callable[[Artifact, Callable[[Path], None]], Artifact]
Edit = Callable[..., Callable[[Path], None]]
SAMPLES = 2


# Alignment


def test_nearness_by_hand() -> None:
    """Errors of 1 in a peak of 10 are 20 dB; channels may be first or last; other shapes are
    nothing.
    """
    layer = np.arange(12.0).reshape(1, 3, 2, 2) - 1
    near = Nearness()
    near.add(
        [layer],
        [
            layer,
            layer.transpose(0, 2, 3, 1),
            layer + 1,
            np.zeros((1, 3, 4)),
            np.full(layer.shape, np.nan),
        ],
    )
    assert near.psnr_db().tolist() == [
        [EXACT_DB, EXACT_DB, pytest.approx(20.0), -math.inf, -math.inf]
    ]
    near.add(
        [layer * 10],
        [
            layer * 10,
            layer.transpose(0, 2, 3, 1) * 10,
            layer * 10 + 1,
            np.zeros((1, 3, 4)),
            layer * 10,
        ],
    )
    assert near.psnr_db()[0, 2] == pytest.approx(40.0) and near.max_abs_error(0, 2) == 1.0
    assert near.psnr_db()[0, 4] == -math.inf  # a NaN in one sample spoils it


def worth(psnr_MT: np.ndarray, row: int, column: int) -> float:
    best = max(psnr_MT[row].max(), psnr_MT[:, column].max())
    value = float(psnr_MT[row, column])
    return 0.0 if value == -math.inf or value < best - ELSEWHERE_DB else max(value, 0.0) + 1.0


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_no_other_pairs_in_order_are_worth_more(
    layers: int, tensors: int, data: st.DataObject
) -> None:
    cells = st.one_of(st.just(-math.inf), st.floats(-30, 120))
    matrix = np.array([[data.draw(cells) for _ in range(tensors)] for _ in range(layers)])
    found = align(matrix)
    assert all(a < c and b < d for (a, b), (c, d) in itertools.pairwise(found))
    most = max(
        sum(worth(matrix, row, column) for row, column in zip(rows, columns, strict=True))
        for size in range(min(layers, tensors) + 1)
        for rows in itertools.combinations(range(layers), size)
        for columns in itertools.combinations(range(tensors), size)
    )
    assert sum(worth(matrix, row, column) for row, column in found) == pytest.approx(most)
    assert all(worth(matrix, row, column) > 0 for row, column in found)


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
    from torch import nn

    return [
        name
        for name, layer in load_checkpoint(checkpoint).model.named_modules()
        if isinstance(layer, nn.Conv2d)
    ]


@pytest.mark.parametrize("precision", ["fp32", pytest.param("fp16", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("suffix", [".tflite", ".onnx", ".mlpackage"])
def test_every_convolution_is_found_and_near(
    by_name: Mapping[str, Artifact],
    checkpoint: Path,
    kernels: list[str],
    precision: str,
    suffix: str,
) -> None:
    item = by_name[f"age.{precision}{suffix}"]
    found = explain(item, checkpoint, random_inputs(item.card.iospec, SAMPLES, seed=1))
    blocks = {name.rpartition(".")[0] for name in kernels}
    assert blocks <= {row.layer.rpartition(".")[0] for row in found.layers}
    assert found.first is None and str(found).startswith(
        f"{item.path.name}: all {len(found.layers)} layers stay above"
    )
    assert [row.layer for row in found.layers[-2:]] == ["age_logits", "expected_age"]


@pytest.mark.nightly
def test_channels_last_and_eight_bits(
    channels_last: Mapping[str, Artifact], checkpoint: Path, kernels: list[str]
) -> None:
    item = channels_last["age.int8-static.tflite"]
    found = explain(item, checkpoint, random_inputs(item.card.iospec, SAMPLES, seed=2))
    assert len(found.layers) > len(kernels) and found.first is None
    # it is the quantized tensors that are looked at
    assert max(row.psnr_db or EXACT_DB for row in found.layers) < 70


@pytest.mark.nightly
def test_a_planted_weight_is_named(
    by_name: Mapping[str, Artifact], checkpoint: Path, changed: Change, edit: Edit
) -> None:
    item = changed(by_name["age.fp32.mlpackage"], edit("weight"))
    found = explain(item, checkpoint, random_inputs(item.card.iospec, SAMPLES, seed=1))
    assert (
        found.first is found.layers[0]
        and found.first.layer == "stem.0"
        and found.first.operator == "conv"
    )
    assert "first below 100 dB: operator conv" in str(found)


@pytest.mark.nightly
def test_a_planted_padding_is_named(
    by_name: Mapping[str, Artifact], checkpoint: Path, changed: Change, edit: Edit
) -> None:
    """The second padded convolution is the first depthwise one; all before it is untouched."""
    item = changed(by_name["age.fp16.mlpackage"], edit("padding"))
    found = explain(item, checkpoint, random_inputs(item.card.iospec, SAMPLES, seed=1))
    assert (
        found.first is not None
        and found.first.layer == "blocks.0.depthwise.0"
        and found.first.operator == "conv"
    )
    assert found.layers[0].within and found.layers[0].layer == "stem.0"


def test_other_weights_leave_at_the_first_layer(
    by_name: Mapping[str, Artifact], other_checkpoint: Path
) -> None:
    item = by_name["age.fp32.onnx"]
    found = explain(item, other_checkpoint, random_inputs(item.card.iospec, SAMPLES, seed=1))
    assert found.first is not None and found.first.layer.startswith("stem.")


def test_the_command_draws_and_writes(
    by_name: Mapping[str, Artifact], checkpoint: Path, tmp_path: Path
) -> None:
    file, folder = by_name["age.fp16.onnx"].path, tmp_path / "layers"
    words = [
        "parity",
        str(file),
        "--checkpoint",
        str(checkpoint),
        "--samples",
        "2",
        "--explain",
        "--layers",
        str(folder),
    ]
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    (value,) = json.loads(done.stdout)["layers"]
    saved = read_dataclass(Explanation, folder / "age.fp16.onnx.json", ReportError)
    assert len(saved.layers) == len(value["layers"]) > 20 and saved.first is None
    with Image.open(folder / "age.fp16.onnx.png") as picture:
        assert picture.width > 700 and len(picture.convert("RGB").getcolors(10**6) or []) > 20
