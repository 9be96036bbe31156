"""Exact short retraining: a network drawn anew and trained on the retain set for as long as the
budget lasts.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from unplug.sdk.learning.training import new_model

from ..descent import Repair
from ..method import ForgetProblem
from ..settings import Stepped


@dataclass(frozen=True, kw_only=True)
class ShortRetrain(Stepped):
    """theta ~ init; theta <- theta - lr grad L(D_r): nothing of the forget set is left, and little
    skill is there yet.

    The baseline that a method must beat at the same budget: what costs more and is worth less than
    this has no use.

    Args:
        lr: peak learning rate, rising and falling linearly.
        batch_size, optimizer: see `Repair`.

    Reference:
        The oracle of the unlearning literature, stopped at the budget.
    """

    lr: float = 4e-3

    needs = ("retain data", "labels")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Ignores `model`; the first weights follow from the problem's seed, as the oracle's do."""
        fresh = new_model(problem.task, problem.retain, problem.seed)
        return Repair(
            batch_size=self.batch_size, lr=self.lr, shape="up-down", optimizer=self.optimizer
        )(fresh, problem)
