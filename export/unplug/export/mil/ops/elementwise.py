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
    found = [bool(item) for item in value.reshape(-1).tolist()]
    return found + [False] * (count - len(found))


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
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def rsqrt(x: Tensor, epsilon: Tensor | None = None) -> Tensor:
    return (x if epsilon is None else x + epsilon).rsqrt()


def inverse(x: Tensor, epsilon: Tensor | None = None) -> Tensor:
    return 1 / (x if epsilon is None else x + epsilon)


def log(x: Tensor, epsilon: Tensor | None = None) -> Tensor:
    return (x if epsilon is None else x + epsilon).log()


def clip(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return x.clamp(float(alpha), float(beta))


def threshold(x: Tensor, alpha: Tensor) -> Tensor:
    return x.clamp(min=float(alpha))


def cast(x: Tensor, dtype: str) -> Tensor:
    return x.to(TYPES[dtype])


def select(cond: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(cond, a, b)


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
    "rsqrt": rsqrt,
    "inverse": inverse,
    "exp": lambda x: x.exp(),
    "exp2": lambda x: x.exp2(),
    "log": log,
    "cos": lambda x: x.cos(),
    "sin": lambda x: x.sin(),
    "tanh": lambda x: x.tanh(),
    "erf": lambda x: x.erf(),
    "clip": clip,
    "threshold": threshold,
    "cast": cast,
    "identity": lambda x: x,
    "select": select,
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


def leaky_relu(x: Tensor, alpha: Tensor) -> Tensor:
    return fn.leaky_relu(x, float(alpha))


def prelu(x: Tensor, alpha: Tensor) -> Tensor:
    return fn.prelu(x, alpha)


def elu(x: Tensor, alpha: Tensor) -> Tensor:
    return fn.elu(x, float(alpha))


def sigmoid_hard(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return (alpha * x + beta).clamp(0.0, 1.0)


def thresholded_relu(x: Tensor, alpha: Tensor) -> Tensor:
    return torch.where(x >= alpha, x, torch.zeros_like(x))


def softmax(x: Tensor, axis: Tensor) -> Tensor:
    return x.softmax(int(axis))


ACTIVATION: Ops = {
    "gelu": gelu,
    "relu": lambda x: x.relu(),
    "relu6": lambda x: x.clamp(0.0, 6.0),
    "sigmoid": lambda x: x.sigmoid(),
    "silu": lambda x: fn.silu(x),
    "softplus": lambda x: fn.softplus(x),
    "softsign": lambda x: fn.softsign(x),
    "leaky_relu": leaky_relu,
    "linear_activation": lambda x, alpha, beta: alpha * x + beta,
    "prelu": prelu,
    "elu": elu,
    "thresholded_relu": thresholded_relu,
    "sigmoid_hard": sigmoid_hard,
    "softmax": softmax,
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
    "reduce_mean": _over(lambda x, axes, keepdim: x.mean(axes, keepdim=keepdim)),
    "reduce_sum": _over(lambda x, axes, keepdim: x.sum(axes, keepdim=keepdim)),
    "reduce_max": _over(lambda x, axes, keepdim: x.amax(axes, keepdim=keepdim)),
    "reduce_min": _over(lambda x, axes, keepdim: x.amin(axes, keepdim=keepdim)),
    "reduce_sum_square": _over(lambda x, axes, keepdim: (x * x).sum(axes, keepdim=keepdim)),
    "reduce_l2_norm": _over(lambda x, axes, keepdim: (x * x).sum(axes, keepdim=keepdim).sqrt()),
    "reduce_log_sum_exp": _over(lambda x, axes, keepdim: x.logsumexp(axes, keepdim=keepdim)),
    "reduce_argmax": _argument(lambda x, axis, keepdim: x.argmax(axis, keepdim=keepdim)),
    "reduce_argmin": _argument(lambda x, axis, keepdim: x.argmin(axis, keepdim=keepdim)),
}


OPS: Ops = ARITHMETIC | ACTIVATION | REDUCTION
