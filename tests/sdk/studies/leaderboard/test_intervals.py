"""Intervals of means over models that share originals, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t, ttest_ind

from unplug.sdk.studies.leaderboard.intervals import absolute, cluster_mean, difference


def test_clusters_are_what_varies() -> None:
    """Ten models of one original agree exactly: they are no more than one observation."""
    mean = cluster_mean([1.0] * 10 + [3.0] * 10, [0] * 10 + [1] * 10)
    assert (mean.value, mean.variance, mean.freedom) == (2.0, 1.0, 1)
    assert mean.interval == pytest.approx((2 - t.ppf(0.975, 1), 2 + t.ppf(0.975, 1)))


def test_one_cluster_is_over_its_models_and_one_model_has_no_interval() -> None:
    values = [1.0, 2.0, 6.0]
    mean = cluster_mean(values, [5, 5, 5])
    assert mean.value == 3.0 and mean.variance == pytest.approx(np.var(values, ddof=1) / 3)
    assert cluster_mean([1.0], [0]).interval is None


def test_difference_is_welch() -> None:
    draw = np.random.default_rng(0)
    ours, theirs = draw.normal(1.0, 2.0, 9), draw.normal(0.0, 0.5, 14)
    gap = difference(cluster_mean(ours, range(9)), cluster_mean(theirs, range(14)))
    low, high = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert gap.interval == pytest.approx((low, high), rel=1e-6)


def test_variance_of_samples_widens() -> None:
    mean = cluster_mean([0.0, 2.0], [0, 1])
    wide = mean.plus_variance(3.0)
    assert wide.variance == 4.0 and wide.value == mean.value
    assert wide.interval is not None and wide.interval[1] == pytest.approx(1 + t.ppf(0.975, 1) * math.sqrt(4.0))


@pytest.mark.parametrize(("ends", "expected"), [((1, 2), (1, 2)), ((-2, -1), (1, 2)), ((-2, 1), (0, 2)), ((0, 1), (0, 1))])
def test_absolute(ends: tuple[float, float], expected: tuple[float, float]) -> None:
    assert absolute(*ends) == expected


def test_coverage_of_the_clustered_interval() -> None:
    """With originals that differ, 95 % of intervals must hold the truth; treating models as independent would hold far less."""
    draw = np.random.default_rng(1)
    held = naive = 0
    for _ in range(400):
        values = (draw.normal(size=(5, 1)) + 0.3 * draw.normal(size=(5, 8))).ravel()
        low, high = cluster_mean(values, np.repeat(np.arange(5), 8)).interval or (0, 0)
        held += low <= 0 <= high
        low, high = cluster_mean(values, np.arange(40)).interval or (0, 0)
        naive += low <= 0 <= high
    assert held / 400 > 0.92 and naive / 400 < 0.7
