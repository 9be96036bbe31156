"""Intervals of a leaderboard's numbers: means over models that share originals, and over evaluation
seeds.

Seeds of unlearning from one original are no independent samples, so an original is one cluster of
models.

Shapes: M models, K clusters (originals).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from unplug.sdk.evidence.statistics import CONFIDENCE, Estimate

from .population import PopulationComparison
from .report import Measure

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean with what its interval needs.

    Args:
        value: mean of the cluster means.
        variance: of `value`; None where there is one cluster.
        freedom: degrees of freedom of `variance`.
    """

    value: float
    variance: float | None
    freedom: float

    @property
    def interval(self) -> tuple[float, float] | None:
        """value +- t sqrt(variance), 95 %."""
        if self.variance is None:
            return None
        half = float(student.ppf(0.5 + CONFIDENCE / 2, self.freedom)) * math.sqrt(self.variance)
        return self.value - half, self.value + half

    def plus_variance(self, extra: float) -> Mean:
        """The same mean with the variance that comes from the samples added to that from the
        models.

        Degrees of freedom stay those of the models, which is on the safe side.
        """
        return (
            self
            if self.variance is None
            else Mean(value=self.value, variance=self.variance + extra, freedom=self.freedom)
        )


def cluster_mean(values_M: Sequence[float] | Array, clusters_M: Sequence[int]) -> Mean:
    """Mean of the cluster means, s^2 / K its variance, K - 1 degrees of freedom.

    With one cluster every model stands for itself: the interval is then over unlearning seeds
    alone.

    Example:
        >>> cluster_mean([1.0, 3.0, 5.0, 7.0], [0, 0, 1, 1])
        Mean(value=4.0, variance=4.0, freedom=1)
    """
    values, clusters = np.asarray(values_M, np.float64), np.asarray(clusters_M)
    names = np.unique(clusters)
    means_K = (
        values if len(names) == 1 else np.array([values[clusters == name].mean() for name in names])
    )
    count = len(means_K)
    variance = float(means_K.var(ddof=1)) / count if count > 1 else None
    return Mean(value=float(means_K.mean()), variance=variance, freedom=count - 1)


def difference(ours: Mean, theirs: Mean) -> Mean:
    """ours - theirs, with Welch's variance and degrees of freedom."""
    value = ours.value - theirs.value
    if ours.variance is None or theirs.variance is None:
        return Mean(value=value, variance=None, freedom=0)
    total = ours.variance + theirs.variance
    parts = ours.variance**2 / ours.freedom + theirs.variance**2 / theirs.freedom
    return Mean(value=value, variance=total, freedom=total**2 / parts if parts > 0 else 1)


def absolute(low: float, high: float) -> tuple[float, float]:
    """The interval of |x| where that of x is [low, high].

    Example:
        >>> absolute(-2.0, 1.0), absolute(-3.0, -1.0)
        ((0.0, 2.0), (1.0, 3.0))
    """
    ends = sorted((abs(low), abs(high)))
    return (0.0, ends[1]) if low < 0.0 < high else (ends[0], ends[1])


def as_measure(mean: Mean, oracle: float | None, spread: float | None = None) -> Measure:
    """A mean over models as a number of the report."""
    low, high = mean.interval or (None, None)
    return Measure(value=mean.value, low=low, high=high, oracle=oracle, spread=spread)


def over_seeds(means: Sequence[Mean]) -> tuple[Mean, float]:
    """Mean over evaluation seeds, with the variance of a single one (they share the models), and
    the spread between them.
    """
    values = [item.value for item in means]
    variances = [item.variance for item in means if item.variance is not None]
    variance = float(np.mean(variances)) if len(variances) == len(means) else None
    return replace(means[0], value=float(np.mean(values)), variance=variance), float(
        np.std(values, ddof=1)
    )


def of_estimates(found: Sequence[Estimate], oracle: float | None) -> Measure:
    """The mean of estimates of several evaluation seeds, of their limits too; the spread is between
    them.
    """
    values = [item.value for item in found]
    lows = [item.low for item in found if item.low is not None]
    highs = [item.high for item in found if item.high is not None]
    return Measure(
        value=float(np.mean(values)),
        low=float(np.mean(lows)) if len(lows) == len(found) else None,
        high=float(np.mean(highs)) if len(highs) == len(found) else None,
        oracle=oracle,
        spread=float(np.std(values, ddof=1)) if len(found) > 1 else None,
    )


def of_comparisons(found: Sequence[PopulationComparison], oracle_row: bool) -> Measure:
    """The unlearned side of comparisons with the oracle's beside it; of the oracle's own row, the
    oracle's side.
    """
    theirs = float(np.mean([item.oracle.value for item in found]))
    return of_estimates([item.oracle if oracle_row else item.unlearned for item in found], theirs)
