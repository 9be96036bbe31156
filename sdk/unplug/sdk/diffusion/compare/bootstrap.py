"""Intervals of numbers over pictures: pictures, and trainings where there are several, are drawn again with replacement.

Shapes: M pictures, S trainings, R replicates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unplug.sdk.audit.estimate import Estimate
from unplug.sdk.audit.stats import interval, subject_weights

Array = NDArray[np.float64]

REPLICATES = 1000


@dataclass(frozen=True, kw_only=True)
class Draws:
    """How often each picture and each training is in each replicate; one set of draws serves every row, so that
    differences are paired.

    Args:
        picture_RM: whole subjects at a time. training_RS: the same of trainings.
    """

    picture_RM: Array
    training_RS: Array


def make_draws(subjects_M: NDArray[np.int64], trainings: int, *, seed: int, replicates: int = REPLICATES) -> Draws:
    """Draws whole subjects and whole trainings with replacement.

    Reference:
        Field and Welsh, Bootstrapping clustered data, 2007.
    """
    rng = np.random.default_rng([seed, 717])
    picture_RM = subject_weights(subjects_M, replicates, rng).astype(np.float64)
    training_RS = rng.multinomial(trainings, np.full(trainings, 1.0 / trainings), size=replicates).astype(np.float64)
    return Draws(picture_RM=picture_RM, training_RS=training_RS)


@dataclass(frozen=True, kw_only=True)
class Shares:
    """A number that is a ratio of sums over pictures: a mean where `parts` are ones, a share where they are counts.

    Args:
        sums_SM: numerators; 0 where `parts_SM` is 0. A row without trainings of its own has S = 1.
        parts_SM: denominators, at least 0; 0 leaves a picture out.
    """

    sums_SM: Array
    parts_SM: Array

    @classmethod
    def of_values(cls, values_SM: Array) -> Shares:
        """The mean of values; NaN leaves a picture out."""
        known = ~np.isnan(values_SM)
        return cls(sums_SM=np.where(known, values_SM, 0.0), parts_SM=known.astype(np.float64))

    @property
    def value(self) -> float:
        """sum / parts; NaN where every picture is left out."""
        parts = self.parts_SM.sum()
        return float(self.sums_SM.sum() / parts) if parts else float("nan")

    def where(self, kept_SM: NDArray[np.bool_]) -> Shares:
        """Without the other pictures."""
        return Shares(sums_SM=np.where(kept_SM, self.sums_SM, 0.0), parts_SM=np.where(kept_SM, self.parts_SM, 0.0))

    def replicates(self, draws: Draws) -> Array:
        """The number in each replicate (R,); NaN where it drew no picture that counts."""
        trainings = draws.training_RS if len(self.sums_SM) > 1 else np.ones((len(draws.picture_RM), 1))
        sums_R, parts_R = (
            np.einsum("rs,rm,sm->r", trainings, draws.picture_RM, part_SM, optimize=True)
            for part_SM in (self.sums_SM, self.parts_SM)
        )
        found_R: Array = np.divide(sums_R, parts_R, out=np.full(len(sums_R), np.nan), where=parts_R > 0)
        return found_R


def estimate(shares: Shares, draws: Draws) -> Estimate:
    """The number with its percentile interval."""
    return _with_interval(shares.value, shares.replicates(draws))


def difference(row: Shares, reference: Shares, draws: Draws) -> Estimate | None:
    """`row` minus `reference` on the pictures that count in both, paired; None where there are none."""
    sides = _together(row, reference)
    if not sides[0].parts_SM.any():
        return None
    drawn_R = sides[0].replicates(draws) - sides[1].replicates(draws)
    return _with_interval(sides[0].value - sides[1].value, drawn_R)


def _together(one: Shares, two: Shares) -> tuple[Shares, Shares]:
    kept = (one.parts_SM > 0) & (two.parts_SM > 0)  # a row with one training meets each of the other's
    spread = np.broadcast_to
    sides = (Shares(sums_SM=spread(a.sums_SM, kept.shape), parts_SM=spread(a.parts_SM, kept.shape)) for a in (one, two))
    first, second = (side.where(kept) for side in sides)
    return first, second


def _with_interval(value: float, drawn_R: Array) -> Estimate:
    kept_R = drawn_R[~np.isnan(drawn_R)]
    if len(kept_R) < 2:
        return Estimate(value=value)
    low, high = interval(kept_R)
    return Estimate(value=value, low=low, high=high)


def centred(value: float, drawn_R: Array, *, least: float | None = None) -> Estimate:
    """Value with the spread of its replicates moved onto it.

    For numbers that resampling itself inflates: fewer different pictures make any Fréchet distance larger, so that the
    percentiles of its replicates need not even hold the value.

    Args:
        value: of the whole sample.
        drawn_R: replicates.
        least: the smallest value that the number can have.
    """
    low, high = interval(np.asarray(drawn_R - drawn_R.mean() + value, np.float64))
    return Estimate(value=value, low=low if least is None else max(low, least), high=high)
