"""Minutes at full load: the curve of latency over time, and what is left of the speed at its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bench_report import Window

WINDOWS = 60
HEAD, TAIL = 0.1, 0.2
"""Parts of a curve: its beginning, before anything is warm, and its end."""


def windows(
    ends_N: Sequence[float], latencies_N: Sequence[float], count: int = WINDOWS
) -> tuple[Window, ...]:
    """A sustained run in `count` windows of equal length; those in which no run ended are left out.

    Args:
        ends_N: when each run ended, seconds since the first began, ascending.
        latencies_N: the latency of each run, in milliseconds.
        count: the number of windows.

    Example:
        >>> [window.p50 for window in windows([1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 7.0, 7.0], 2)]
        [5.0, 7.0]
    """
    ends, latencies = np.asarray(ends_N, np.float64), np.asarray(latencies_N, np.float64)
    if not len(ends):
        return ()
    edges = np.linspace(0.0, float(ends[-1]), count + 1)
    places = np.clip(np.searchsorted(edges, ends, side="left"), 1, count) - 1
    curve = []
    for place in np.unique(places):
        inside = latencies[places == place]
        p50, p95 = np.percentile(inside, (50.0, 95.0)).tolist()
        curve.append(
            Window(
                start_s=float(edges[place]),
                end_s=float(edges[place + 1]),
                count=len(inside),
                p50=p50,
                p95=p95,
            )
        )
    return tuple(curve)


def throttling(curve: Sequence[Window]) -> float | None:
    """By how much a run is slower at the end of a sustained run than at its beginning: median of
    the last windows over that of the first, minus 1; None where there are too few.

    Example:
        >>> from unplug.mobile_bench.sustained import windows
        >>> curve = windows([float(step) for step in range(1, 41)], [1.0] * 20 + [1.5] * 20, 20)
        >>> throttling(curve)
        0.5
    """
    if len(curve) < 5:
        return None
    head, tail = max(1, round(HEAD * len(curve))), max(1, round(TAIL * len(curve)))
    first = float(np.median([window.p50 for window in curve[:head]]))
    return (
        float(np.median([window.p50 for window in curve[-tail:]])) / first - 1.0
        if first > 0.0
        else None
    )
