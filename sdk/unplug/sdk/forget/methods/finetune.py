"""Fine-tuning on the retain set: forgetting by neglect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from ..descent import Optimizer
from ..method import ForgetProblem, Need
from ..repair import Repair


@dataclass(frozen=True, kw_only=True)
class Finetune:
    """theta <- theta - lr grad L(D_r), for as long as the budget lasts; the forget set is never read.

    Args:
        lr: peak learning rate of a cosine.
        optimizer: see `Descent`.

    Reference:
        Golatkar et al., Eternal Sunshine of the Spotless Net, 2020, section 5 (baseline).
    """

    lr: float = 2e-3
    batch_size: int = 32
    optimizer: Optimizer = "adamw"

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "labels")
    default_budget: ClassVar[float | None] = 0.05

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Fine-tunes `model` in place."""
        return Repair(batch_size=self.batch_size, lr=self.lr, optimizer=self.optimizer)(model, problem)
