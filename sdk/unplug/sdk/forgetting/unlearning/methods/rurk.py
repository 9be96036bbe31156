"""RURK: unlearn the forget samples and their surroundings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import pictures

from ..descent import plan
from ..method import ForgetProblem
from ..settings import Stepped, within
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
        epsilon: the largest perturbation in pixel values of [0, 1], 0 to 1. Published:
            perturbations of norm about .03; here 8 / 255.
        copies: perturbed copies of each forget sample in a step, at least 1.
        alpha: 0 to 1.
        lr: peak learning rate of a cosine.
        ceiling: the ceiling in units of ln G, above 0.
        batch_size: the batch size of each of the two batches of a step, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Hsu et al., The Unseen Threat: Residual Knowledge in Machine Unlearning under Perturbed
        Samples, 2025 (RURK).
    """

    epsilon: float = within(0.0, 1.0, 8 / 255)
    copies: int = within(1, 64, 1)
    alpha: float = within(0.0, 1.0, 0.99)
    ceiling: float = within(1e-3, math.inf, 1.0)

    needs = ("retain data", "forget data", "labels", "class logits")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns and repairs in place."""
        retain, forget = (
            problem.batches(data, self.batch_size) for data in (problem.retain, problem.forget)
        )

        def loss() -> Tensor:
            down, batch = problem.loss(model, next(retain)), pictures(next(forget))
            times, image_BCHW = 1 + self.copies, batch.image_BCHW
            near = replace(
                batch,
                image_BCHW=neighbourhood(image_BCHW, self.epsilon, self.copies, problem.generator),
                age_B=batch.age_B.repeat(times),
                group_B=batch.group_B.repeat(times),
            )
            up = bounded_loss(model, problem, near, self.ceiling)
            return self.alpha * down - (1.0 - self.alpha) * up

        steps = plan(problem, 3.0 * (retain.size + forget.size * (1 + self.copies)))
        return self.descend(model, problem, loss, steps)


def neighbourhood(
    image_BCHW: Tensor, epsilon: float, copies: int, generator: torch.Generator
) -> Tensor:
    """The images, then `copies` perturbed versions of the whole batch: ((1 + copies) B, C, H, W) in
    [0, 1].
    """
    views = [image_BCHW]
    for _ in range(copies):
        # drawn on the CPU: one seed gives one cube on every device
        noise_BCHW = torch.rand(image_BCHW.shape, generator=generator) * 2.0 - 1.0
        near_BCHW = image_BCHW + epsilon * noise_BCHW.to(image_BCHW.device)
        views.append(near_BCHW.clamp_(0.0, 1.0))
    return torch.cat(views).contiguous(memory_format=torch.channels_last)
