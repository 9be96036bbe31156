"""RMIA: how often a sample's likelihood ratio beats that of samples from the population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from scipy.special import expit

from unplug.core import InputError
from unplug.sdk.evidence.statistics import auc
from unplug.sdk.learning.training import LossPredictions, Predictions

from ..attack import Array, Signals

# values of `a` that calibration tries, as in the paper
GRID = tuple(step / 10 for step in range(11))
TINY = 1e-12  # keeps a ratio of two probabilities finite where a model is certain and wrong


@dataclass(frozen=True, kw_only=True)
class RMIA:
    """score(x) = P_z[ (p(x) / p_ref(x)) / (p(z) / p_ref(z)) > gamma ],  p_ref(x) = ((1 + a) mean_m p_m(x) + (1 - a)) / 2.

    Offline: every reference model was trained without the forget set and without the unseen one.

    Args:
        a: how far the probability of an in-model is assumed above that of out-models, 0 to 1;
            "calibrated" takes the value with the best AUC in simulated attacks between the
            references (at least two), see `calibrate`.
        gamma: ratio to beat.

    Reference:
        Zarifzadeh et al., Low-Cost High-Power Membership Inference Attacks, 2024, section 3 and
        appendix B.2.2.
    """

    a: float | Literal["calibrated"] = 0.3
    gamma: float = 1.0

    min_references: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.a != "calibrated" and not (isinstance(self.a, float | int) and 0 <= self.a <= 1):
            raise InputError(f"rmia a={self.a}", "out of range", 'Use 0 to 1, or "calibrated"')

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Scores in [0, 1] of forget (F,) and unseen (U,)."""
        if not references:
            raise InputError(
                "attack rmia",
                "it needs at least one reference model",
                "Pass `references` or `train_references=2`",
            )
        a = calibrate(references, self.gamma) if self.a == "calibrated" else self.a
        return self._scores(target, references, a)

    def _scores(
        self, target: Signals, references: Sequence[Signals], a: float
    ) -> tuple[Array, Array]:
        ratio_Z = np.sort(
            _ratio(target.population, [reference.population for reference in references], a)
        )
        scores = []
        for name in ("forget", "unseen"):
            ratio_N = _ratio(
                getattr(target, name), [getattr(reference, name) for reference in references], a
            )
            # Number of z with gamma ratio_z < ratio_x, from one sort instead of all pairs.
            scores.append(
                np.searchsorted(ratio_Z * self.gamma, ratio_N, side="left") / len(ratio_Z)
            )
        return np.asarray(scores[0], np.float64), np.asarray(scores[1], np.float64)


def calibrate(references: Sequence[Signals], gamma: float = 1.0) -> float:
    """The `a` with the highest mean AUC when each reference in turn is attacked with the others.

    All references saw the retain set and none the rest, so none has members that another lacks.
    They are planted: the unseen samples, with their phi moved from the quantiles of unseen to those
    of retain samples, against themselves as they are. The forget set takes no part, for `a` must
    not be chosen by how it happens to differ from the unseen one.
    """
    if len(references) < 2:
        raise InputError(
            "attack rmia",
            "calibrating a needs two reference models",
            "Set a to a number, 0.3 for example",
        )
    outside = [replace(item, forget=item.unseen) for item in references]
    members = [replace(item, forget=_as_members(item)) for item in references]
    mean_auc = []
    for a in GRID:
        attack = RMIA(a=a, gamma=gamma)
        values = [
            auc(*attack(item, [*outside[:n], *outside[n + 1 :]])) for n, item in enumerate(members)
        ]
        mean_auc.append(np.mean(values))
    return GRID[int(np.argmax(mean_auc))]


def _as_members(model: Signals) -> Predictions:
    """The unseen samples, with the confidence that the model gives to its training data."""
    unseen_U, retain_R = model.unseen.confidence_N, np.sort(model.retain.confidence_N)
    rank_U = np.interp(unseen_U, np.sort(unseen_U), np.linspace(0, 1, len(unseen_U)))
    p_U = np.clip(
        expit(np.interp(rank_U, np.linspace(0, 1, len(retain_R)), retain_R)), TINY, 1 - TINY
    )
    return LossPredictions.of(-np.log(p_U))


def _ratio(target: Predictions, references: Sequence[Predictions], a: float) -> Array:
    out_N = np.mean([np.exp(reference.log_prob_N) for reference in references], axis=0)
    prior_N = 0.5 * ((1 + a) * out_N + (1 - a))
    return np.asarray((np.exp(target.log_prob_N) + TINY) / (prior_N + TINY), np.float64)
