"""Core ML's programs without a Mac: golden operators, whole programs converted from torch, planted
errors, hostile packages.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unplug.core import ArtifactError
from unplug.export import Session
from unplug.export.mil.evaluate import Evaluator
from unplug.export.mil.ops import OPS
from unplug.export.mil.program import Name, Operation, Program, TensorType, last_uses

from .children import CONVERTED, IN_HALF
from .conftest import Files, given, in_child, resigned

pytestmark = pytest.mark.nightly


def case(kind: str, wanted: Any, **arguments: Any) -> tuple[str, Any, dict[str, Any]]:
    """An operator, what it gives, and its arguments: numbers and lists become tensors."""
    return kind, wanted, arguments


def tensor(value: Any) -> Any:
    kept = isinstance(value, str | torch.Tensor) or (
        isinstance(value, list) and isinstance(value[0], torch.Tensor)
    )
    return value if kept else torch.tensor(value)


GRID = torch.arange(6).reshape(2, 3)
PAIRS = [torch.tensor([1, 2]), torch.tensor([3, 4])]
GOLDEN = [
    case("real_div", [3, -3], x=[7, -7], y=[2, 2]),
    case("floor_div", [3, -4], x=[7, -7], y=[2, 2]),
    case("rsqrt", [0.5], x=[3.0], epsilon=1.0),
    case("log", [0.0], x=[0.0], epsilon=1.0),
    case("clip", [0.0, 3.0, 6.0], x=[-1.0, 3.0, 9.0], alpha=0.0, beta=6.0),
    case("sigmoid_hard", [0.0, 0.5, 1.0], x=[-9.0, 0.0, 9.0], alpha=0.2, beta=0.5),
    case("gelu", [0.0, 0.8413447], x=[0.0, 1.0]),
    case("gelu", [0.8411920], x=[1.0], mode="TANH_APPROXIMATION"),
    case("gelu", [0.8457958], x=[1.0], mode="SIGMOID_APPROXIMATION"),
    case("reduce_mean", [3.0, 5.0], x=[[1.0, 3.0], [5.0, 7.0]], axes=[0]),
    case("reduce_sum", [[16.0]], x=[[1.0, 3.0], [5.0, 7.0]], keep_dims=True),
    case("reshape", torch.zeros(2, 2, 3), x=torch.zeros(2, 6), shape=[0, 2, -1]),
    case("expand_dims", torch.zeros(1, 3, 1), x=torch.zeros(3), axes=[0, -1]),
    case("concat", [1, 2, 3, 4], values=PAIRS, axis=0),
    case("concat", [1, 3, 2, 4], values=PAIRS, axis=0, interleave=True),
    case(
        "slice_by_index",
        [[2, 1, 0], [5, 4, 3]],
        x=GRID,
        begin=[0, 2],
        end=[2, 0],
        stride=[1, -1],
        begin_mask=[True, False],
        end_mask=[True, True],
    ),
    case("slice_by_index", [3, 4], x=GRID, begin=[1, 0], end=[2, 2], squeeze_mask=[True, False]),
    case("slice_by_size", [1, 2, 3, 4], x=torch.arange(5), begin=[1], size=[-1]),
    case("pad", [[5.0, 1.0, 1.0, 5.0, 5.0]], x=[[1.0, 1.0]], pad=[0, 0, 1, 2], constant_val=5.0),
    case("tile", [[1, 2], [1, 2]], x=[[1, 2]], reps=[2, 1]),
    case(
        "upsample_nearest_neighbor",
        [[[[1, 2], [1, 2]]]],
        x=[[[[1, 2]]]],
        scale_factor_height=2,
        scale_factor_width=1,
    ),
    case("gather", [[2, 1], [4, 3]], x=[[1, 2], [3, 4]], indices=[-1, 0], axis=1),
    case("matmul", [[11.0]], x=[[1.0, 2.0]], y=[[3.0, 4.0]], transpose_y=True),
    case("layer_norm", [[-1.0, 1.0]], x=[[1.0, 3.0]], axes=[-1], epsilon=0.0),
    case(
        "conv",
        [[[[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]]],
        x=torch.ones(1, 1, 3, 3),
        weight=torch.ones(1, 1, 3, 3),
        pad_type="same",
    ),
    # A stride of two on an even side: "same" pads after, "same_lower" before.
    *(
        case(
            "conv",
            wanted,
            x=[[[1.0, 2.0, 3.0, 4.0]]],
            weight=torch.ones(1, 1, 3),
            strides=[2],
            pad_type=pad_type,
        )
        for pad_type, wanted in (("same", [[[6.0, 7.0]]]), ("same_lower", [[[3.0, 9.0]]]))
    ),
    case(
        "conv",
        [[[2.0, 1.0]]],
        x=[[[1.0, 1.0]]],
        weight=[[[1.0, 1.0]]],
        pad_type="custom",
        pad=[0, 1],
    ),
    case(
        "conv_transpose",
        [[[1.0, 1.0, 2.0, 2.0]]],
        x=[[[1.0, 2.0]]],
        weight=[[[1.0, 1.0]]],
        strides=[2],
    ),
    case(
        "conv_transpose",
        [[[1.0, 2.0, 2.0, 0.0]]],
        x=[[[1.0, 2.0]]],
        weight=[[[1.0, 1.0]]],
        strides=[2],
        pad_type="custom",
        pad=[1, 0],
        output_shape=[1, 1, 4],
    ),
    case(
        "avg_pool",
        [[[1.0, 3.0]]],
        x=[[[2.0, 4.0]]],
        kernel_sizes=[2],
        pad_type="custom",
        pad=[1, 0],
    ),
    case(
        "avg_pool",
        [[[2.0, 3.0]]],
        x=[[[2.0, 4.0]]],
        kernel_sizes=[2],
        pad_type="custom",
        pad=[1, 0],
        exclude_padding_from_average=True,
    ),
    case(
        "max_pool",
        [[[-2.0, -2.0]]],
        x=[[[-2.0, -4.0]]],
        kernel_sizes=[2],
        pad_type="custom",
        pad=[1, 0],
    ),
    case(
        "constexpr_affine_dequantize",
        [[0.0, 2.0], [10.0, 20.0]],
        quantized_data=[[1, 2], [3, 4]],
        zero_point=[1, 2],
        scale=[2.0, 10.0],
        axis=0,
    ),
    case(
        "constexpr_lut_to_dense",
        [[0.0, 1.0], [2.0, 3.0]],
        indices=torch.tensor([0b11100100], dtype=torch.uint8),
        lut=[0.0, 1.0, 2.0, 3.0],
        shape=[2, 2],
    ),
    case(
        "constexpr_lut_to_dense",
        [[5.0, 6.0], [8.0, 7.0]],
        indices=[[0, 1], [1, 0]],
        lut=[[[[5.0], [6.0]]], [[[7.0], [8.0]]]],
    ),
    case(
        "constexpr_blockwise_shift_scale",
        [[1.0, 2.0, 20.0, 30.0]],
        data=[[1, 2, 3, 4]],
        scale=[[1.0, 10.0]],
        offset=[[0, 1]],
    ),
    case(
        "quantize",
        torch.tensor([10, 12, 208], dtype=torch.uint8),
        input=[0.25, 0.75, 99.0],
        scale=0.5,
        output_dtype="uint8",
        zero_point=10,
    ),
    case(
        "dequantize",
        [0.0, 1.0],
        input=torch.tensor([10, 12], dtype=torch.uint8),
        scale=0.5,
        zero_point=10,
    ),
]


@pytest.mark.parametrize(("kind", "wanted", "arguments"), GOLDEN)
def test_golden(kind: str, wanted: Any, arguments: dict[str, Any]) -> None:
    made = OPS[kind](**{name: tensor(value) for name, value in arguments.items()})
    torch.testing.assert_close(made, tensor(wanted))


def program(*operations: Operation, **inputs: TensorType) -> Program:
    return Program(
        path=Path("x.mlpackage"), inputs=inputs, outputs=("y",), constants={}, operations=operations
    )


def op(kind: str, out: str, declared: TensorType, **arguments: Any) -> Operation:
    values = {key: (value,) for key, value in arguments.items()}
    return Operation(kind=kind, name=f"the {kind}", arguments=values, outputs=((out, declared),))


X, TWO = Name("x"), TensorType(dtype="float32", shape=(2,))


def test_half_precision_is_rounded_after_every_operator() -> None:
    half = TensorType(dtype="float16", shape=(2,))
    steps = (op("add", "a", half, x=X, y=X), op("add", "y", half, x=Name("a"), y=np.float16(1.0)))
    made = Evaluator(program(*steps, x=half))({"x": np.array([2049.0, 1.0], np.float16)})["y"]
    assert made.dtype == np.float16
    assert made.tolist() == [np.float16(4096.0) + np.float16(1.0), 3.0]


def test_what_is_needed_no_more_is_dropped() -> None:
    steps = [op("relu", out, TWO, x=Name(source)) for source, out in ("xa", "ab", "by")]
    made = program(*steps, x=TWO)
    assert sorted(last_uses(made)) == [(0, "x"), (1, "a"), (2, "b")]
    seen: list[str] = []
    Evaluator(made)({"x": np.ones(2, np.float32)}, lambda _op, name, _value: seen.append(name))
    assert seen == ["a", "b", "y"]


THREE = TensorType(dtype="float32", shape=(3,))


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (
            op("conv", "y", TWO, x=X, weight=np.ones((1, 1, 3), np.float32)),
            "operator conv 'the conv' does not compute",
        ),
        (op("relu", "y", THREE, x=X), r"gives float32 \[2\] where float32 \[3\] is declared"),
        (op("relu", "y", TWO, x=Name("nowhere")), "cannot find 'nowhere'"),
        (op("relu", "y", TWO, x=X, much=np.float32(1)), "unexpected keyword argument 'much'"),
        (
            op("pad", "y", TWO, x=X, pad=np.array([1, 1]), mode="wrap"),
            r"cannot be evaluated here \(wrap padding",
        ),
        (
            op("lstm", "y", TWO, x=Name("nowhere")),  # named before anything runs
            r"lstm cannot be evaluated here \(first: operator lstm 'the lstm'\)",
        ),
    ],
)
def test_an_operator_that_does_not_compute_is_named(operation: Operation, words: str) -> None:
    with pytest.raises(ArtifactError, match=words):
        Evaluator(program(operation, x=TWO))({"x": np.ones(2, np.float32)})


LARGEST_ERROR = {"FLOAT32": 3e-6, "FLOAT16": 4e-3}
"""Of the largest value: a few roundings of 2^-24 and 2^-11."""


def test_what_torch_computes_after_coremltools_converted_it() -> None:
    arrays = in_child("convert").arrays
    assert len(arrays) == 2 * len(CONVERTED) + len(IN_HALF)
    for name in CONVERTED:
        wanted = arrays[f"{name} wanted"]
        for precision, allowed in LARGEST_ERROR.items():
            if (made := arrays.get(f"{name} {precision}")) is not None:
                assert made.shape == wanted.shape
                error = np.abs(made - wanted).max()
                assert error <= allowed * np.abs(wanted).max(), (name, precision)


def cut(pattern: str, keep: float, path: Path) -> None:
    file = next(path.glob(pattern))
    file.write_bytes(file.read_bytes()[: int(keep * file.stat().st_size)])


def edited(what: str, path: Path) -> None:
    in_child("edit", path=str(path), what=what)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (partial(edited, "operator"), r"fancy_conv cannot be evaluated here \(first: operator fan"),
        (partial(edited, "dynamic"), "'image' has a dynamic shape"),
        (partial(cut, "Data/*/*.mlmodel", 0.9), "its program is broken"),
        (partial(cut, "Data/*/weights/weight.bin", 0.5), "no constant begins"),
        (lambda path: shutil.rmtree(path / "Data"), "0 model files"),
    ],
)
def test_hostile_packages(
    by_name: Files, tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    artifact = resigned(by_name["age.fp32.mlpackage"], tmp_path, change)
    with pytest.raises(ArtifactError, match=words):
        Session(artifact).run(given(artifact))
