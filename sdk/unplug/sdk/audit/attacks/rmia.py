"""RMIA: how often a sample's likelihood ratio beats that of samples from the population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unplug.plugins.errors import InputError
from unplug.sdk.train.evaluate import Predictions

from ..attack import Array, Signals

TINY = 1e-12  # keeps a ratio of two probabilities finite where a model is certain and wrong


@dataclass(frozen=True, kw_only=True)
class RMIA:
    """score(x) = P_z[ (p(x) / p_ref(x)) / (p(z) / p_ref(z)) > gamma ],  p_ref(x) = ((1 + a) mean_m p_m(x) + (1 - a)) / 2.

    Offline: every reference model was trained without the forget set and without the unseen one.

    Args:
        a: how far the probability of an in-model is assumed above that of out-models, 0 to 1.
        gamma: ratio to beat.

    Reference:
        Zarifzadeh et al., Low-Cost High-Power Membership Inference Attacks, 2024, section 3 and appendix B.2.2.
    """

    a: float = 0.3
    gamma: float = 1.0

    min_references: ClassVar[int] = 1

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Scores in [0, 1] of forget (F,) and unseen (U,)."""
        if not references:
            raise InputError(
                "attack rmia", "it needs at least one reference model", "Pass --references or --train-references 2"
            )
        ratio_Z = np.sort(self._ratio(target.population, [reference.population for reference in references]))
        scores = []
        for name in ("forget", "unseen"):
            ratio_N = self._ratio(getattr(target, name), [getattr(reference, name) for reference in references])
            # Number of z with gamma ratio_z < ratio_x, from one sort instead of all pairs.
            scores.append(np.searchsorted(ratio_Z * self.gamma, ratio_N, side="left") / len(ratio_Z))
        return np.asarray(scores[0], np.float64), np.asarray(scores[1], np.float64)

    def _ratio(self, target: Predictions, references: Sequence[Predictions]) -> Array:
        out_N = np.mean([np.exp(reference.log_prob_N) for reference in references], axis=0)
        prior_N = 0.5 * ((1 + self.a) * out_N + (1 - self.a))
        return np.asarray((np.exp(target.log_prob_N) + TINY) / (prior_N + TINY), np.float64)
