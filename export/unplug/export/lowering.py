"""Operators that a converter lacks, written in those that it has; and where that cannot be, which
layer holds the operator.

Imported in child processes only: it needs torch.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as fn

from unplug.core import ConversionError

from .targets.base import Target, TargetSource
from .targets.wrappers import Positional, examples

ATEN = torch.ops.aten
BROKEN = (
    RuntimeError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    AssertionError,
    ArithmeticError,
)
"""What converters raise at an operator that they lack, or have for other arguments."""
ROUNDS = 4
"""Rounds of lowering: what an operator is taken apart into may hold others that are lacking."""
HELD = ("node", "n", "fx_node")
"""What converters call the operator that they are at, in their own variables."""
WAY_OUT = "Write the layer in other operators, or export to another target"


def lowered(program: Any, knows: Callable[[str], bool]) -> Any:
    """An exported program whose operators the converter has.

    Args:
        program: a program from `torch.export.export`.
        knows: whether the converter has an operator of this name, for any arguments.
    """
    program = program.run_decompositions(REWRITES)
    for _ in range(ROUNDS):
        missing = {node.target for node in _calls(program.graph) if not knows(_name(node))}
        if (further := _taken_apart(program, missing)) is None:
            break
        program = further
    return program


def _taken_apart(program: Any, targets: Iterable[Any]) -> Any:
    """The program without operators that can be written in others, or None where none of them can."""
    known: Any = torch.export.default_decompositions()  # `get` does not see all that it has
    table = {
        target: OTHERWISE[target] if target in OTHERWISE else known[target]
        for target in targets
        if target in OTHERWISE or target in known
    }
    return program.run_decompositions(REWRITES | table) if table else None


def converted(convert: Callable[[Any], Any], program: Any, what: str) -> Any:
    """What a converter makes of a program; an operator at which it stops is taken apart, as far as
    that goes.

    Args:
        convert: a function that converts a program.
        program: see `lowered`.
        what: is made, for the error's line.

    Raises:
        ConversionError: it stops at an operator; names it and its layer.
    """
    for _ in range(ROUNDS):
        try:
            return convert(program)
        except BROKEN as error:
            node = _node_of(error, program)
            further = None if node is None else _taken_apart(program, [node.target])
            if further is None:
                raise _in_words(error, node, what) from error
            program = further
    with in_words(what, program):
        return convert(program)


def lowered_source(source: TargetSource) -> TargetSource:
    """A model that computes the same in operators that more converters have."""
    lacking = {str(target.overloadpacket).removeprefix("aten.") for target in OTHERWISE}
    program = lowered(
        torch.export.export(Positional(source), examples(source)), lambda name: name not in lacking
    )
    module = program.module()
    for name in ("train", "eval"):  # those of an exported module refuse, and wrappers call them
        module.__dict__.pop(name, None)
    return replace(source, model=module)


def prepared(target: Target, source: TargetSource) -> Any:
    """What `Target.prepare` makes: of the model in other operators, where its own are more than the
    converter has.
    """
    try:
        return target.prepare(source)
    except BROKEN:
        with suppress(*BROKEN):
            return target.prepare(lowered_source(source))
        raise  # the first one names the layers


@contextmanager
def in_words(what: str, program: Any = None) -> Iterator[None]:
    """Says of what a converter raises which operator of which layer it was at, in one line.

    Args:
        what: is made.
        program: the exported program that the converter was given, where names in its errors are of
            that.

    Raises:
        ConversionError: what a converter raised.
    """
    try:
        yield
    except BROKEN as error:
        raise _in_words(error, _node_of(error, program), what) from error


def _in_words(error: BaseException, node: fx.Node | None, what: str) -> ConversionError:
    line = _said(error)
    if node is None:
        return ConversionError(what, f"its converter stops: {line}", WAY_OUT)
    return ConversionError(
        what,
        f"its converter does not take operator {_name(node)} in {layer_of(node)} ({line})",
        WAY_OUT,
    )


def layer_of(node: fx.Node) -> str:
    """The path of the innermost module that an operator belongs to."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path = str(stack[-1][0]) if stack else ""
    return re.sub(r"^(L\['self'\]\.)?(model\.)*", "", path) or "the model"


def _calls(graph: fx.Graph) -> list[fx.Node]:
    return [
        node
        for node in graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    ]


def _name(node: fx.Node) -> str:
    return str(getattr(node.target, "overloadpacket", node.target)).removeprefix("aten.")


