"""Blindspot: on the forget set the model follows one that was never shown it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.forgetting.tasks import AGE_SCALE
from unplug.sdk.learning.training import joined

from ..anatomy import convolutions
from ..descent import Descent, plan_phases
from ..distil import random_network
from ..method import ForgetProblem
from ..settings import Stepped, within


@dataclass(frozen=True, kw_only=True)
class Blindspot(Stepped):
    """A partly trained blind model guides on the forget set. For age regression.

    1. blind <- new weights, trained on D_r for a share of the budget, with the recipe's rate;
    2. minimise (1 - c) L(D_r batch) + c [ mean |E[age] - E[age]_blind| / 10 + attention * A(D_f
        batch) ]

    Both halves of a step are one batch, for both models. c = share of forget samples in it; A =
    mean squared difference of the attention maps (channel mean of squares of the last convolution,
    scaled to length one) of model and blind model; the paper sums A over all blocks.

    Args:
        blind_share: the share of the budget for step 1, 0 to 1. Published: 2 epochs of a training
            of 100.
        attention: weight of A, 0 or more. Published: 50.
        lr: peak of the cosine of 2. Published: Adam at 1e-3 or below, 1 to 3 epochs.

    Raises:
        InputError: a value out of range.

    Reference:
        Tarun et al., Deep Regression Unlearning, 2023, section 4 (Blindspot Unlearning).
    """

    blind_share: float = within(0.01, 0.99, 0.4)
    attention: float = within(0.0, 1e6, 50.0)
    lr: float = 5e-4

    needs = (
        "retain data",
        "forget data",
        "labels",
        "ages",
        "class logits",
    )

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Trains a blind model, then changes `model` in place."""
        size = min(self.batch_size, len(problem.retain))
        forget_size = max(1, min(size // 2, len(problem.forget)))
        blind_steps, steps = plan_phases(
            problem,
            (3.0 * size, 4.0 * (size + forget_size)),
            (self.blind_share, 1.0 - self.blind_share),
        )
        retain = problem.batches(problem.retain, size)
        forget = problem.batches(problem.forget, forget_size)
        blind = random_network(problem)
        Descent(lr=problem.recipe.lr)(
            blind, problem, lambda: problem.loss(blind, next(retain)), steps=blind_steps
        )
        # few steps leave the running statistics of batch norm half-way: it sees each batch by its
        # own
        blind.train()
        share = forget_size / (size + forget_size)

        def loss() -> Tensor:
            kept = next(retain)
            size, both = len(kept), joined(kept, next(forget))
            with torch.no_grad(), last_features(blind) as theirs:
                their_age_B1 = problem.outputs(blind, both)["expected_age"].float()
            with last_features(model) as ours:
                outputs = problem.outputs(model, both)
            kept_outputs = {name: value[:size] for name, value in outputs.items()}
            kept_loss = problem.task.loss(model, kept_outputs, kept).mean()
            age_B1 = outputs["expected_age"].float()
            guided = F.l1_loss(age_B1[size:], their_age_B1[size:]) / AGE_SCALE
            apart = attention_difference(ours[0][size:], theirs[0][size:])
            return (1.0 - share) * kept_loss + share * (guided + self.attention * apart)

        return self.descend(model, problem, loss, steps)


def attention_difference(x_BCHW: Tensor, y_BCHW: Tensor) -> Tensor:
    """Mean squared difference of two attention maps."""
    return F.mse_loss(attention_map(x_BCHW), attention_map(y_BCHW))


def attention_map(x_BCHW: Tensor) -> Tensor:
    """mean_c x^2, flat and of length one: (B, H W)."""
    return F.normalize(x_BCHW.float().square().mean(dim=1).flatten(1), dim=1)


@contextmanager
def last_features(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collects what the last convolution gives (B, C, H, W) in each forward pass while the context
    is open.
    """
    seen: list[Tensor] = []
    *_, (_, last) = convolutions(model)
    handle = last.register_forward_hook(lambda _, __, output: seen.append(output))
    try:
        yield seen
    finally:
        handle.remove()
