"""Statistics of latencies. Pure functions: numbers in, numbers out.

Shapes: N samples, R cold starts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unplug.core import Estimate

MIN_SAMPLES_P99 = 1000  # ten samples above it; with fewer, p99 is one or two outliers
MIN_SAMPLES_DRIFT = 8  # below it a slope is noise
MAX_DRIFT_POINTS = 200  # the slope looks at all pairs of these
LEVEL = 0.95
"""Probability that an interval should cover what it is of."""
MAX_EXPONENT = (
    700.0  # e^700 is 1e304: an end of an interval beyond it says as little, and e^710 overflows
)


def exp(value: float) -> float:
    """e to the power of a logarithm, at most of `MAX_EXPONENT`: two cold starts far apart say
    nothing of a third.

    Example:
        >>> exp(0.0), exp(1e6) == exp(700.0) > 1e300
        (1.0, True)
    """
    return math.exp(min(value, MAX_EXPONENT))


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a set of latencies comes to, in milliseconds.

    Args:
        count: N.
        p50, p90, p95: percentiles by linear interpolation between order statistics; p90 and p95 are
            None where the tool that ran it does not tell them.
        p99: the same, or None below 1,000 samples.
        mean, std, min, max: std with N - 1 below; 0 for one sample.
    """

    count: int
    p50: float
    p90: float | None
    p95: float | None
    p99: float | None
    mean: float
    std: float
    min: float
    max: float


def summarize(latencies_N: Sequence[float]) -> Summary:
    """Percentiles, mean, spread and extremes.

    Raises:
        ValueError: there are no samples.
    """
    if not len(latencies_N):
        raise ValueError("no samples to summarize")
    values_N = np.asarray(latencies_N, np.float64)
    count = len(values_N)
    p50, p90, p95, p99 = np.percentile(values_N, (50.0, 90.0, 95.0, 99.0)).tolist()
    return Summary(
        count=count,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99 if count >= MIN_SAMPLES_P99 else None,
        mean=float(values_N.mean()),
        std=float(values_N.std(ddof=1)) if count > 1 else 0.0,
        min=float(values_N.min()),
        max=float(values_N.max()),
    )


def mean_interval(values_R: Sequence[float]) -> Estimate:
    """Student's interval of a mean, at `LEVEL`: mean +- t(R - 1) s / sqrt(R).

    Args:
        values_R: one number a cold start.

    Example:
        >>> mean_interval([1.0, 2.0, 3.0]).value, mean_interval([1.0]).ends
        (2.0, None)
    """
    data_R = np.asarray(values_R, np.float64)
    mean, count = float(data_R.mean()), len(data_R)
    if count < 2:
        return Estimate(value=mean, low=None, high=None)
    from scipy.stats import t

    half = float(t.ppf(0.5 + LEVEL / 2, count - 1)) * float(data_R.std(ddof=1)) / math.sqrt(count)
    return Estimate(value=mean, low=mean - half, high=mean + half)


def typical_latency(medians_R: Sequence[float]) -> Estimate | None:
    """Geometric mean of the cold starts' medians, with Student's interval on their logarithms.

    Runs of one cold start share its clock, its memory and its neighbours: they are not independent,
    and an interval drawn from all runs together (a bootstrap of them, say) covers far less often
    than it claims. A test simulates both.

    Args:
        medians_R: one a cold start, in milliseconds.

    Returns:
        None where a clock too coarse says zero.

    Example:
        >>> found = typical_latency([1.0, 2.0, 4.0])
        >>> round(found.value, 6), found.low < 1.0, found.high > 4.0
        (2.0, True, True)
    """
    if min(medians_R) <= 0.0:
        return None
    logs = mean_interval(np.log(medians_R).tolist())
    low, high = logs.ends or (None, None)
    return Estimate(
        value=exp(logs.value),
        low=None if low is None else exp(low),
        high=None if high is None else exp(high),
    )


def drift(latencies_N: Sequence[float]) -> Estimate | None:
    """By which share runs became slower from the first to the last: Theil and Sen's slope times N -
    1, over the median.

    The slope is the median of those between all pairs, so that a few slow runs do not count; its 95
    % interval is by their ranks. None below `MIN_SAMPLES_DRIFT` runs, or where the clock says zero.

    Example:
        >>> round(drift([1.0 + 0.01 * step for step in range(21)]).value, 6)
        0.181818

    Reference:
        Sen, Estimates of the regression coefficient based on Kendall's tau, 1968.
    """
    data_N = np.asarray(latencies_N, np.float64)
    if len(data_N) < MIN_SAMPLES_DRIFT or (middle := float(np.median(data_N))) <= 0.0:
        return None
    from scipy.stats import theilslopes

    step = -(-len(data_N) // MAX_DRIFT_POINTS)
    parts_K = (
        data_N
        if step == 1
        else np.array([np.median(data_N[at : at + step]) for at in range(0, len(data_N), step)])
    )
    slope, _, low, high = (
        float(value) * (len(data_N) - 1) / step / middle for value in theilslopes(parts_K)
    )
    return Estimate(value=slope, low=low, high=high)


def outlier_share(latencies_N: Sequence[float]) -> float:
    """Share of runs above median + 5 robust standard deviations (1.4826 times the median absolute
    deviation).

    Nothing is thrown away for it: an outlier is what a user saw.

    Example:
        >>> outlier_share([1.0, 1.01, 0.99, 1.02, 9.0])
        0.2
    """
    data_N = np.asarray(latencies_N, np.float64)
    middle = float(np.median(data_N))
    deviation = 1.4826 * float(np.median(np.abs(data_N - middle)))
    return float(np.mean(data_N > middle + 5.0 * deviation)) if deviation > 0.0 else 0.0


def relative_spread(medians: Sequence[float]) -> float | None:
    """Spread between repeats: (largest - smallest median) / smallest; None if a clock too coarse
    says zero.

    Example:
        >>> relative_spread([2.0, 2.5, 3.0])
        0.5
    """
    return (max(medians) - min(medians)) / min(medians) if min(medians) > 0.0 else None
