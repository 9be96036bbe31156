"""SSD without labels: what moves the size of the outputs stands in for what moves the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from unplug.sdk.forgetting.tasks import Need

from ..method import ForgetProblem
from ..settings import check_settings, within
from .ssd import dampen_or_refuse, forget_and_all


@dataclass(frozen=True, kw_only=True)
class LabelFreeSSD:
    """Dampening as in `SSD`, with I_j = E |d ||f(x)||^2 / d theta_j| (f = the logits) instead of
    the Fisher information.

    Args:
        alpha: see `SSD`; these importances are first powers of gradients, so they differ less
            between sets. Published: 10.
        dampening: see `SSD`. Published: 1.

    Raises:
        InputError: a value out of range, or an alpha that selects no weight.

    Reference:
        Foster et al., Loss-Free Machine Unlearning, 2024, section 3.
    """

    alpha: float = within(1e-6, 1e12, 6.0)
    dampening: float = within(1e-6, 1e12, 1.0)

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "forget data", "class logits")
    default_budget: ClassVar[float | None] = 0.05

    def __post_init__(self) -> None:
        check_settings(self, "ssd-label-free")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Dampens `model` in place."""
        forget, everything = forget_and_all(
            model,
            problem,
            lambda outputs, _: problem.task.logits(outputs).square().sum(dim=1),
            power=1.0,
        )
        return dampen_or_refuse(model, forget, everything, self.alpha, self.dampening)
