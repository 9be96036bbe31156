"""LiRA for regression: how seldom models that never saw a sample come as close to its age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.stats import norm

from unplug.core import InputError

from ..attack import Array, Signals
from .lira import ENOUGH
from .residual import deviation, residual


@dataclass(frozen=True, kw_only=True)
class ErrorLiRA:
    """score(x) = -ln P(|N(mu_x, s)| <= |r(x)|), r = E[age] - age signed, mu_x = mean r over
    references that never saw x.

    Being right counts for much where other models are wrong and for little where all are right. P
    is uniform for non-members whatever their difficulty, and the attack assumes nothing of members
    but that r shrinks. Variance and number of references as in `LiRA`.

    Raises:
        InputError: from the call: no ages, fewer than two references, or references that do not
            differ.

    Reference:
        Carlini et al., Membership Inference Attacks From First Principles, 2022, section V.C, with
        the residual for phi.
    """

    min_references: ClassVar[int] = 2

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Scores, at least 0, of forget (F,) and unseen (U,)."""
        if len(references) < self.min_references:
            raise InputError(
                "attack error-lira",
                "it needs two reference models",
                "Pass `references` or `train_references=2`",
            )
        z, at = deviation(
            target, references, residual, own_variance=len(references) >= ENOUGH, name="error-lira"
        )
        return _surprise(z[0], at[0]), _surprise(z[1], at[1])


def _surprise(z_N: Array, at_N: Array) -> Array:
    """-ln P(|at + Z| <= |at + z|), Z standard normal, from logarithms of tails so that it never
    rounds to infinity early.
    """
    size_N, at_N = np.abs(at_N + z_N), np.abs(at_N)
    # P = Phi(size - at) - Phi(-size - at); with at >= 0 the first is the larger one, and size = 0
    # has P = 0.
    upper_N, lower_N = norm.logcdf(size_N - at_N), norm.logcdf(-size_N - at_N)
    share_N = -np.expm1(np.minimum(lower_N - upper_N, -np.finfo(np.float64).tiny))
    return np.asarray(
        -(upper_N + np.log(np.maximum(share_N, np.finfo(np.float64).tiny))), np.float64
    )
