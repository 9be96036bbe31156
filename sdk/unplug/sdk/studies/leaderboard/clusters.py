"""Intervals of means over models that share originals: seeds of unlearning from one original are no independent samples.

Shapes: M models, K clusters (originals).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from unplug.sdk.statistics import CONFIDENCE

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
        half = _quantile(self.freedom) * math.sqrt(self.variance)
        return self.value - half, self.value + half

    def plus_variance(self, extra: float) -> Mean:
        """The same mean with the variance that comes from the samples added to that from the models.

        Degrees of freedom stay those of the models, which is on the safe side.
        """
        return self if self.variance is None else Mean(value=self.value, variance=self.variance + extra, freedom=self.freedom)


def cluster_mean(values_M: Sequence[float] | Array, clusters_M: Sequence[int]) -> Mean:
    """Mean of the cluster means, s^2 / K its variance, K - 1 degrees of freedom.

    With one cluster every model stands for itself: the interval is then over unlearning seeds alone.

    Example:
        >>> cluster_mean([1.0, 3.0, 5.0, 7.0], [0, 0, 1, 1])
        Mean(value=4.0, variance=4.0, freedom=1)
    """
    values, clusters = np.asarray(values_M, np.float64), np.asarray(clusters_M)
    names = np.unique(clusters)
    means_K = values if len(names) == 1 else np.array([values[clusters == name].mean() for name in names])
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


def _quantile(freedom: float) -> float:
    return float(student.ppf(0.5 + CONFIDENCE / 2, freedom))
