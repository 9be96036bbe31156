"""L1-sparse: fine-tuning that also drives weights to zero, less and less."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..descent import plan
from ..method import ForgetProblem
from ..settings import Stepped, within


@dataclass(frozen=True, kw_only=True)
class L1Sparse(Stepped):
    """theta <- theta - lr grad [ L(D_r) + gamma_t ||theta||_1 ], gamma_t = gamma (1 - t / steps);
    the forget set is not read.

    Args:
        gamma: weight of the norm of all parameters in the first step, 0 to 1. Published: 5e-4 with
            SGD at .01, 10 epochs.
        lr: peak learning rate of a cosine.
        batch_size: the batch size, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Jia et al., Model Sparsity Can Simplify Machine Unlearning, 2023, section 4 (l1-sparse MU).
    """

    gamma: float = within(0.0, 1.0, 5e-4)
    lr: float = 3e-3

    name = "l1-sparse"
    needs = ("retain data", "labels")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Fine-tunes in place."""
        batches, count = problem.batches(problem.retain, self.batch_size), itertools.count()
        steps = plan(problem, 3.0 * batches.size)

        def loss() -> Tensor:
            weight = self.gamma * (1.0 - next(count) / steps)
            return problem.loss(model, next(batches)) + weight * absolute_sum(model)

        return self.descend(model, problem, loss, steps)


def absolute_sum(model: nn.Module) -> Tensor:
    """||theta||_1, the sum of the absolute values of all parameters."""
    return torch.stack([parameter.abs().sum() for parameter in model.parameters()]).sum()
