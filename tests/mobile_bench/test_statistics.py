"""Latency statistics against values worked out by hand, numpy's percentiles, and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.mobile_bench.statistics import bootstrap_median, percentile, relative_spread, summarize


def test_golden_summary() -> None:
    # sorted: 1 2 3 4 10; places of p50, p90, p95: 2, 3.6, 3.8; mean 4; squares 9 4 1 0 36, sum 50, / 4 = 12.5
    summary = summarize([4.0, 1.0, 10.0, 3.0, 2.0])
    assert (summary.count, summary.p50, summary.min, summary.max, summary.mean) == (5, 3.0, 1.0, 10.0, 4.0)
    assert summary.p90 == pytest.approx(4 + 0.6 * 6)
    assert summary.p95 == pytest.approx(4 + 0.8 * 6)
    assert summary.std == pytest.approx(12.5**0.5)


def test_one_sample_and_none() -> None:
    one = summarize([2.0])
    assert (one.p50, one.p95, one.std, one.p99) == (2.0, 2.0, 0.0, None)
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


def test_p99_needs_a_thousand_samples() -> None:
    assert summarize(list(range(999))).p99 is None
    assert summarize(list(range(1000))).p99 == pytest.approx(989.01)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_percentile_agrees_with_numpy(samples: list[float], percent: float) -> None:
    assert percentile(np.sort(samples), percent) == pytest.approx(float(np.percentile(samples, percent)))


def test_spread() -> None:
    assert relative_spread([2.0]) == 0.0
    assert relative_spread([0.0, 1.0]) is None
    assert relative_spread([1.2, 1.0, 1.1]) == pytest.approx(0.2)


def test_bootstrap_repeats_and_narrows() -> None:
    samples = np.random.default_rng(0).lognormal(size=400)
    first, again = (bootstrap_median(samples, np.random.default_rng(1)) for _ in range(2))
    assert first == again
    low, high = bootstrap_median(samples[:40], np.random.default_rng(1))
    assert first[0] < np.median(samples) < first[1]
    assert high - low > first[1] - first[0]
    assert bootstrap_median([3.0, 3.0], np.random.default_rng(0)) == (3.0, 3.0)


def test_bootstrap_covers_the_true_median() -> None:
    """400 simulated runs of 60 skewed latencies: 95 % +- three standard errors (1.1 %) of them should cover."""
    generator, runs, truth = np.random.default_rng(0), 400, 1.0
    covered = 0
    for _ in range(runs):
        low, high = bootstrap_median(generator.lognormal(size=60), generator, resamples=500)
        covered += low <= truth <= high
    assert 0.917 <= covered / runs <= 0.983
