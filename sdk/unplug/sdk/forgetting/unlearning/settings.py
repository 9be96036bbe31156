"""Hyperparameters that methods share, and the ranges of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unplug.core import InputError

from .descent import Optimizer, Repair


def check_range(method: str, low: float, high: float, **values: float) -> None:
    """Refuses settings outside [low, high], and those that are no numbers.

    Raises:
        InputError: naming the first such setting.

    Example:
        >>> check_range("scrub", 0.0, 1.0, alpha=0.5)
        >>> check_range("scrub", 0.0, 1.0, alpha=1.5)
        Traceback (most recent call last):
        unplug.core.errors.InputError: scrub alpha=1.5: out of range...
    """
    for name, value in values.items():
        if not low <= value <= high:
            raise InputError(f"{method} {name}={value}", "out of range", f"Use {low:g} to {high:g}")


def check_descent(lr: float, batch_size: int, optimizer: Optimizer) -> None:
    """Refuses what `Repair` and `Descent` refuse, before any work is done.

    Raises:
        InputError: a value out of range.
    """
    Repair(lr=lr, batch_size=batch_size, optimizer=optimizer)


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """What methods that take gradient steps have in common; each sets the rate that suits it.

    Args:
        lr: peak learning rate.
        batch_size: at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.
    """

    lr: float = 1e-3
    batch_size: int = 32
    optimizer: Optimizer = "adamw"

    default_budget: ClassVar[float | None] = 0.05

    def __post_init__(self) -> None:
        check_descent(self.lr, self.batch_size, self.optimizer)
