"""Arguments of operators as Python values; arithmetic, activations and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as fn

Ops = dict[str, Callable[..., Any]]


class Unknown(ValueError):
    """An operator has arguments that mean something, and that are not known here."""


def ints(value: Any) -> list[int]:
    """A list of integers from a tensor of any rank, or from several scalars."""
    if isinstance(value, list):
        return [int(item) for item in value]
    return [int(item) for item in value.reshape(-1).tolist()]


def tensors(value: Any) -> list[Tensor]:
    """A list argument: one tensor alone is a list of one."""
    return value if isinstance(value, list) else [value]


def flags(value: Any, count: int) -> list[bool]:
    """Booleans for each of some axes; None is all false."""
    if value is None:
        return [False] * count
    given = [bool(item) for item in value.reshape(-1).tolist()]
    return given + [False] * (count - len(given))


TYPES = {
    "fp16": torch.float16,
    "fp32": torch.float32,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}


def real_div(x: Tensor, y: Tensor) -> Tensor:
    # of integers a quotient too: it is cut off towards zero, as C does
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def _shifted(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """An operator that adds `epsilon` to its argument first."""

    def op(x: Tensor, epsilon: Tensor | None = None) -> Tensor:
        return function(x if epsilon is None else x + epsilon)

    return op


ARITHMETIC: Ops = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "real_div": real_div,
    "floor_div": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "pow": lambda x, y: torch.pow(x, y),
    "abs": lambda x: x.abs(),
    "ceil": lambda x: x.ceil(),
    "floor": lambda x: x.floor(),
    "round": lambda x: x.round(),
    "atan": lambda x: x.atan(),
    "sign": lambda x: x.sign(),
    "square": lambda x: x * x,
    "sqrt": lambda x: x.sqrt(),
    "rsqrt": _shifted(lambda x: x.rsqrt()),
    "inverse": _shifted(lambda x: 1 / x),
    "exp": lambda x: x.exp(),
    "exp2": lambda x: x.exp2(),
    "log": _shifted(lambda x: x.log()),
    "cos": lambda x: x.cos(),
    "sin": lambda x: x.sin(),
    "tanh": lambda x: x.tanh(),
    "erf": lambda x: x.erf(),
    "clip": lambda x, alpha, beta: x.clamp(float(alpha), float(beta)),
    "threshold": lambda x, alpha: x.clamp(min=float(alpha)),
    "cast": lambda x, dtype: x.to(TYPES[dtype]),
    "identity": lambda x: x,
    "select": lambda cond, a, b: torch.where(cond, a, b),
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "logical_and": lambda x, y: x & y,
    "logical_or": lambda x, y: x | y,
    "logical_not": lambda x: ~x,
}


def gelu(x: Tensor, mode: str = "EXACT") -> Tensor:
    if mode == "SIGMOID_APPROXIMATION":
        return x * torch.sigmoid(1.702 * x)
    return fn.gelu(x, approximate={"EXACT": "none", "TANH_APPROXIMATION": "tanh"}[mode])


ACTIVATION: Ops = {
    "gelu": gelu,
    "relu": lambda x: x.relu(),
    "relu6": lambda x: x.clamp(0.0, 6.0),
    "sigmoid": lambda x: x.sigmoid(),
    "silu": lambda x: fn.silu(x),
    "softplus": lambda x: fn.softplus(x),
    "softsign": lambda x: fn.softsign(x),
    "leaky_relu": lambda x, alpha: fn.leaky_relu(x, float(alpha)),
    "linear_activation": lambda x, alpha, beta: alpha * x + beta,
    "prelu": lambda x, alpha: fn.prelu(x, alpha),
    "elu": lambda x, alpha: fn.elu(x, float(alpha)),
    "thresholded_relu": lambda x, alpha: torch.where(x >= alpha, x, torch.zeros_like(x)),
    "sigmoid_hard": lambda x, alpha, beta: (alpha * x + beta).clamp(0.0, 1.0),
    "softmax": lambda x, axis: x.softmax(int(axis)),
}


def _over(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An operator that takes `axes` (all where there are none) and `keep_dims`."""

    def op(x: Tensor, axes: Any = None, keep_dims: Any = False) -> Tensor:
        chosen = list(range(x.ndim)) if axes is None else ints(axes)
        return reduce(x, chosen, keepdim=bool(keep_dims))

    return op


def _argument(find: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def op(x: Tensor, axis: Any, keep_dims: Any = False) -> Tensor:
        return find(x, int(axis), keepdim=bool(keep_dims)).int()

    return op


REDUCTION: Ops = {
    "reduce_mean": _over(torch.mean),
    "reduce_sum": _over(torch.sum),
    "reduce_max": _over(torch.amax),
    "reduce_min": _over(torch.amin),
    "reduce_sum_square": _over(lambda x, axes, keepdim: (x * x).sum(axes, keepdim)),
    "reduce_l2_norm": _over(lambda x, axes, keepdim: (x * x).sum(axes, keepdim).sqrt()),
    "reduce_log_sum_exp": _over(torch.logsumexp),
    "reduce_argmax": _argument(torch.argmax),
    "reduce_argmin": _argument(torch.argmin),
}


OPS: Ops = ARITHMETIC | ACTIVATION | REDUCTION
