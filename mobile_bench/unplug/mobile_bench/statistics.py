"""Statistics of latencies. Pure functions: numbers in, numbers out.

Shapes: N samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MIN_SAMPLES_P99 = 1000  # ten samples above it; with fewer, p99 is one or two outliers
RESAMPLES = 2000  # the interval's own noise is then below a tenth of its width
BLOCK = 100  # resamples drawn at once, so that memory stays small for long runs


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a set of latencies comes to, in milliseconds.

    Args:
        count: N.
        p50, p90, p95: percentiles by linear interpolation between order statistics.
        p99: the same, or None below 1,000 samples.
        mean, std, min, max: std with N - 1 below; 0 for one sample.
    """

    count: int
    p50: float
    p90: float
    p95: float
    p99: float | None
    mean: float
    std: float
    min: float
    max: float


def percentile(sorted_N: NDArray[np.float64], percent: float) -> float:
    """The `percent` percentile by linear interpolation.

    With x_0 <= ... <= x_(N-1) and h = (N - 1) percent / 100: x_floor(h) + (h - floor(h)) (x_(floor(h)+1) - x_floor(h)).

    Example:
        >>> percentile(np.array([1.0, 2.0, 3.0, 4.0]), 50.0)
        2.5

    Reference:
        Hyndman and Fan, Sample quantiles in statistical packages, 1996, type 7.
    """
    place = (len(sorted_N) - 1) * percent / 100.0
    below = int(place)
    above = min(below + 1, len(sorted_N) - 1)
    return float(sorted_N[below] + (place - below) * (sorted_N[above] - sorted_N[below]))


def summarize(latencies_N: Sequence[float]) -> Summary:
    """Percentiles, mean, spread and extremes.

    Raises:
        ValueError: there are no samples.
    """
    if not len(latencies_N):
        raise ValueError("no samples to summarize")
    sorted_N = np.sort(np.asarray(latencies_N, np.float64))
    count = len(sorted_N)
    return Summary(
        count=count,
        p50=percentile(sorted_N, 50.0),
        p90=percentile(sorted_N, 90.0),
        p95=percentile(sorted_N, 95.0),
        p99=percentile(sorted_N, 99.0) if count >= MIN_SAMPLES_P99 else None,
        mean=float(sorted_N.mean()),
        std=float(sorted_N.std(ddof=1)) if count > 1 else 0.0,
        min=float(sorted_N[0]),
        max=float(sorted_N[-1]),
    )


def bootstrap_median(
    samples_N: Sequence[float],
    generator: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> tuple[float, float]:
    """Percentile-bootstrap interval of the median.

    It covers the noise among the samples given. Whatever changes between runs (clock, memory placement, neighbours)
    shows in `relative_spread` of the repeats instead.

    Args:
        samples_N: N samples.
        generator: draws the resamples.
        level: probability that the interval should cover the true median.
        resamples: number of resamples.

    Returns:
        Lower and upper end.

    Reference:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3.
    """
    data_N = np.asarray(samples_N, np.float64)
    medians = np.concatenate(
        [
            np.median(data_N[generator.integers(0, len(data_N), size=(min(BLOCK, resamples - start), len(data_N)))], axis=1)
            for start in range(0, resamples, BLOCK)
        ]
    )
    tail = 50.0 * (1.0 - level)
    ends = np.sort(medians)
    return percentile(ends, tail), percentile(ends, 100.0 - tail)


def relative_spread(medians: Sequence[float]) -> float | None:
    """Spread between repeats: (largest - smallest median) / smallest; None if a clock too coarse says zero.

    Example:
        >>> relative_spread([2.0, 2.5, 3.0])
        0.5
    """
    return (max(medians) - min(medians)) / min(medians) if min(medians) > 0.0 else None
