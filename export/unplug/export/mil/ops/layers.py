"""Layers with weights, their norms, and pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as fn

from .elementwise import Ops, Unknown, ints

CONV = {1: fn.conv1d, 2: fn.conv2d, 3: fn.conv3d}
CONV_TRANSPOSE = {1: fn.conv_transpose1d, 2: fn.conv_transpose2d, 3: fn.conv_transpose3d}


def sides(
    pad_type: str,
    pad: Any,
    size: list[int],
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
) -> list[tuple[int, int]]:
    """Padding (before, after) of each spatial axis."""
    if pad_type == "valid":
        return [(0, 0)] * len(size)
    if pad_type == "custom":
        given = ints(pad)
        return [(given[2 * axis], given[2 * axis + 1]) for axis in range(len(size))]
    pairs = []
    for length, width, stride, dilation in zip(size, kernel, strides, dilations, strict=True):
        total = max(0, (-(-length // stride) - 1) * stride + dilation * (width - 1) + 1 - length)
        less, more = total // 2, total - total // 2
        pairs.append({"same": (less, more), "same_lower": (more, less)}[pad_type])
    return pairs


def _each(given: Any, axes: int) -> list[int]:
    """Strides or dilations of the spatial axes; 1 where none are given."""
    return [1] * axes if given is None else ints(given)


def padded(x: Tensor, pairs: list[tuple[int, int]], value: float = 0.0) -> Tensor:
    """`x` with its spatial axes padded."""
    if not any(side for pair in pairs for side in pair):
        return x
    return fn.pad(x, [side for pair in reversed(pairs) for side in pair], value=value)


def conv(
    x: Tensor,
    weight: Tensor,
    strides: Any = None,
    pad_type: str = "valid",
    pad: Any = None,
    dilations: Any = None,
    groups: Any = 1,
    bias: Tensor | None = None,
) -> Tensor:
    axes = x.ndim - 2
    steps, spread = _each(strides, axes), _each(dilations, axes)
    x = padded(x, sides(pad_type, pad, list(x.shape[2:]), list(weight.shape[2:]), steps, spread))
    made: Tensor = CONV[axes](x, weight, bias, steps, 0, spread, int(groups))
    return made


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    pad: Any = None,
    output_shape: Any = None,
    pad_type: str = "valid",
    strides: Any = None,
    dilations: Any = None,
    groups: Any = 1,
) -> Tensor:
    axes = x.ndim - 2
    steps, spread = _each(strides, axes), _each(dilations, axes)
    whole: Tensor = CONV_TRANSPOSE[axes](x, weight, bias, steps, 0, 0, int(groups), spread)
    if pad_type not in ("valid", "custom"):
        raise Unknown(f"padding {pad_type!r}")
    given = [0] * (2 * axes) if pad_type == "valid" else ints(pad)
    wanted = None if output_shape is None else ints(output_shape)
    for axis in range(axes):
        first, last = given[2 * axis : 2 * axis + 2]
        length = whole.shape[axis + 2] - first - last if wanted is None else wanted[axis + 2]
        lacking = first + length - whole.shape[axis + 2]
        if lacking > 0:  # the output padding of a stride that leaves a rest
            whole = padded(whole, [(0, lacking if one == axis else 0) for one in range(axes)])
        whole = whole.narrow(axis + 2, first, length)
    return whole


def matmul(x: Tensor, y: Tensor, transpose_x: Any = False, transpose_y: Any = False) -> Tensor:
    return (x.mT if bool(transpose_x) else x) @ (y.mT if bool(transpose_y) else y)


def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: Any = 1e-5,
) -> Tensor:
    return fn.batch_norm(x, mean, variance, gamma, beta, eps=float(epsilon))


def instance_norm(
    x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: Any = 1e-5
) -> Tensor:
    return fn.instance_norm(x, weight=gamma, bias=beta, eps=float(epsilon))


def layer_norm(
    x: Tensor,
    axes: Any = None,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: Any = 1e-5,
) -> Tensor:
    chosen = list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in ints(axes)]
    if chosen != list(range(x.ndim - len(chosen), x.ndim)):
        raise Unknown(f"axes {chosen} are not the last ones")
    return fn.layer_norm(x, list(x.shape[-len(chosen) :]), gamma, beta, float(epsilon))


def _pool(reduce: Callable[[Tensor, int], Tensor], fill: float) -> Callable[..., Tensor]:
    """A pool over windows that are cut out one after another; `exclude_padding_from_average`
    divides by what is inside.
    """

    def op(
        x: Tensor,
        kernel_sizes: Any,
        strides: Any = None,
        pad_type: str = "valid",
        pad: Any = None,
        ceil_mode: Any = False,
        exclude_padding_from_average: Any = None,
    ) -> Tensor:
        if bool(ceil_mode):
            raise Unknown("ceil_mode")
        kernel, axes = ints(kernel_sizes), x.ndim - 2
        steps = _each(strides, axes)
        pairs = sides(pad_type, pad, list(x.shape[2:]), kernel, steps, [1] * axes)

        def windows(values: Tensor, value: float) -> Tensor:
            cut = padded(values, pairs, value)
            for axis in range(axes):
                cut = cut.unfold(axis + 2, kernel[axis], steps[axis])
            return reduce(cut.flatten(-axes), -1)

        pooled = windows(x, fill)
        if exclude_padding_from_average is not None and bool(exclude_padding_from_average):
            pooled = pooled / windows(torch.ones_like(x), 0.0)
        return pooled

    return op


OPS: Ops = {
    "conv": conv,
    "conv_transpose": conv_transpose,
    "linear": lambda x, weight, bias=None: fn.linear(x, weight, bias),
    "matmul": matmul,
    "einsum": lambda values, equation: torch.einsum(equation, *values),
    "scaled_dot_product_attention": lambda query, key, value, attn_mask=None: (
        fn.scaled_dot_product_attention(query, key, value, attn_mask)
    ),
    "batch_norm": batch_norm,
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "avg_pool": _pool(lambda values, axis: values.mean(axis), 0.0),
    "max_pool": _pool(lambda values, axis: values.amax(axis), float("-inf")),
}
