"""Arguments of operators as Python values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

Ops = dict[str, Callable[..., Any]]


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
