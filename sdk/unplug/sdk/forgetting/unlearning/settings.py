"""Hyperparameters that methods share, and the ranges of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.forgetting.tasks import Need

from .descent import Descent, Optimizer, Repair, Shape
from .method import ForgetProblem


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


def within(low: float, high: float, default: Any) -> Any:
    """A setting with its default, which `check_settings` holds to [low, high]."""
    return field(default=default, metadata={"range": (low, high)})


def check_settings(method: Any, name: str | None = None) -> None:
    """Refuses settings of a method that are out of the range that `within` gave them.

    Args:
        method: a frozen dataclass of settings.
        name: the name in the message; None is that of its class.

    Raises:
        InputError: naming the first such setting.
    """
    for setting in fields(method):
        if "range" in setting.metadata:
            value = {setting.name: getattr(method, setting.name)}
            check_range(name or type(method).__name__.lower(), *setting.metadata["range"], **value)


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """What methods that take gradient steps have in common; each sets the rate that suits it.

    Args:
        lr: peak learning rate.
        batch_size: the batch size, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.
    """

    lr: float = 1e-3
    batch_size: int = 32
    optimizer: Optimizer = "adamw"

    needs: ClassVar[tuple[Need, ...]]
    default_budget: ClassVar[float | None] = 0.05
    name: ClassVar[str | None] = None
    """In messages; None is that of the class in small letters."""

    def __post_init__(self) -> None:
        # refuses what they refuse, before any work is done
        Repair(lr=self.lr, batch_size=self.batch_size, optimizer=self.optimizer)
        check_settings(self, self.name)

    def descend(
        self,
        model: nn.Module,
        problem: ForgetProblem,
        loss: Callable[[], Tensor],
        steps: int,
        *,
        lr: float | None = None,
        shape: Shape = "cosine",
        **how: Any,
    ) -> nn.Module:
        """`Descent` with the method's optimizer, at its peak rate or another."""
        rate = self.lr if lr is None else lr
        descent = Descent(lr=rate, shape=shape, optimizer=self.optimizer)
        return descent(model, problem, loss, steps=steps, **how)
