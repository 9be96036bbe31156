"""Gaussian-Amnesiac: the forget set learns ages drawn from the retain set's Gaussian."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import ImageSet, joined, pictures

from ..descent import plan
from ..method import ForgetProblem
from ..settings import Stepped


@dataclass(frozen=True, kw_only=True)
class GaussianAmnesiac(Stepped):
    """age_f <- N(mean, std^2) of the retain ages, once; then fine-tuning on D_r and the relabelled
    D_f together.

    For age regression. Every batch mixes both sets in their proportion, at least one forget sample
    in each.

    Args:
        lr: peak of a cosine. Published: Adam at 1e-3 or below, 1 to 3 epochs.

    Raises:
        InputError: a value out of range.

    Reference:
        Tarun et al., Deep Regression Unlearning, 2023, section 4 (Gaussian Amnesiac).
    """

    needs = (
        "retain data",
        "forget data",
        "labels",
        "ages",
        "class logits",
    )

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Fine-tunes `model` in place."""
        kept, gone = len(problem.retain), len(problem.forget)
        size = min(self.batch_size, kept + gone)
        forget_size = min(max(1, round(size * gone / (kept + gone))), gone, size - 1)
        sets = pictures(problem.forget), pictures(problem.retain)
        relabelled = amnesiac(*sets, problem.task.edges, problem.generator)
        retain = problem.batches(problem.retain, size - forget_size)
        forget = problem.batches(relabelled, forget_size)

        def loss() -> Tensor:
            return problem.loss(model, joined(next(retain), next(forget)))

        return self.descend(model, problem, loss, plan(problem, 3.0 * size))


def amnesiac(
    forget: ImageSet, retain: ImageSet, edges: tuple[float, ...], generator: torch.Generator
) -> ImageSet:
    """The forget images with ages drawn from the Gaussian of the retain ages, and the age groups
    that follow.
    """
    age_N = retain.age_N.float()
    spread = (age_N - age_N.mean()).square().mean().sqrt()
    drawn_N = torch.randn(len(forget), generator=generator).to(age_N.device) * spread + age_N.mean()
    # what lies beyond the borders belongs to the first or the last group
    inner = torch.tensor(edges[1:-1], device=age_N.device)
    return replace(forget, age_N=drawn_N, group_N=torch.bucketize(drawn_N, inner, right=True))
