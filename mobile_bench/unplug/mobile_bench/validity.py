"""The rules that refuse a row, and what is worth a warning. Pure functions: a row that breaks a
rule is kept and not ranked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np

from unplug.core import Estimate, milliseconds
from unplug.export import PRECISIONS

from .bench_report import Repeat
from .statistics import drift, relative_spread

THERMAL_STATES = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
"""Android's, from PowerManager.THERMAL_STATUS_*; from the third on the system throttles."""
THROTTLING = THERMAL_STATES[2:]
THROTTLE_DRIFT = 0.10
"""Growth of latency within a cold start, in the median of them, that is called throttling where
most of them show some.
"""
SETTLING_DRIFT = -0.05
"""Shown fall of it that is called a warm-up too short."""
PENDING_SHARE = 0.10
"""A share of the latency: as much as a read-back may wait for the run before it. A plain copy of
the outputs waits for nothing.
"""
MIN_DELEGATED = 0.5
"""A share of the operators: with fewer the row is the CPU's rather than the accelerator's."""
ON_THE_CPU = ("cpu", "xnnpack", "none", "eager", "compiled", "wasm")
MAX_CLOCK_HZ = (
    6.5e9  # above every CPU on sale; a bound must not depend on what a virtual machine reports
)
FLOP_PER_CYCLE = {"fp32": 256.0}
WIDE_PER_CYCLE = 4096.0
"""Limits of one core: two 512-bit units x 32 half-precision lanes x a multiply and an add (fp32 has
half of it); matrix units do 4,096 in 8 and 16 bits. Bounds that catch work that was not done, not
estimates of the speed to expect.
"""
GPU_PEAK = 1e15
"""Above every GPU that is sold with a screen."""
MAX_OUTLIERS = 0.05
MAX_SPREAD = 0.20


def parity_floor(precision: str, delegate: str) -> float:
    """Decibels that outputs must reach: the precision's, or fp16's where the delegate computes in
    half precision.

    Example:
        >>> parity_floor("fp32", "gpu"), parity_floor("fp32", "gpu-fp16")
        (100.0, 60.0)
    """
    least = PRECISIONS.get(precision).min_psnr_db
    half = PRECISIONS.get("fp16").min_psnr_db
    return min(least, half) if delegate.endswith("-fp16") else least


def peak_flops(precision: str, delegate: str, threads: int) -> float | None:
    """Operations a second that no computer, phone or browser exceeds; None of accelerators that
    nothing is known of.

    Example:
        >>> peak_flops("fp32", "wasm", 2) == 2 * 6.5e9 * 256, peak_flops("fp32", "webgpu", 1), peak_flops("fp32", "ane", 1)
        (True, 1000000000000000.0, None)
    """
    if delegate in ON_THE_CPU:
        return threads * MAX_CLOCK_HZ * FLOP_PER_CYCLE.get(precision, WIDE_PER_CYCLE)
    return GPU_PEAK if "gpu" in delegate or "cuda" in delegate else None


def refusals(
    repeats: Sequence[Repeat],
    *,
    delegate_asked: str,
    flop_bound_ms: float | None,
    delegated: float | None,
    sustained: bool,
    gate: str | None,
) -> Iterator[str]:
    """Why a row must not be ranked.

    Args:
        repeats: the row's repeats, at least one.
        delegate_asked: the delegate that should have run it.
        flop_bound_ms: no run can be faster than this; None where that is unknown.
        delegated: share of the operators that the delegate took, or None.
        sustained: throttling is then what is measured.
        gate: the result of waiting for a cool device; begins with "gave up" if it never cooled.
    """
    for reason in dict.fromkeys(repeat.parity_reason for repeat in repeats):
        if reason:
            yield f"parity: {reason}"
    if not all(repeat.compared for repeat in repeats):
        yield "parity: nobody looked at the outputs"
    fastest = min(repeat.summary.min for repeat in repeats)
    if flop_bound_ms is not None and fastest < flop_bound_ms:
        yield (
            f"a run took {fastest:.2g} ms, less than the arithmetic bound of {flop_bound_ms:.2g} "
            "ms: no work was done"
        )
    yield from _left_behind(repeats)
    for got in dict.fromkeys(repeat.delegate_got for repeat in repeats):
        if got is not None and got != delegate_asked:
            yield f"{delegate_asked} was asked for and {got} ran"
    if delegated is not None and delegated < MIN_DELEGATED and delegate_asked not in ON_THE_CPU:
        yield f"{delegate_asked} took {delegated:.0%} of the operators, and the CPU the rest"
    yield from circumstances(repeats, sustained=sustained, gate=gate)