def _said(error: BaseException) -> str:
    """The line of an error that says what is wrong: the innermost cause's first, without colours."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [
        " ".join(line.split()) for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()
    ]
    return next((line for line in lines if line), type(error).__name__)[:200].rstrip(".")


def _node_of(error: BaseException, program: Any) -> fx.Node | None:
    """The operator that the innermost frame was at: converters keep it, or something of its name,
    in a variable.
    """
    nodes = {node.name: node for node in _calls(program.graph)} if program is not None else {}
    innermost: fx.Node | None = None
    cause: BaseException | None = error
    while cause is not None:
        for frame, _line in traceback.walk_tb(cause.__traceback__):
            for name in HELD:
                held = frame.f_locals.get(name)
                held = (
                    held if isinstance(held, fx.Node) else nodes.get(str(getattr(held, "name", "")))
                )
                if held is not None and held.op == "call_function":
                    innermost = held
        cause = cause.__cause__ or cause.__context__
    return innermost


# Pools


def _outside(length: int, kernel: int, stride: int, pad: int, dilation: int, ceil: bool) -> int:
    """How far the last window reaches beyond the padding of one side, 0 without `ceil`."""
    span = dilation * (kernel - 1) + 1
    steps = (length + 2 * pad - span) / stride
    count = (math.ceil(steps) if ceil else math.floor(steps)) + 1
    if (
        ceil and (count - 1) * stride >= length + pad
    ):  # a window that begins in the padding after is left out
        count -= 1
    return max(0, (count - 1) * stride + span - length - 2 * pad)


def _axes(
    x: Tensor, kernel: Any, stride: Any, pad: Any, dilation: Any, ceil: bool
) -> list[tuple[int, int, int, int, int]]:
    """(kernel, stride, padding, dilation, what the last window lacks) of both spatial axes."""
    axes = []
    for axis in range(2):
        k, s, p, d = (
            int(values[min(axis, len(values) - 1)])
            for values in (kernel, stride or kernel, pad or [0], dilation or [1])
        )
        axes.append((k, s, p, d, _outside(int(x.shape[axis - 2]), k, s, p, d, ceil)))
    return axes


def _padded(x: Tensor, axes: Any, value: float) -> Tensor:
    (_, _, top, _, below), (_, _, left, _, right) = axes
    padded: Tensor = ATEN.constant_pad_nd.default(x, [left, left + right, top, top + below], value)
    return padded


def max_pool2d(
    x: Tensor,
    kernel: Any,
    stride: Any = (),
    pad: Any = (0,),
    dilation: Any = (1,),
    ceil: bool = False,
) -> Any:
    """The largest of each window; the stride is the kernel where none is given, as in PyTorch."""
    axes = _axes(x, kernel, stride, pad, dilation, ceil)
    kernels, strides, pads, dilations, lacks = ([axis[n] for axis in axes] for n in range(5))
    if dilations == [1, 1]:
        if stride and not ceil:
            return NotImplemented
        if not any(lacks):
            return ATEN.max_pool2d.default(x, kernels, strides, pads, [1, 1], False)
        return ATEN.max_pool2d.default(
            _padded(x, axes, float("-inf")), kernels, strides, [0, 0], [1, 1], False
        )
    largest, wide = None, _padded(x, axes, float("-inf"))
    for row in range(kernels[0]):
        for column in range(kernels[1]):
            cut = wide
            for axis, place in ((-2, row), (-1, column)):
                span = dilations[axis] * (kernels[axis] - 1)
                start = place * dilations[axis]
                cut = ATEN.slice.Tensor(
                    cut, axis, start, int(wide.shape[axis]) - span + start, strides[axis]
                )
            largest = cut if largest is None else torch.maximum(largest, cut)
    return largest


def avg_pool2d(
    x: Tensor,
    kernel: Any,
    stride: Any = (),
    pad: Any = (0,),
    ceil: bool = False,
    count_pad: bool = True,
    divisor: Any = None,
) -> Any:
    """The mean of each window: what lies beyond the padding is not counted, with `ceil`, nor what a
    divisor leaves out.
    """
    if stride and not ceil and divisor is None:
        return NotImplemented
    axes = _axes(x, kernel, stride, pad, (), ceil)
    kernels, strides, pads, _, lacks = ([axis[n] for axis in axes] for n in range(5))
    if not any(lacks) and divisor is None:
        return ATEN.avg_pool2d.default(x, kernels, strides, pads, False, count_pad, None)
    means = ATEN.avg_pool2d.default(
        _padded(x, axes, 0.0), kernels, strides, [0, 0], False, True, None
    )
    if divisor is not None:
        return means * (math.prod(kernels) / divisor)
    ones = ATEN.full.default([1, 1, *x.shape[-2:]], 1.0)
    if count_pad:
        ones = ATEN.constant_pad_nd.default(ones, [pads[1], pads[1], pads[0], pads[0]], 1.0)
        axes = [(0, 0, 0, 0, lack) for lack in lacks]
    return means / ATEN.avg_pool2d.default(
        _padded(ones, axes, 0.0), kernels, strides, [0, 0], False, True, None
    )


def max_pool2d_with_indices(x: Tensor, kernel: Any, stride: Any = (), *rest: Any) -> Any:
    """Calls it with all of its arguments."""
    if stride or rest:
        return NotImplemented
    return ATEN.max_pool2d_with_indices.default(x, kernel, kernel)


def adaptive_max_pool2d(x: Tensor, size: Any) -> Any:
    """The largest of each cell of a grid, with no places."""
    sides = [(int(length), int(count)) for length, count in zip(x.shape[-2:], size, strict=True)]
    rows, columns = (
        [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)] for n, count in sides
    )
    cells = [
        [x[..., top:bottom, left:right].amax((-2, -1), keepdim=True) for left, right in columns]
        for top, bottom in rows
    ]
    values = torch.cat([torch.cat(row, -1) for row in cells], -2)
    return values, torch.zeros_like(values, dtype=torch.int64)


# Others


def pad(x: Tensor, sides: Any, mode: str = "constant", value: Any = None) -> Any:
    """Circular padding repeats the other end, and padding below 0 cuts off."""
    if mode != "circular" and min(sides) >= 0:
        return NotImplemented
    for axis in range(len(sides) // 2):
        before, after = sides[2 * axis : 2 * axis + 2]
        length, where = int(x.shape[-1 - axis]), -1 - axis
        if mode == "circular":
            x = torch.cat(
                [x.narrow(where, length - before, before), x, x.narrow(where, 0, after)], where
            )
        else:
            first, last = max(0, -before), max(0, -after)
            x = x.narrow(where, first, length - first - last)
    more = [max(0, side) for side in sides]
    return x if mode == "circular" or not any(more) else ATEN.pad.default(x, more, mode, value)


def unfold(x: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Windows of one axis, along a new one at the end."""
    count = (int(x.shape[axis]) - size) // step + 1
    return torch.stack(
        [x.narrow(axis, step * index, size).movedim(axis, -1) for index in range(count)],
        axis % x.ndim,
    )


