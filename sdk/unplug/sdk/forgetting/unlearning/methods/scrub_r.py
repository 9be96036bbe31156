"""SCRUB+R: SCRUB, then back to the round that forgot neither too little nor too much."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.learning.training import LabelledSet, labelled

from ..method import ForgetProblem
from .scrub import SCRUB


@dataclass(frozen=True, kw_only=True)
class SCRUBR(SCRUB):
    """theta = argmin_{rounds t} | e_f(theta_t) - e_v(theta_T) |, e the mean of -ln p_y.

    e_f is taken over the forget set after each round, e_v over validation samples by the final
    model, weighted so that each class counts as it does in the forget set: what a model shows on
    samples that it never saw. The paper's error is one minus accuracy, which on a small forget set
    takes few values; the loss ranks the same rounds more finely.

    Args:
        samples: the number of samples measured of either set, at most, at least 1.

    The other settings are those of `SCRUB`.

    Reference:
        Kurmanji et al., Towards Unbounded Machine Unlearning, 2023, section 3 (SCRUB+R).
    """

    lr: float = 3e-4
    samples: int = 512

    needs = (
        "retain data",
        "forget data",
        "labels",
        "validation data",
        "class logits",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 1:
            raise InputError(f"scrub+r samples={self.samples}", "out of range", "Use 1 or more")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns in place."""
        gone, others = labelled(problem.forget), labelled(problem.validation)
        forget, alike = self.some(gone, gone), self.some(others, gone)
        if len(alike) == 0:
            raise InputError(
                "scrub+r",
                "no validation sample is of a class of the forget set",
                "Use scrub without rewinding",
            )
        # kept back from the steps, or the last rounds could not be measured
        measuring = self.rounds * len(forget) + len(alike)
        share = 1.0 - min(1.0, measuring / max(1.0, problem.meter.left()))
        states: list[dict[str, Tensor]] = []
        errors: list[float] = []

        def keep() -> None:
            states.append(copy.deepcopy(model.state_dict()))
            errors.append(float(losses(model, problem, forget).mean()))

        self.in_rounds(model, problem, share, keep)
        reference = matched_mean(losses(model, problem, alike), alike.group_N, forget.group_N)
        model.load_state_dict(states[closest(errors, reference)])
        return model.eval()

    def some(self, data: LabelledSet, forget: LabelledSet) -> LabelledSet:
        """The samples of a set with classes that the forget set has, thinned evenly to `samples`."""
        alike = torch.isin(data.group_N, forget.group_N).nonzero()[:, 0]
        return data.subset(alike[:: -(-len(alike) // self.samples) or 1])


def closest(errors: Sequence[float], reference: float) -> int:
    """The round whose error is nearest to the reference, the earliest of several.

    Example:
        >>> closest([0.1, 0.5, 0.9], 0.6)
        1
    """
    return min(range(len(errors)), key=lambda number: abs(errors[number] - reference))


def matched_mean(loss_N: Tensor, group_N: Tensor, like_M: Tensor) -> float:
    """sum_g w_g mean(loss of class g), w_g the share of class g in `like_M` among the classes that
    both have.
    """
    share_N = torch.stack([(like_M == group).sum() / (group_N == group).sum() for group in group_N])
    return float((share_N * loss_N).sum() / share_N.sum())


@torch.no_grad()
def losses(model: nn.Module, problem: ForgetProblem, data: LabelledSet) -> Tensor:
    """-ln p_y (N,) in eval mode, charged; the model's mode is put back afterwards."""
    was_training = model.training
    model.eval()
    batches = data.in_order(problem.recipe.batch_size)
    parts = [-problem.log_prob(model, batch) for batch in batches]
    model.train(was_training)
    return torch.cat(parts)
