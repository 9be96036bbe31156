"""Element by element."""

from __future__ import annotations

import torch
from torch import Tensor

from .arguments import Ops

TYPES = {
    "fp16": torch.float16, "fp32": torch.float32, "int32": torch.int32, "int16": torch.int16, "int8": torch.int8,
    "uint8": torch.uint8, "bool": torch.bool,
}  # fmt: skip


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


OPS: Ops = {
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