def prod(x: Tensor, axis: int, keepdim: bool = False) -> Tensor:
    """Element by element."""
    parts = x.unbind(axis)
    product = math.prod(parts[1:], start=parts[0])
    return product.unsqueeze(axis) if keepdim else product


def fmod(x: Tensor, y: Any) -> Tensor:
    """What a division leaves, with the sign of x."""
    times = x / y
    left: Tensor = x - times.sign() * times.abs().floor() * y
    return left


REWRITES: dict[Any, Callable[..., Any]] = {
    ATEN.max_pool2d.default: max_pool2d,
    ATEN.max_pool2d_with_indices.default: max_pool2d_with_indices,
    ATEN.avg_pool2d.default: avg_pool2d,
    ATEN.pad.default: pad,
    ATEN.constant_pad_nd.default: lambda x, sides, value=0: pad(x, sides, "constant", value),
    ATEN.alias.default: lambda x: x,
}
"""Rewrites of operators that converters have for some arguments only."""
OTHERWISE: dict[Any, Callable[..., Any]] = {
    ATEN.adaptive_max_pool2d.default: adaptive_max_pool2d,
    ATEN.fmod.Scalar: fmod,
    ATEN.fmod.Tensor: fmod,
    ATEN.hypot.default: lambda x, y: (x * x + y * y).sqrt(),
    ATEN.prod.dim_int: prod,
    ATEN.rrelu.default: lambda x, low=1 / 8, high=1 / 3, *_: fn.leaky_relu(x, (low + high) / 2),
    ATEN.unfold.default: unfold,
    ATEN.lerp.Scalar: lambda x, y, weight: x + (y - x) * weight,
    ATEN.lerp.Tensor: lambda x, y, weight: x + (y - x) * weight,
    ATEN.cdist.default: lambda x, y, p=2.0, *_: (x.unsqueeze(-2) - y.unsqueeze(-3)).norm(p, -1),
    ATEN.var_mean.correction: lambda x, dim=None, **how: (
        x.var(dim, **how),
        x.mean(dim, how.get("keepdim", False)),
    ),
}
"""Rewrites of what some converters lack, and PyTorch takes apart into what they lack too."""
