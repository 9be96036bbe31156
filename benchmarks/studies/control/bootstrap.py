"""Intervals of numbers over pictures, which are drawn again with replacement, widened by what
trainings differ by.

Shapes: M pictures, S trainings, R replicates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from unplug.sdk.evidence.statistics import CONFIDENCE, Estimate, interval, subject_weights

Array = NDArray[np.float64]

REPLICATES = 1000


def make_draws(
    subjects_M: NDArray[np.int64], *, seed: int, replicates: int = REPLICATES, stream: int = 717
) -> Array:
    """How often each picture is in each replicate (R, M): whole subjects are drawn with
    replacement.

    One set of draws serves every row, so that differences are paired. `stream` keeps the draws of
    two sets apart.

    Reference:
        Field and Welsh, Bootstrapping clustered data, 2007.
    """
    rng = np.random.default_rng([seed, stream])
    return subject_weights(subjects_M, replicates, rng).astype(np.float64)


def whole_and_draws(
    subjects_N: NDArray[np.int64], *, seed: int, replicates: int, stream: int
) -> Array:
    """`make_draws` behind a first row of ones, which is the whole set (1 + R, N)."""
    return np.vstack(
        [
            np.ones(len(subjects_N)),
            make_draws(subjects_N, seed=seed, replicates=replicates, stream=stream),
        ]
    )


def with_trainings(found: Estimate, values_S: Array) -> Estimate:
    """Widens an interval over pictures by the interval over trainings, t_{S-1} s / sqrt(S), in
    quadrature.

    Drawing few trainings with replacement would claim too much: two trainings have three different
    draws. The widths are added as if they were independent; part of the pictures' spread is in
    both, so that the interval is rather too wide.

    Args:
        found: the number and its interval over pictures.
        values_S: the number of each training, NaN where one has none; fewer than two change
            nothing.
    """
    known_S = values_S[~np.isnan(values_S)]
    count = len(known_S)
    if count < 2 or found.low is None or found.high is None:
        return found
    reach = float(
        student.ppf(0.5 + CONFIDENCE / 2, count - 1) * known_S.std(ddof=1) / np.sqrt(count)
    )
    down, up = max(found.value - found.low, 0.0), max(found.high - found.value, 0.0)
    return Estimate(
        value=found.value,
        low=found.value - float(np.hypot(down, reach)),
        high=found.value + float(np.hypot(up, reach)),
    )


@dataclass(frozen=True, kw_only=True)
class Shares:
    """A number that is a ratio of sums over pictures: a mean where `parts` are ones, a share where
    they are counts.

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
        return float(_over(self.sums_SM.sum(), self.parts_SM.sum()))

    @property
    def value_S(self) -> Array:
        """The number of each training."""
        return _over(self.sums_SM.sum(axis=1), self.parts_SM.sum(axis=1))

    def where(self, kept_SM: NDArray[np.bool_]) -> Shares:
        """The shares over some pictures alone, without the others."""
        return Shares(
            sums_SM=np.where(kept_SM, self.sums_SM, 0.0),
            parts_SM=np.where(kept_SM, self.parts_SM, 0.0),
        )

    def replicates(self, picture_RM: Array) -> Array:
        """The number in each replicate (R,); NaN where it drew no picture that counts."""
        return _over(picture_RM @ self.sums_SM.sum(axis=0), picture_RM @ self.parts_SM.sum(axis=0))


def _over(sums: Array, parts: Array) -> Array:
    sums, parts = np.asarray(sums, np.float64), np.asarray(parts, np.float64)
    ratio: Array = np.divide(sums, parts, out=np.full(sums.shape, np.nan), where=parts > 0)
    return ratio


def estimate(shares: Shares, picture_RM: Array) -> Estimate:
    """The number with its percentile interval over pictures, and over trainings where there are
    several.
    """
    return with_trainings(_percentiles(shares.value, shares.replicates(picture_RM)), shares.value_S)


def difference(row: Shares, reference: Shares, picture_RM: Array) -> Estimate | None:
    """`row` minus `reference` on the pictures that count in both, paired, training by training;
    None where there are none.
    """
    ours, other = _together(row, reference)
    if not ours.parts_SM.any():
        return None
    gap = _percentiles(
        ours.value - other.value, ours.replicates(picture_RM) - other.replicates(picture_RM)
    )
    return with_trainings(gap, ours.value_S - other.value_S)


def _together(one: Shares, two: Shares) -> tuple[Shares, Shares]:
    # a row with one training meets each of the other's
    kept = (one.parts_SM > 0) & (two.parts_SM > 0)
    spread = np.broadcast_to
    sides = (
        Shares(sums_SM=spread(a.sums_SM, kept.shape), parts_SM=spread(a.parts_SM, kept.shape))
        for a in (one, two)
    )
    first, second = (side.where(kept) for side in sides)
    return first, second


def _percentiles(value: float, drawn_R: Array) -> Estimate:
    kept_R = drawn_R[~np.isnan(drawn_R)]
    if len(kept_R) < 2:
        return Estimate(value=value)
    low, high = interval(kept_R)
    return Estimate(value=value, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """A distance between sets of pictures: of the whole sets, and in each replicate.

    Resampling itself may inflate such a number (fewer different pictures make a Fréchet distance
    larger), so that the percentiles of its replicates need not even hold the value: the replicates
    are moved onto it.

    Args:
        value_S: of each training. drawn_RS: the same in each replicate, NaN where a replicate has
            none.
    """

    value_S: Array
    drawn_RS: Array

    @property
    def value(self) -> float:
        """The estimate: the mean over all trainings."""
        return float(self.value_S.mean())

    @property
    def moved_R(self) -> Array:
        """Replicates of the mean over trainings, moved so that their own mean is the value."""
        drawn_R = self.drawn_RS.mean(axis=1)
        return np.asarray(drawn_R - np.nanmean(drawn_R) + self.value, np.float64)

    @property
    def estimate(self) -> Estimate:
        """The value with its interval."""
        return with_trainings(_percentiles(self.value, self.moved_R), self.value_S)

    def minus(self, other: Resampled) -> Estimate:
        """The difference from another measure, resample by resample."""
        gap = _percentiles(self.value - other.value, self.moved_R - other.moved_R)
        return with_trainings(gap, self.value_S - other.value_S)

    def over(self, other: Resampled) -> Estimate | None:
        """Paired ratio, of sides that were each moved first; None where the other is not clearly
        above zero.
        """
        if min(np.nanmin(other.moved_R), other.value_S.min()) <= 0:
            return None
        ratio = _percentiles(self.value / other.value, self.moved_R / other.moved_R)
        return with_trainings(ratio, self.value_S / other.value_S)
