"""The rules that refuse a row, and what is worth a warning. Pure functions: a row that breaks a rule is kept and not ranked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unplug.export.precisions import PRECISIONS

from .report import Repeat
from .statistics import Estimate, relative_spread

THERMAL_STATES = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
"""Android's, from PowerManager.THERMAL_STATUS_*; from the third on the system throttles."""
THROTTLING = THERMAL_STATES[2:]
THROTTLE_DRIFT = 0.10
"""Shown growth of latency within a cold start that is called throttling."""
SETTLING_DRIFT = -0.05
"""Shown fall of it that is called a warm-up too short."""
PENDING_SHARE = 0.10
"""Of the latency: as much as a read-back may wait for the run before it. A plain copy of the outputs waits for nothing."""
MAX_OUTLIERS = 0.05
MAX_SPREAD = 0.20


def parity_floor(precision: str, delegate: str) -> float:
    """Decibels that outputs must reach: the precision's, or fp16's where the delegate computes in half precision.

    Example:
        >>> parity_floor("fp32", "gpu"), parity_floor("fp32", "gpu-fp16")
        (100.0, 60.0)
    """
    own: float = PRECISIONS.get(precision).min_psnr_db
    half: float = PRECISIONS.get("fp16").min_psnr_db
    return min(own, half) if delegate.endswith("-fp16") else own


def refusals(
    repeats: Sequence[Repeat],
    *,
    delegate_asked: str,
    flop_bound_ms: float | None,
    drift: Estimate | None,
    sustained: bool,
    gate: str | None,
) -> Iterator[str]:
    """Why a row must not be ranked.

    Args:
        repeats: of the row, at least one.
        delegate_asked: what should have run it.
        flop_bound_ms: no run can be faster than this; None where that is unknown.
        drift: over the repeats, or None where that could not be computed.
        sustained: throttling is then what is measured.
        gate: what waiting for a cool device came to; begins with "gave up" where it did.
    """
    for reason in dict.fromkeys(repeat.parity_reason for repeat in repeats):
        if reason:
            yield f"parity: {reason}"
    fastest = min(repeat.summary.min for repeat in repeats)
    if flop_bound_ms is not None and fastest < flop_bound_ms:
        yield f"a run took {fastest:.2g} ms, less than the arithmetic bound of {flop_bound_ms:.2g} ms: no work was done"
    for repeat in repeats:
        if repeat.pending_ms is not None and repeat.pending_ms > PENDING_SHARE * repeat.summary.p50:
            yield (
                f"a call returned before its work was done: {repeat.summary.p50:.3g} ms timed, "
                f"and reading the outputs then waited {repeat.pending_ms:.3g} ms longer than it must"
            )
            break
    for got in dict.fromkeys(repeat.delegate_got for repeat in repeats):
        if got is not None and got != delegate_asked:
            yield f"{delegate_asked} was asked for and {got} ran"
    if sustained:
        return
    hot = [repeat.thermal for repeat in repeats if repeat.thermal in THROTTLING]
    if hot:
        yield f"the device says that it throttles ({', '.join(dict.fromkeys(map(str, hot)))})"
    if drift is not None and drift.low is not None and drift.low > THROTTLE_DRIFT:
        yield f"it throttled: runs became {drift.value:.0%} slower within a cold start"
    if gate is not None and gate.startswith("gave up"):
        yield f"the device was too hot to begin: {gate}"


def warnings(
    repeats: Sequence[Repeat],
    *,
    drift: Estimate | None,
    outliers: float | None,
    sustained: bool,
    load: float | None,
    cores: int,
) -> Iterator[str]:
    """What a reader should know of a row that may be ranked.

    Args:
        repeats, drift, sustained: see `refusals`.
        outliers: share of runs, or None.
        load: of the machine before the benchmark, in runnable processes; None where it does not tell.
        cores: of the machine.
    """
    if load is not None and load > 0.5 * cores:
        yield f"other work ran on this machine (load {load:.1f} on {cores} cores)"
    if sustained:
        return
    if len(repeats) < 2:
        yield "one cold start says nothing of the spread between them: there is no interval"
    spread = relative_spread([repeat.summary.p50 for repeat in repeats])
    if spread is not None and spread > MAX_SPREAD:
        yield f"cold starts differ by {spread:.0%}"
    if drift is not None and drift.high is not None and drift.high < SETTLING_DRIFT:
        yield f"runs became {-drift.value:.0%} faster within a cold start: the warm-up is too short"
    if outliers is not None and outliers > MAX_OUTLIERS:
        yield f"{outliers:.0%} of the runs are outliers"
