"""Intervals, for tests that know that there is one."""

from __future__ import annotations

from unplug.core import Estimate


def ends(estimate: Estimate | None) -> tuple[float, float]:
    """Both ends."""
    assert estimate is not None and estimate.low is not None and estimate.high is not None
    return estimate.low, estimate.high
