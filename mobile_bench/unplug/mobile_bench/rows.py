"""From measurements to a row of the report. Whatever can be derived is derived here, also for
reports that an app sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from unplug.core import Estimate

from .bench_report import BenchRow, Repeat, Window
from .devices.bench_device import BenchJob, DeviceInfo, Plan, State, Untimed
from .statistics import (
    drift,
    mean_interval,
    outlier_share,
    relative_spread,
    summarize,
    typical_latency,
)
from .validity import THERMAL_STATES, circumstances, refusals, warnings


def stopped_row(
    info: DeviceInfo, job: BenchJob, plan: Plan, reason: str, interruptions: Sequence[str] = ()
) -> BenchRow:
    """The row of an artifact that was not run, or whose run failed."""
    return BenchRow(
        **_facts(info, job, plan),
        delegate_asked=job.delegate,
        status="failed" if job.not_run is None else "not_run",
        valid=False,
        reasons=(reason,),
        interruptions=tuple(interruptions),
    )


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What was measured of one job.

    Args:
        repeats: its cold starts, at least one.
        curve: the windows of a sustained run.
        untimed: the pass for memory, or None where there is none.
        after: the device's state at the end.
        placement: fields of a row that tell what ran the operators, and `timed_until`.
        gate: the result of waiting for a cool device.
        interruptions: faults on the way.
        load: see `unplug.mobile_bench.validity.warnings`.
        peak_flops: see `Driven.peak_flops`.
    """

    repeats: tuple[Repeat, ...]
    curve: tuple[Window, ...] = ()
    untimed: Untimed | None = None
    after: State = field(default_factory=State)
    placement: Mapping[str, Any]
    gate: str | None = None
    interruptions: tuple[str, ...] = ()
    load: float | None = None
    peak_flops: float | None = None


def measured_row(info: DeviceInfo, job: BenchJob, plan: Plan, taken: Taken) -> BenchRow:
    """The row of an artifact that was timed.

    Args:
        info: the device's answer at the start.
        job, plan: the job and the plan that were measured.
        taken: the measurements.
    """
    flops, memory = job.artifact.card.flops, taken.untimed
    states = (
        state
        for repeat in taken.repeats
        for state in (repeat.thermal, repeat.thermal_after)
        if state
    )
    row = BenchRow(
        **_facts(info, job, plan),
        **taken.placement,
        delegate_asked=job.delegate,
        status="ok",
        valid=True,
        reasons=(),
        repeats=taken.repeats,
        curve=taken.curve,
        peak_memory_bytes=None if memory is None else memory.peak_memory_bytes,
        base_memory_bytes=None if memory is None else memory.base_memory_bytes,
        thermal_before=taken.repeats[0].thermal,
        thermal_during=max(states, key=_heat, default=None),
        thermal_after=taken.after.thermal,
        battery_after_percent=taken.after.battery_percent,
        thermal_gate=taken.gate,
        interruptions=taken.interruptions,
        flop_bound_ms=None
        if taken.peak_flops is None or flops is None
        else 1e3 * flops / taken.peak_flops,
    )
    return derived(row, load=taken.load)


def derived(row: BenchRow, *, reasons: Sequence[str] = (), load: float | None = None) -> BenchRow:
    """A row with every number that follows from its repeats worked out, and whether it may be
    ranked.

    Args:
        row: status "ok"; what it says of these numbers itself is not believed.
        reasons: more reasons to refuse it.
        load: see `unplug.mobile_bench.validity.warnings`.
    """
    repeats = tuple(
        replace(repeat, summary=summarize(repeat.latencies_ms)) if repeat.latencies_ms else repeat
        for repeat in row.repeats
    )
    slope, sustained = _drift(repeats), row.mode == "sustained"
    shares = [outlier_share(repeat.latencies_ms) for repeat in repeats if repeat.latencies_ms]
    outliers = sum(shares) / len(shares) if shares else None
    delegated = (
        row.nodes_delegated / row.nodes_total
        if row.nodes_delegated is not None and row.nodes_total
        else None
    )
    refused = refusals(
        repeats,
        delegate_asked=row.delegate_asked,
        flop_bound_ms=row.flop_bound_ms,
        delegated=delegated,
        sustained=sustained,
        gate=row.thermal_gate,
    )
    told = warnings(
        repeats, slope=slope, outliers=outliers, delegated=delegated, sustained=sustained, load=load
    )
    refused_for = (*reasons, *refused)
    return replace(
        row,
        repeats=repeats,
        valid=not refused_for,
        reasons=refused_for,
        warnings=tuple(told),
        delegate_got=repeats[0].delegate_got,
        drift=None if slope is None else slope.value,
        drift_ci95=None if slope is None else slope.ends,
        outlier_share=outliers,
        **_summaries(repeats),
    )


def at_fault(row: BenchRow) -> tuple[str, ...]:
    """Why a row is refused, but for what a hot or busy machine did to its times: what is wrong with
    the file or its runtime.
    """
    spoilt = set(
        circumstances(row.repeats, sustained=row.mode == "sustained", gate=row.thermal_gate)
    )
    return tuple(reason for reason in row.reasons if reason not in spoilt)


def _summaries(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """Numbers over all repeats."""
    pooled = [latency for repeat in repeats for latency in repeat.latencies_ms]
    medians = [repeat.summary.p50 for repeat in repeats]
    typical = typical_latency(medians)
    # of a tool that tells summaries only, several cannot be pooled
    alone = repeats[0].summary if len(repeats) == 1 else None
    return {
        "init_ms_cold": _median(repeat.init_ms for repeat in repeats),
        "first_inference_ms": _median(repeat.first_inference_ms for repeat in repeats),
        "enqueue_ms": _median(repeat.enqueue_ms for repeat in repeats),
        "read_back_ms": _median(repeat.read_back_ms for repeat in repeats),
        "energy_mj": _median(repeat.energy_mj for repeat in repeats),
        "summary": summarize(pooled) if pooled else alone,
        "median_ms": None if typical is None else typical.value,
        "median_ci95_ms": None if typical is None else typical.ends,
        "spread": relative_spread(medians),
    }


def _facts(info: DeviceInfo, job: BenchJob, plan: Plan) -> dict[str, Any]:
    how = {"runtime_version": job.runtime_version, "threads": plan.threads}
    return {**asdict(info), **job.row_facts(), **plan.row_facts(), **how}


def _drift(repeats: Sequence[Repeat]) -> Estimate | None:
    slopes = [
        slope.value for repeat in repeats if (slope := drift(repeat.latencies_ms)) is not None
    ]
    return mean_interval(slopes) if slopes else None


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _heat(state: str) -> int:
    return THERMAL_STATES.index(state) if state in THERMAL_STATES else -1
