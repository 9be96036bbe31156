"""From measurements to a row of the report. Whatever can be derived is derived here, also for reports that an app sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from unplug.export.tensors import digest_inputs

from .devices.base import DeviceInfo, Job, Plan, State, Untimed
from .report import BenchRow, Repeat, Window
from .statistics import Estimate, drift, mean_interval, outlier_share, relative_spread, summarize, typical_latency
from .validity import THERMAL_STATES, refusals, warnings


def stopped_row(info: DeviceInfo, job: Job, plan: Plan, reason: str, interruptions: Sequence[str] = ()) -> BenchRow:
    """The row of an artifact that was not run, or whose run failed."""
    return BenchRow(
        **_facts(info, job, plan), delegate_asked=job.delegate, status="failed" if job.not_run is None else "not_run",
        valid=False, reasons=(reason,), interruptions=tuple(interruptions),
    )  # fmt: skip


def measured_row(
    info: DeviceInfo,
    job: Job,
    plan: Plan,
    repeats: Sequence[Repeat],
    *,
    untimed: Untimed | None,
    placement: dict[str, Any],
    curve: Sequence[Window] = (),
    peak_flops: float | None = None,
    after: State | None = None,
    gate: str | None = None,
    interruptions: Sequence[str] = (),
    load: float | None = None,
    cores: int = 1,
) -> BenchRow:
    """The row of an artifact that was timed.

    Args:
        info: what the device said at the start.
        job, plan: what was measured and how.
        repeats: its cold starts.
        untimed: the pass for memory, or None where there is none.
        placement: fields of a row that tell what ran the operators, and `timed_until`.
        curve: of a sustained run.
        peak_flops: see `Driven.peak_flops`.
        after: the device's state at the end.
        gate: what waiting for a cool device came to.
        interruptions: what went wrong on the way.
        load, cores: see `unplug.mobile_bench.validity.warnings`.
    """
    flops = job.artifact.card.flops
    row = BenchRow(
        **_facts(info, job, plan),
        **placement,
        delegate_asked=job.delegate,
        status="ok",
        valid=True,
        reasons=(),
        repeats=tuple(repeats),
        curve=tuple(curve),
        peak_memory_bytes=None if untimed is None else untimed.peak_memory_bytes,
        base_memory_bytes=None if untimed is None else untimed.base_memory_bytes,
        thermal_before=repeats[0].thermal,
        thermal_during=max((repeat.thermal for repeat in repeats if repeat.thermal), key=_heat, default=None),
        thermal_after=None if after is None else after.thermal,
        battery_after_percent=None if after is None else after.battery_percent,
        thermal_gate=gate,
        interruptions=tuple(interruptions),
        flop_bound_ms=None if peak_flops is None or flops is None else 1e3 * flops / peak_flops,
    )
    return derived(row, load=load, cores=cores)


def derived(row: BenchRow, *, reasons: Sequence[str] = (), load: float | None = None, cores: int = 1) -> BenchRow:
    """A row with every number that follows from its repeats worked out, and whether it may be ranked.

    Args:
        row: status "ok"; what it says of these numbers itself is not believed.
        reasons: more reasons to refuse it.
        load, cores: see `unplug.mobile_bench.validity.warnings`.
    """
    repeats = tuple(
        replace(repeat, summary=summarize(repeat.latencies_ms)) if repeat.latencies_ms else repeat for repeat in row.repeats
    )
    pooled = [latency for repeat in repeats for latency in repeat.latencies_ms]
    medians = [repeat.summary.p50 for repeat in repeats]
    typical, slope = typical_latency(medians), _drift(repeats)
    shares = [outlier_share(repeat.latencies_ms) for repeat in repeats if repeat.latencies_ms]
    outliers = sum(shares) / len(shares) if shares else None
    found = (
        *reasons,
        *refusals(
            repeats, delegate_asked=row.delegate_asked, flop_bound_ms=row.flop_bound_ms, drift=slope,
            sustained=row.mode == "sustained", gate=row.thermal_gate,
        ),
    )  # fmt: skip
    return replace(
        row,
        repeats=repeats,
        valid=not found,
        reasons=found,
        warnings=tuple(
            warnings(repeats, drift=slope, outliers=outliers, sustained=row.mode == "sustained", load=load, cores=cores)
        ),
        delegate_got=repeats[0].delegate_got,
        init_ms_cold=median(repeat.init_ms for repeat in repeats),
        first_inference_ms=median(repeat.first_inference_ms for repeat in repeats),
        enqueue_ms=_median(repeat.enqueue_ms for repeat in repeats),
        read_back_ms=_median(repeat.read_back_ms for repeat in repeats),
        energy_mj=_median(repeat.energy_mj for repeat in repeats),
        summary=summarize(pooled) if pooled else repeats[0].summary if len(repeats) == 1 else None,
        median_ms=None if typical is None else typical.value,
        median_ci95_ms=None if typical is None else typical.ends,
        spread=relative_spread(medians),
        drift=None if slope is None else slope.value,
        drift_ci95=None if slope is None else slope.ends,
        outlier_share=outliers,
    )


def _facts(info: DeviceInfo, job: Job, plan: Plan) -> dict[str, Any]:
    card = job.artifact.card
    return {
        **asdict(info),
        "file": card.file,
        "model_type": card.model_type,
        "model_sha256": card.checkpoint_sha256,
        "artifact_sha256": card.sha256,
        "target": card.target,
        "precision": card.precision,
        "bytes": card.bytes,
        "runtime": job.runtime,
        "runtime_version": job.runtime_version,
        "threads": plan.threads,
        "mode": "sustained" if plan.sustain_s else "burst",
        "warmup": plan.warmup,
        "iterations": plan.iterations,
        "parity_reference": "first_run" if job.reference is None else "checkpoint",
        "inputs_sha256": digest_inputs(job.inputs),
        "flops": card.flops,
    }


def _drift(repeats: Sequence[Repeat]) -> Estimate | None:
    slopes = [slope for repeat in repeats if (slope := drift(repeat.latencies_ms)) is not None]
    return mean_interval(slopes) if slopes else None


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _heat(state: str) -> int:
    return THERMAL_STATES.index(state) if state in THERMAL_STATES else -1