def circumstances(repeats: Sequence[Repeat], *, sustained: bool, gate: str | None) -> Iterator[str]:
    """The `refusals` that are nobody's fault but the machine's: another time, the same file
    may do.
    """
    if not sustained:
        yield from _heat(repeats, gate)
    for name in ("clock_mode", "charging"):
        values = dict.fromkeys(str(getattr(repeat, name)) for repeat in repeats)
        if len(values) > 1:
            yield f"{name.replace('_', ' ')} changed between cold starts: {', '.join(values)}"


def _left_behind(repeats: Sequence[Repeat]) -> Iterator[str]:
    """Work that a call did not wait for."""
    for repeat in repeats:
        if repeat.pending_ms is not None and repeat.pending_ms > PENDING_SHARE * repeat.summary.p50:
            yield (
                f"a call returned before its work was done: {milliseconds(repeat.summary.p50)} ms timed, "
                f"and reading the outputs then waited {milliseconds(repeat.pending_ms)} ms longer than it "
                "must"
            )
            return


def _heat(repeats: Sequence[Repeat], gate: str | None) -> Iterator[str]:
    states = [state for repeat in repeats for state in (repeat.thermal, repeat.thermal_after)]
    if hot := dict.fromkeys(state for state in states if state in THROTTLING):
        yield f"the device says that it throttles ({', '.join(map(str, hot))})"
    slopes = [slope for repeat in repeats if (slope := drift(repeat.latencies_ms)) is not None]
    grown = float(np.median([slope.value for slope in slopes])) if slopes else 0.0
    shown = sum(slope.low is not None and slope.low > 0.0 for slope in slopes)
    if grown > THROTTLE_DRIFT and 2 * shown > len(slopes):
        yield f"it throttled: runs became {grown:.0%} slower within a cold start"
    if gate is not None and gate.startswith("gave up"):
        yield f"the device was too hot to begin: {gate}"


def warnings(
    repeats: Sequence[Repeat],
    *,
    slope: Estimate | None,
    outliers: float | None,
    delegated: float | None,
    sustained: bool,
    load: float | None,
) -> Iterator[str]:
    """What a reader should know of a row that may be ranked.

    Args:
        repeats, delegated, sustained: see `refusals`.
        slope: drift over the repeats, or None.
        outliers: share of runs, or None.
        load: the load of this machine before the benchmark, in runnable processes; None where it
            does not matter.
    """
    cores = os.cpu_count() or 1
    if load is not None and load > 0.5 * cores:
        yield f"other work ran on this machine (load {load:.1f} on {cores} cores)"
    if delegated is not None and 0.0 < delegated < 1.0:
        yield f"{1 - delegated:.0%} of the operators were left to other kernels"
    if sustained:
        return
    if len(repeats) < 2:
        yield "one cold start says nothing of the spread between them: there is no interval"
    spread = relative_spread([repeat.summary.p50 for repeat in repeats])
    if spread is not None and spread > MAX_SPREAD:
        yield f"cold starts differ by {spread:.0%}"
    if slope is not None and slope.high is not None and slope.high < SETTLING_DRIFT:
        yield f"runs became {-slope.value:.0%} faster within a cold start: the warm-up is too short"
    if outliers is not None and outliers > MAX_OUTLIERS:
        yield f"{outliers:.0%} of the runs are outliers"
