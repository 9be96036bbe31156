"""IAU: removing data approximated by one step towards the retain set and away from the forget set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from unplug.sdk.forgetting.tasks import Need
from unplug.sdk.learning.training import SampleSet

from ..fisher import sample_within
from ..method import ForgetProblem
from ..settings import check_settings, within

PASSES = 3.0


@dataclass(frozen=True, kw_only=True)
class IAU:
    """theta <- theta - lr (grad L(D_r) - grad L(D_f)), once, with L the mean training loss in eval
    mode.

    Removing D_f by its influence needs an inverse Hessian; adding data needs a gradient step alone,
    and the step that adds "minus D_f" while it keeps D_r stands in for it. The published method
    also trains the *original* with L + 0.005 ||grad l||; that term is optional and left out here,
    so any original can be unlearned. Where the budget does not pay for the whole retain set, its
    gradient comes from a random part of it.

    Args:
        lr: length of the one step, above 0 and up to 10.

    Raises:
        InputError: a value out of range.

    Reference:
        Efficient Machine Unlearning via Influence Approximation, 2025 (IAU: incremental
        approximation and gradient correction).
    """

    lr: float = within(1e-8, 10.0, 1e-2)

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "forget data", "labels")
    default_budget: ClassVar[float | None] = 0.05

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Takes the step in place."""
        model.eval()
        forget = mean_gradient(model, problem, sample_within(problem, problem.forget, 0.5, PASSES))
        retain = mean_gradient(model, problem, sample_within(problem, problem.retain, 1.0, PASSES))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.sub_(self.lr * (retain[name] - forget[name]))
        return model


def mean_gradient(model: nn.Module, problem: ForgetProblem, data: SampleSet) -> dict[str, Tensor]:
    """grad of the mean training loss over a set by parameter name, in the mode that the model is
    in.
    """
    model.zero_grad(set_to_none=True)
    for batch in data.in_order(problem.recipe.batch_size):
        (problem.losses(model, batch).sum() / len(data)).backward()
    gradients = {
        name: torch.zeros_like(parameter)
        if parameter.grad is None
        else parameter.grad.detach().clone()
        for name, parameter in model.named_parameters()
    }
    model.zero_grad(set_to_none=True)
    return gradients
