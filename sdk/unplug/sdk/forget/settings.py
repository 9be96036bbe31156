"""Ranges of the hyperparameters of methods."""

from __future__ import annotations

from unplug.plugins.errors import InputError

from .descent import Optimizer
from .repair import Repair


def check_range(method: str, low: float, high: float, **values: float) -> None:
    """Refuses settings outside [low, high], and those that are no numbers.

    Raises:
        InputError: naming the first such setting.

    Example:
        >>> check_range("scrub", 0.0, 1.0, alpha=0.5)
        >>> check_range("scrub", 0.0, 1.0, alpha=1.5)
        Traceback (most recent call last):
        unplug.plugins.errors.InputError: scrub alpha=1.5: out of range...
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
