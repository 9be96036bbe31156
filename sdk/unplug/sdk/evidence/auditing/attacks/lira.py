"""Offline LiRA: how far a sample's confidence lies above that of models which never saw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.stats import norm

from unplug.core import InputError

from ..attack import Array, Signals
from .residual import deviation

ENOUGH = 64  # reference models from which on each sample has a variance of its own


@dataclass(frozen=True, kw_only=True)
class LiRA:
    """score(x) = -ln P(N(mu_x, s) > phi(x)), phi = ln p_y - ln(1 - p_y), mu_x = mean over
    references that never saw x.

    The logarithm keeps the order of the paper's 1 - P and does not round to 1. With fewer than 64
    references s is one number for all samples (of both sets), the root of the mean variance; from
    64 on each sample has its own. Two references are the least that have a variance, and their mean
    is noisy: give more where they can be had.

    Reference:
        Carlini et al., Membership Inference Attacks From First Principles, 2022, section V.C
        (offline) and V.B (variance).
    """

    min_references: ClassVar[int] = 2

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Scores, at least 0, of forget (F,) and unseen (U,)."""
        if len(references) < self.min_references:
            raise InputError(
                "attack lira",
                "it needs two reference models",
                "Pass `references` or `train_references=2`",
            )
        z_F, z_U = deviation(
            target,
            references,
            lambda said: said.confidence_N,
            own_variance=len(references) >= ENOUGH,
            name="lira",
        )[0]
        return -np.asarray(norm.logsf(z_F), np.float64), -np.asarray(norm.logsf(z_U), np.float64)
