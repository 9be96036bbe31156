"""L1-sparse: fine-tuning that also drives weights to zero, less and less."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from unplug.sdk.forgetting.tasks import Need

from ..descent import Descent, plan
from ..method import ForgetProblem
from ..settings import Stepped, check_range


@dataclass(frozen=True, kw_only=True)
class L1Sparse(Stepped):
    """theta <- theta - lr grad [ L(D_r) + gamma_t ||theta||_1 ], gamma_t = gamma (1 - t / steps);
    the forget set is not read.

    Args:
        gamma: weight of the norm of all parameters in the first step, 0 to 1. Published: 5e-4 with
            SGD at .01, 10 epochs.
        lr: peak learning rate of a cosine.
        batch_size: at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Jia et al., Model Sparsity Can Simplify Machine Unlearning, 2023, section 4 (l1-sparse MU).
    """

    gamma: float = 5e-4
    lr: float = 3e-3

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "labels")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("l1-sparse", 0.0, 1.0, gamma=self.gamma)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Fine-tunes in place."""
        size = min(self.batch_size, len(problem.retain))
        batches, steps, count = (
            problem.batches(problem.retain, size),
            plan(problem, 3.0 * size),
            itertools.count(),
        )

        def loss() -> Tensor:
            weight = self.gamma * (1.0 - next(count) / steps)
            return problem.loss(model, next(batches)) + weight * absolute_sum(model)

        return Descent(lr=self.lr, optimizer=self.optimizer)(model, problem, loss, steps=steps)


def absolute_sum(model: nn.Module) -> Tensor:
    """||theta||_1, the sum of the absolute values of all parameters."""
    return torch.stack([parameter.abs().sum() for parameter in model.parameters()]).sum()
