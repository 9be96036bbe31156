"""Core ML's programs without a Mac: golden operators, whole programs converted from torch, planted
errors, hostile packages.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unplug.core import ArtifactError, call_in_child
from unplug.export import Artifact, Session, random_inputs
from unplug.export.mil.evaluate import Evaluator
from unplug.export.mil.ops import OPS
from unplug.export.mil.program import Name, Operation, Program, TensorType, last_uses

pytestmark = pytest.mark.nightly

F32 = "float32"
Edit = Callable[..., Callable[[Path], None]]
Change = Callable[[Artifact, Callable[[Path], None]], Artifact]


def tensor(*values: Any) -> torch.Tensor:
    return torch.tensor(values)


GOLDEN: list[tuple[str, dict[str, Any], Any]] = [
    ("real_div", {"x": tensor(7, -7), "y": tensor(2, 2)}, tensor(3, -3)),
    ("floor_div", {"x": tensor(7, -7), "y": tensor(2, 2)}, tensor(3, -4)),
    ("rsqrt", {"x": tensor(3.0), "epsilon": torch.tensor(1.0)}, tensor(0.5)),
    ("log", {"x": tensor(0.0), "epsilon": torch.tensor(1.0)}, tensor(0.0)),
    (
        "clip",
        {"x": tensor(-1.0, 3.0, 9.0), "alpha": torch.tensor(0.0), "beta": torch.tensor(6.0)},
        tensor(0.0, 3.0, 6.0),
    ),
    (
        "sigmoid_hard",
        {"x": tensor(-9.0, 0.0, 9.0), "alpha": torch.tensor(0.2), "beta": torch.tensor(0.5)},
        tensor(0.0, 0.5, 1.0),
    ),
    ("gelu", {"x": tensor(0.0, 1.0)}, tensor(0.0, 0.8413447)),
    ("gelu", {"x": tensor(1.0), "mode": "TANH_APPROXIMATION"}, tensor(0.8411920)),
    ("gelu", {"x": tensor(1.0), "mode": "SIGMOID_APPROXIMATION"}, tensor(0.8457958)),
    ("reduce_mean", {"x": tensor([1.0, 3.0], [5.0, 7.0]), "axes": tensor(0)}, tensor(3.0, 5.0)),
    (
        "reduce_sum",
        {"x": tensor([1.0, 3.0], [5.0, 7.0]), "keep_dims": torch.tensor(True)},
        tensor([16.0]),
    ),
    ("reshape", {"x": torch.zeros(2, 6), "shape": tensor(0, 2, -1)}, torch.zeros(2, 2, 3)),
    ("expand_dims", {"x": torch.zeros(3), "axes": tensor(0, -1)}, torch.zeros(1, 3, 1)),
    (
        "concat",
        {"values": [tensor(1, 2), tensor(3, 4)], "axis": torch.tensor(0)},
        tensor(1, 2, 3, 4),
    ),
    (
        "concat",
        {
            "values": [tensor(1, 2), tensor(3, 4)],
            "axis": torch.tensor(0),
            "interleave": torch.tensor(True),
        },
        tensor(1, 3, 2, 4),
    ),
    (
        "slice_by_index",
        {
            "x": torch.arange(6).reshape(2, 3),
            "begin": tensor(0, 2),
            "end": tensor(2, 0),
            "stride": tensor(1, -1),
            "begin_mask": torch.tensor([True, False]),
            "end_mask": torch.tensor([True, True]),
        },
        tensor([2, 1, 0], [5, 4, 3]),
    ),
    (
        "slice_by_index",
        {
            "x": torch.arange(6).reshape(2, 3),
            "begin": tensor(1, 0),
            "end": tensor(2, 2),
            "squeeze_mask": torch.tensor([True, False]),
        },
        tensor(3, 4),
    ),
    (
        "slice_by_size",
        {"x": torch.arange(5), "begin": tensor(1), "size": tensor(-1)},
        tensor(1, 2, 3, 4),
    ),
    (
        "pad",
        {"x": torch.ones(1, 2), "pad": tensor(0, 0, 1, 2), "constant_val": torch.tensor(5.0)},
        tensor([5.0, 1.0, 1.0, 5.0, 5.0]),
    ),
    ("tile", {"x": tensor([1, 2]), "reps": tensor(2, 1)}, tensor([1, 2], [1, 2])),
    (
        "upsample_nearest_neighbor",
        {
            "x": tensor([[[1, 2]]]),
            "scale_factor_height": torch.tensor(2),
            "scale_factor_width": torch.tensor(1),
        },
        tensor([[[1, 2], [1, 2]]]),
    ),
    (
        "gather",
        {"x": tensor([1, 2], [3, 4]), "indices": tensor(-1, 0), "axis": torch.tensor(1)},
        tensor([2, 1], [4, 3]),
    ),
    (
        "matmul",
        {"x": tensor([1.0, 2.0]), "y": tensor([3.0, 4.0]), "transpose_y": torch.tensor(True)},
        tensor([11.0]),
    ),
    (
        "layer_norm",
        {"x": tensor([1.0, 3.0]), "axes": tensor(-1), "epsilon": torch.tensor(0.0)},
        tensor([-1.0, 1.0]),
    ),
    (
        "conv",
        {"x": torch.ones(1, 1, 3, 3), "weight": torch.ones(1, 1, 3, 3), "pad_type": "same"},
        tensor([[[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]]),
    ),
    # A stride of two on an even side: "same" pads after, "same_lower" before.
    (
        "conv",
        {
            "x": tensor([[1.0, 2.0, 3.0, 4.0]]),
            "weight": torch.ones(1, 1, 3),
            "strides": tensor(2),
            "pad_type": "same",
        },
        tensor([[6.0, 7.0]]),
    ),
    (
        "conv",
        {
            "x": tensor([[1.0, 2.0, 3.0, 4.0]]),
            "weight": torch.ones(1, 1, 3),
            "strides": tensor(2),
            "pad_type": "same_lower",
        },
        tensor([[3.0, 9.0]]),
    ),
    (
        "conv",
        {
            "x": torch.ones(1, 1, 2),
            "weight": torch.ones(1, 1, 2),
            "pad_type": "custom",
            "pad": tensor(0, 1),
        },
        tensor([[2.0, 1.0]]),
    ),
    (
        "conv_transpose",
        {"x": tensor([[1.0, 2.0]]), "weight": torch.ones(1, 1, 2), "strides": tensor(2)},
        tensor([[1.0, 1.0, 2.0, 2.0]]),
    ),
    (
        "conv_transpose",
        {
            "x": tensor([[1.0, 2.0]]),
            "weight": torch.ones(1, 1, 2),
            "strides": tensor(2),
            "pad_type": "custom",
            "pad": tensor(1, 0),
            "output_shape": tensor(1, 1, 4),
        },
        tensor([[1.0, 2.0, 2.0, 0.0]]),
    ),
    (
        "avg_pool",
        {
            "x": tensor([[2.0, 4.0]]),
            "kernel_sizes": tensor(2),
            "pad_type": "custom",
            "pad": tensor(1, 0),
        },
        tensor([[1.0, 3.0]]),
    ),
    (
        "avg_pool",
        {
            "x": tensor([[2.0, 4.0]]),
            "kernel_sizes": tensor(2),
            "pad_type": "custom",
            "pad": tensor(1, 0),
            "exclude_padding_from_average": torch.tensor(True),
        },
        tensor([[2.0, 3.0]]),
    ),
    (
        "max_pool",
        {
            "x": tensor([[-2.0, -4.0]]),
            "kernel_sizes": tensor(2),
            "pad_type": "custom",
            "pad": tensor(1, 0),
        },
        tensor([[-2.0, -2.0]]),
    ),
    (
        "constexpr_affine_dequantize",
        {
            "quantized_data": tensor([1, 2], [3, 4]),
            "zero_point": tensor(1, 2),
            "scale": tensor(2.0, 10.0),
            "axis": torch.tensor(0),
        },
        tensor([0.0, 2.0], [10.0, 20.0]),
    ),
    (
        "constexpr_lut_to_dense",
        {
            "indices": torch.tensor([0b11100100], dtype=torch.uint8),
            "lut": tensor(0.0, 1.0, 2.0, 3.0),
            "shape": tensor(2, 2),
        },
        tensor([0.0, 1.0], [2.0, 3.0]),
    ),
    (
        "constexpr_lut_to_dense",
        {"indices": tensor([0, 1], [1, 0]), "lut": tensor([[[5.0], [6.0]]], [[[7.0], [8.0]]])},
        tensor([5.0, 6.0], [8.0, 7.0]),
    ),
    (
        "constexpr_blockwise_shift_scale",
        {"data": tensor([1, 2, 3, 4]), "scale": tensor([1.0, 10.0]), "offset": tensor([0, 1])},
        tensor([1.0, 2.0, 20.0, 30.0]),
    ),
    (
        "quantize",
        {
            "input": tensor(0.25, 0.75, 99.0),
            "scale": torch.tensor(0.5),
            "output_dtype": "uint8",
            "zero_point": torch.tensor(10),
        },
        torch.tensor([10, 12, 208], dtype=torch.uint8),
    ),
    (
        "dequantize",
        {
            "input": torch.tensor([10, 12], dtype=torch.uint8),
            "scale": torch.tensor(0.5),
            "zero_point": torch.tensor(10),
        },
        tensor(0.0, 1.0),
    ),
]


@pytest.mark.parametrize(
    ("kind", "arguments", "wanted"),
    GOLDEN,
    ids=[f"{kind}-{n}" for n, (kind, *_) in enumerate(GOLDEN)],
)
def test_golden(kind: str, arguments: dict[str, Any], wanted: torch.Tensor) -> None:
    torch.testing.assert_close(OPS[kind](**arguments), wanted)


def program(
    *operations: Operation, outputs: tuple[str, ...] = ("y",), **inputs: TensorType
) -> Program:
    return Program(
        path=Path("x.mlpackage"),
        inputs=inputs,
        outputs=outputs,
        constants={},
        operations=operations,
    )


def op(kind: str, out: str, declared: TensorType, **arguments: Any) -> Operation:
    given = {key: (value,) for key, value in arguments.items()}
    return Operation(kind=kind, name=f"the {kind}", arguments=given, outputs=((out, declared),))


TWO = TensorType(dtype=F32, shape=(2,))


def test_half_precision_is_rounded_after_every_operator() -> None:
    half = TensorType(dtype="float16", shape=(2,))
    small = np.array([2049.0, 1.0], np.float16)
    steps = (
        op("add", "a", half, x=Name("x"), y=Name("x")),
        op("add", "y", half, x=Name("a"), y=np.float16(1.0)),
    )
    found = Evaluator(program(*steps, x=half))({"x": small})["y"]
    assert found.dtype == np.float16 and found.tolist() == [
        np.float16(4096.0) + np.float16(1.0),
        3.0,
    ]


def test_what_is_needed_no_more_is_dropped() -> None:
    steps = [
        op("relu", name, TWO, x=Name(source))
        for source, name in (("x", "a"), ("a", "b"), ("b", "y"))
    ]
    made = program(*steps, x=TWO)
    assert sorted(last_uses(made)) == [(0, "x"), (1, "a"), (2, "b")]
    seen: list[str] = []
    Evaluator(made)(
        {"x": np.ones(2, np.float32)}, watch=lambda _op, name, _value: seen.append(name)
    )
    assert seen == ["a", "b", "y"]


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (
            op("conv", "y", TWO, x=Name("x"), weight=np.ones((1, 1, 3), np.float32)),
            "operator conv 'the conv' does not compute",
        ),
        (
            op("relu", "y", TensorType(dtype=F32, shape=(3,)), x=Name("x")),
            r"gives float32 \[2\] where float32 \[3\] is declared",
        ),
        (op("relu", "y", TWO, x=Name("nowhere")), "cannot find 'nowhere'"),
        (
            op("relu", "y", TWO, x=Name("x"), much=np.float32(1)),
            "unexpected keyword argument 'much'",
        ),
        (
            op("pad", "y", TWO, x=Name("x"), pad=np.array([1, 1]), mode="wrap"),
            r"cannot be evaluated here \(wrap padding",
        ),
    ],
)
def test_an_operator_that_does_not_compute_is_named(operation: Operation, words: str) -> None:
    with pytest.raises(ArtifactError, match=words):
        Evaluator(program(operation, x=TWO))({"x": np.ones(2, np.float32)})


def test_unknown_operators_are_named_before_anything_runs() -> None:
    with pytest.raises(
        ArtifactError,
        match=r"fft, lstm cannot be evaluated here \(first: operator lstm 'the lstm'\)",
    ):
        Evaluator(
            program(op("lstm", "a", TWO, x=Name("x")), op("fft", "y", TWO, x=Name("a")), x=TWO)
        )


CONVERT = '''
import numpy as np
import torch
from torch import nn
from torch.nn import functional as fn
from unplug.core import Reply
from unplug.export.mil.evaluate import Evaluator
from unplug.export.mil.program import read_program

class Made(nn.Module):
    """A function with two weights of its own."""
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(6, 4, 3, 3))
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x):
        return self.function(self, x)

CASES = {
    "conv": lambda m, x: fn.conv2d(x, m.weight, m.bias, stride=2, padding=(1, 0), dilation=(1, 2)),
    "depthwise": lambda m, x: fn.conv2d(x, m.weight[:4, :1], m.bias[:4], padding=1, groups=4),
    "padded": lambda m, x: fn.conv2d(fn.pad(x, (0, 1, 0, 1)), m.weight, m.bias, stride=2),
    "transposed": lambda m, x: fn.conv_transpose2d(x, m.weight.transpose(0, 1), m.bias, stride=2, padding=1, output_padding=1),
    "norms": lambda m, x: fn.layer_norm(fn.group_norm(x, 2), [7], eps=1e-3),
    "batch norm": lambda m, x: fn.batch_norm(x, m.bias[:4].detach(), m.bias[:4].exp().detach(), eps=1e-3),
    "activations": lambda m, x: fn.hardswish(x) + fn.silu(x) + fn.gelu(x) + fn.relu6(x)
    + fn.leaky_relu(x, 0.2) + fn.elu(x) + fn.hardsigmoid(x) + x.tanh() + x.sigmoid() + fn.softplus(x) + fn.softmax(x, 1),
    "pools": lambda m, x: fn.avg_pool2d(x, 3, 2, 1) + fn.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    + fn.max_pool2d(x, 3, 2, 1) + fn.adaptive_avg_pool2d(x, 1),
    "shapes": lambda m, x: torch.cat([x.flatten(1)[:, 1::2].unsqueeze(-1), x.flatten(1)[:, ::2].unsqueeze(-1)], -1)
    .transpose(1, 2).repeat(1, 1, 2).split([1, 1], 1)[1].squeeze(1),
    "resize": lambda m, x: fn.interpolate(x, scale_factor=2.0, mode="nearest")
    + fn.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False),
    "attention": lambda m, x: fn.scaled_dot_product_attention(x.flatten(2), x.flatten(2) * 2, x.flatten(2)),
    "reductions": lambda m, x: x.mean((2, 3)) + x.amax((2, 3)) + x.amin((2, 3)) + x.sum((2, 3)) + x.square().mean((2, 3)).sqrt()
    + x.logsumexp((2, 3)),
    "arithmetic": lambda m, x: (x.abs() + 1).log() + (x.abs() + 0.1).rsqrt() + x.exp() + x.sin() * x.cos() + x.erf()
    + torch.maximum(x, x.floor()) - torch.minimum(x, x.ceil()) + torch.where(x > 0, x, x.pow(2.0)),
}

HALF = ("conv", "norms", "attention")

def convert(job):
    import coremltools as ct

    torch.manual_seed(0)
    x = torch.randn(1, 4, 7, 7)
    arrays = {}
    for name, function in CASES.items():
        model = Made(function).eval()
        with torch.no_grad():
            arrays[f"{name} wanted"] = model(x).numpy()
        program = torch.export.export(model, (x,)).run_decompositions({})
        for precision in ("FLOAT32", "FLOAT16")[: 2 if name in HALF else 1]:
            made = ct.convert(
                program, inputs=[ct.TensorType(name="x", shape=tuple(x.shape), dtype=np.float32)],
                outputs=[ct.TensorType(name="y", dtype=np.float32)],
                convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17, skip_model_load=True,
                compute_precision=getattr(ct.precision, precision),
            )
            path = job.folder / f"{name}.{precision}.mlpackage"
            made.save(str(path))
            arrays[f"{name} {precision}"] = Evaluator(read_program(path))({"x": x.numpy()})["y"]
    return Reply(values={"cases": list(CASES), "half": HALF}, arrays=arrays)
'''
FP32_ERROR, FP16_ERROR = 3e-6, 4e-3  # of the largest value: a few roundings of 2^-24 and 2^-11


@pytest.mark.nightly
def test_what_torch_computes_after_coremltools_converted_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "convert_cases.py").write_text(CONVERT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    reply = call_in_child("convert_cases:convert", {}, what="conversion")
    for name in reply.values["cases"]:
        wanted = reply.arrays[f"{name} wanted"]
        for precision, allowed in (("FLOAT32", FP32_ERROR), ("FLOAT16", FP16_ERROR))[
            : 2 if name in reply.values["half"] else 1
        ]:
            found = reply.arrays[f"{name} {precision}"]
            assert found.shape == wanted.shape
            assert np.abs(found - wanted).max() <= allowed * np.abs(wanted).max(), (name, precision)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("operator", r"fancy_conv cannot be evaluated here \(first: operator fancy_conv"),
        pytest.param("dynamic", "'image' has a dynamic shape", marks=pytest.mark.nightly),
    ],
)
def test_hostile_programs(
    by_name: Mapping[str, Artifact], changed: Change, edit: Edit, what: str, words: str
) -> None:
    artifact = changed(by_name["age.fp32.mlpackage"], edit(what))
    with pytest.raises(ArtifactError, match=words):
        Session(artifact).run(random_inputs(artifact.card.iospec, 1, seed=0))


def truncate(path: Path) -> None:
    file = next(path.glob("Data/*/*.mlmodel"))
    file.write_bytes(file.read_bytes()[:-200])


def cut_weights(path: Path) -> None:
    file = next(path.glob("Data/*/weights/weight.bin"))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(path: Path) -> None:
    shutil.rmtree(path / "Data")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(truncate, "its program is broken", marks=pytest.mark.nightly),
        (cut_weights, "no constant begins"),
        pytest.param(empty, "0 model files", marks=pytest.mark.nightly),
    ],
)
def test_broken_packages(
    by_name: Mapping[str, Artifact], changed: Change, change: Callable[[Path], None], words: str
) -> None:
    artifact = changed(by_name["age.fp16.mlpackage"], change)
    with pytest.raises(ArtifactError, match=words):
        Session(artifact).run(random_inputs(artifact.card.iospec, 1, seed=0))
