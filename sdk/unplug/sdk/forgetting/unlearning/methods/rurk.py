"""RURK: unlearn the forget samples and their surroundings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from unplug.sdk.forgetting.tasks import Need
from unplug.sdk.learning.training import pictures

from ..descent import Descent, plan
from ..method import ForgetProblem
from ..settings import Stepped, check_range
from .neggrad import bounded_loss


@dataclass(frozen=True, kw_only=True)
class RURK(Stepped):
    """theta <- theta - lr grad [ alpha L(D_r) - (1 - alpha) mean_{x in D_f, j} min( -ln p_y(x +
    d_j), ceiling ln G ) ].

    d_0 = 0; d_1 ... d_copies are uniform in the cube [-epsilon, epsilon], drawn anew in every step;
    pixels stay in [0, 1]. A model that unlearned x alone can still recognise what lies next to x
    where a retrained one does not. The paper fine-tunes with a penalty on that; the weights of the
    two terms, the bound on the ascent and the fixed batch norm are those of `NegGradPlus`, and the
    neighbours are random rather than searched for.

    Args:
        epsilon: in pixel values of [0, 1], 0 to 1. Published: perturbations of norm about .03; here
            8 / 255.
        copies: perturbed copies of each forget sample in a step, at least 1.
        alpha: 0 to 1.
        lr: peak learning rate of a cosine.
        ceiling: in units of ln G, above 0.
        batch_size: of each of the two batches of a step, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Hsu et al., The Unseen Threat: Residual Knowledge in Machine Unlearning under Perturbed
        Samples, 2025 (RURK).
    """

    epsilon: float = 8 / 255
    copies: int = 1
    alpha: float = 0.99
    ceiling: float = 1.0

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "forget data", "labels", "class logits")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("rurk", 0.0, 1.0, epsilon=self.epsilon, alpha=self.alpha)
        check_range("rurk", 1e-3, math.inf, ceiling=self.ceiling)
        check_range("rurk", 1, 64, copies=self.copies)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns and repairs in place."""
        retain_size, forget_size = (
            min(self.batch_size, len(data)) for data in (problem.retain, problem.forget)
        )
        retain, forget = (
            problem.batches(problem.retain, retain_size),
            problem.batches(problem.forget, forget_size),
        )

        def loss() -> Tensor:
            down, batch = problem.loss(model, next(retain)), pictures(next(forget))
            near_BCHW = neighbourhood(
                batch.image_BCHW, self.epsilon, self.copies, problem.generator
            )
            times = 1 + self.copies
            near = replace(
                batch,
                image_BCHW=near_BCHW,
                age_B=batch.age_B.repeat(times),
                group_B=batch.group_B.repeat(times),
            )
            up = bounded_loss(model, problem, near, self.ceiling)
            return self.alpha * down - (1.0 - self.alpha) * up

        steps = plan(problem, 3.0 * (retain_size + forget_size * (1 + self.copies)))
        return Descent(lr=self.lr, optimizer=self.optimizer)(model, problem, loss, steps=steps)


def neighbourhood(
    image_BCHW: Tensor, epsilon: float, copies: int, generator: torch.Generator
) -> Tensor:
    """The images, then `copies` perturbed versions of the whole batch: ((1 + copies) B, C, H, W) in
    [0, 1].
    """
    views = [image_BCHW]
    for _ in range(copies):
        noise_BCHW = (
            torch.rand(image_BCHW.shape, generator=generator)
            .mul_(2.0)
            .sub_(1.0)
            .to(image_BCHW.device)
        )
        views.append((image_BCHW + epsilon * noise_BCHW).clamp_(0.0, 1.0))
    return torch.cat(views).contiguous(memory_format=torch.channels_last)
