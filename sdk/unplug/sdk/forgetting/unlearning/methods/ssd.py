"""SSD: weights that matter for the forget set far more than for all data are dampened; nothing is
trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.forgetting.tasks import Need

from ..fisher import SLOWNESS, Measure, importance, sample_within
from ..method import ForgetProblem
from ..settings import check_settings, within

PASSES = 3.0 * SLOWNESS


@dataclass(frozen=True, kw_only=True)
class SSD:
    """Selective synaptic dampening.

    theta_j <- theta_j * min(lambda F_j / F_f,j , 1)   where F_f,j > alpha F_j

    with F_f and F the diagonals of the empirical Fisher information of the forget set and of all
    training data, from gradients per sample (the released code squares gradients of batches). F =
    (n_r F_r + n_f F_f) / n; where the budget does not pay for the whole retain set, F_r comes from
    a random part of it.

    Args:
        alpha: how much more a weight must matter for the forget set, above 0. Published: 10. Never
            more than n / n_f can be reached, and samples of all classes reach less than the whole
            class of the paper.
        dampening: lambda, above 0. Published: 1.

    Raises:
        InputError: a value out of range, or an alpha that selects no weight.

    Reference:
        Foster et al., Fast Machine Unlearning Without Retraining Through Selective Synaptic
        Dampening, 2024, section 3.
    """

    alpha: float = within(1e-6, 1e12, 7.0)
    dampening: float = within(1e-6, 1e12, 1.0)

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "forget data", "labels")
    default_budget: ClassVar[float | None] = 0.05

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Dampens `model` in place."""
        forget, everything = forget_and_all(
            model, problem, lambda outputs, batch: -problem.task.log_prob(outputs, batch), power=2.0
        )
        return dampen_or_refuse(model, forget, everything, self.alpha, self.dampening)


def forget_and_all(
    model: nn.Module, problem: ForgetProblem, measure: Measure, power: float
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Importance for the forget set and for all training data, one pass at most over each."""
    forget = importance(
        model, problem, sample_within(problem, problem.forget, 0.5, PASSES), measure, power
    )
    retain = importance(
        model, problem, sample_within(problem, problem.retain, 1.0, PASSES), measure, power
    )
    share = len(problem.forget) / (len(problem.forget) + len(problem.retain))
    return forget, {name: torch.lerp(value, forget[name], share) for name, value in retain.items()}


def dampen_or_refuse(
    model: nn.Module,
    forget: Mapping[str, Tensor],
    everything: Mapping[str, Tensor],
    alpha: float,
    dampening: float,
) -> nn.Module:
    """`dampen`, where it selects anything.

    Raises:
        InputError: it does not: the model would be handed back as it came, with all that it
            remembers.
    """
    if dampen(model, forget, everything, alpha, dampening) == 0:
        most = max(
            float((forget[name] / value)[value > 0].max())
            for name, value in everything.items()
            if (value > 0).any()
        )
        why = "no weight matters so much more for the forget set, so nothing would be forgotten"
        raise InputError(f"alpha={alpha:g}", why, f"Use `alpha=...` below {most:.3g}")
    return model.eval()


@torch.no_grad()
def dampen(
    model: nn.Module,
    forget: Mapping[str, Tensor],
    everything: Mapping[str, Tensor],
    alpha: float,
    dampening: float,
) -> int:
    """Scales the selected weights in place; returns how many there were."""
    selected = 0
    for name, parameter in model.named_parameters():
        chosen = forget[name] > alpha * everything[name]
        # 0 / 0 is undefined, and is never chosen: 0 > 0 is false
        scale = (dampening * everything[name] / forget[name]).clamp(max=1.0)
        parameter.copy_(torch.where(chosen, parameter * scale, parameter))
        selected += int(chosen.sum())
    return selected
