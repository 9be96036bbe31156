"""Fine-tuning on the retain set: forgetting by neglect."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from ..descent import Repair
from ..method import ForgetProblem
from ..settings import Stepped


@dataclass(frozen=True, kw_only=True)
class Finetune(Stepped):
    """theta <- theta - lr grad L(D_r), for as long as the budget lasts; the forget set is never
    read.

    Args:
        lr: peak learning rate of a cosine.
        optimizer: see `Descent`.

    Reference:
        Golatkar et al., Eternal Sunshine of the Spotless Net, 2020, section 5 (baseline).
    """

    lr: float = 2e-3

    needs = ("retain data", "labels")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Fine-tunes `model` in place."""
        return Repair(batch_size=self.batch_size, lr=self.lr, optimizer=self.optimizer)(
            model, problem
        )
