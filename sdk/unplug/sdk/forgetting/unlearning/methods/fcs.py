"""FCS, winner of the 2023 challenge: flatten the forget outputs, then rounds of contrast and
repair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import learning_rate, steps_per_epoch

from ..descent import Descent, norms_fixed, plan_phases
from ..distil import not_uniform
from ..method import ForgetProblem
from ..settings import Stepped, within


@dataclass(frozen=True, kw_only=True)
class FCS(Stepped):
    """Flatten, then contrast and repair in turn; forget batches leave batch-norm statistics alone.

    1. one pass over D_f:      min KL(uniform || softmax(z_f)), whose gradient is softmax(z_f) - uniform
    2. `rounds` times, with rates that fall by a cosine from round to round:
       on D_f                  min mean -log_softmax(z_f z_r^T / temperature), z_r detached: every forget output is
                               pulled towards the outputs of a whole retain batch
       on D_r                  the training loss

    Args:
        rounds: the most rounds; fewer where the budget does not cover one step of each kind.
            Published: 8 epochs.
        temperature: the temperature, above 0. Published: 1.15.
        flatten_lr: the learning rate of step 1. Published: SGD at 5e-3.
        contrast_lr: the learning rate of the forget half of a round. Published: SGD at 3e-4, cosine
            to 1e-6.
        lr: the learning rate of the retain half. Published: SGD at 4e-3, batch 256, weight decay
            1e-2.
        forget_share: the share of each round's budget that its forget half may take; at most one
            pass over D_f.

    Raises:
        InputError: a value out of range.

    Reference:
        First place of the NeurIPS 2023 Machine Unlearning Challenge.
    """

    rounds: int = within(1, 1e6, 8)
    temperature: float = within(1e-3, 1e6, 1.15)
    flatten_lr: float = 2e-3
    contrast_lr: float = 1e-3
    lr: float = 3e-3
    forget_share: float = within(0.01, 0.99, 0.25)

    needs = ("retain data", "forget data", "labels", "class logits")

    def __post_init__(self) -> None:
        super().__post_init__()
        for lr in (self.flatten_lr, self.contrast_lr):
            Descent(lr=lr)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Forgets and repairs `model` in place."""
        retain, forget = (
            problem.batches(data, self.batch_size) for data in (problem.retain, problem.forget)
        )
        one_pass = steps_per_epoch(len(problem.forget), forget.size)

        def flatten() -> Tensor:
            with norms_fixed(model):
                return not_uniform(problem.logits(model, next(forget)))

        def contrast() -> Tensor:
            with norms_fixed(model):
                with torch.no_grad():
                    z_RG = problem.logits(model, next(retain))
                return contrastive(problem.logits(model, next(forget)), z_RG, self.temperature)

        def go(lr: float, loss: Callable[[], Tensor], steps: int) -> None:
            self.descend(model, problem, loss, steps, lr=lr, shape="constant")

        cost = (3.0 * forget.size + retain.size, 3.0 * retain.size)
        flattens, fitting = plan_phases(problem, (3.0 * forget.size, sum(cost)), (0.1, 0.9))
        rounds, halves = min(self.rounds, fitting), (self.forget_share, 1.0 - self.forget_share)
        go(self.flatten_lr, flatten, min(one_pass, flattens))
        for number in range(rounds):
            # both halves of a round fall together
            fall = learning_rate(number, rounds, 1.0, "cosine")
            contrasts, repairs = plan_phases(problem, cost, halves, 1.0 / (rounds - number))
            go(self.contrast_lr * fall, contrast, min(one_pass, contrasts))
            go(self.lr * fall, lambda: problem.loss(model, next(retain)), repairs)
        return model.eval()


def contrastive(z_FG: Tensor, z_RG: Tensor, temperature: float) -> Tensor:
    """mean over all pairs of -log_softmax_r(z_f . z_r / temperature)."""
    return -(z_FG @ z_RG.T / temperature).log_softmax(dim=1).mean()
