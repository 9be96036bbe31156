"""From measurements to a row of the report, and the rules that make a row invalid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import numpy as np

from unplug.export.artifact import Artifact
from unplug.export.child import Array
from unplug.export.metrics import Difference, compare, verdict
from unplug.export.precisions import PRECISIONS
from unplug.export.reference import Reference
from unplug.export.runtime.base import Runtime
from unplug.export.tensors import digest_inputs

from .devices import Device, DeviceInfo, Plan, Timing, Untimed
from .report import BenchRow, Repeat, Status
from .statistics import bootstrap_median, relative_spread, summarize


@dataclass(kw_only=True)
class Entry:
    """What has been measured of one artifact so far.

    Args:
        artifact, plan, runtime, inputs: what is measured and how.
        reference: the checkpoint's outputs, or None to compare with the artifact's own untimed run.
        not_run: why the device cannot run it, or None.
        failure: the error that ended its measurement, or None.
        untimed: the pass for memory and outputs.
        timings: one a repeat.
    """

    artifact: Artifact
    plan: Plan
    runtime: Runtime
    inputs: Mapping[str, Array]
    reference: Reference | None
    not_run: str | None
    failure: str | None = None
    untimed: Untimed | None = None
    timings: list[Timing] = field(default_factory=list)


def build_row(
    device: Device, info: DeviceInfo, entry: Entry, generator: np.random.Generator, *, has_checkpoint: bool
) -> BenchRow:
    """The row of one artifact.

    Args:
        device: it was measured on.
        info: what the device said at the start.
        entry: the measurements.
        generator: draws the bootstrap's resamples.
        has_checkpoint: what the parity reference is.
    """
    card = entry.artifact.card
    common: dict[str, Any] = {
        **asdict(info),
        "file": card.file,
        "model_type": card.model_type,
        "model_sha256": card.checkpoint_sha256,
        "artifact_sha256": card.sha256,
        "target": card.target,
        "precision": card.precision,
        "runtime": entry.runtime.name,
        "runtime_version": entry.runtime.version(),
        "threads": entry.plan.threads,
        "warmup": entry.plan.warmup,
        "iterations": entry.plan.iterations,
        "parity_reference": "checkpoint" if has_checkpoint else "first_run",
        "inputs_sha256": digest_inputs(entry.inputs),
        "flops": card.flops,
    }
    stopped = entry.not_run or entry.failure
    if stopped is not None:
        status: Status = "failed" if entry.not_run is None else "not_run"
        asked = entry.plan.delegate
        return BenchRow(**common, delegate_asked=asked, status=status, valid=False, reasons=(stopped,))
    return BenchRow(**common, **_measured(device, entry, generator))


def _measured(device: Device, entry: Entry, generator: np.random.Generator) -> dict[str, Any]:
    repeats = tuple(_repeat(entry, timing) for timing in entry.timings)
    pooled = [latency for repeat in repeats for latency in repeat.latencies_ms]
    bound = _flop_bound_ms(device, entry)
    reasons = invalid_reasons(repeats, entry.timings, bound)
    memory = entry.untimed
    return {
        **{name: value for name, value in asdict(entry.timings[0].placement).items() if name != "left"},
        "status": "ok",
        "valid": not reasons,
        "reasons": reasons,
        "init_ms_cold": median(repeat.init_ms for repeat in repeats),
        "first_inference_ms": median(repeat.first_inference_ms for repeat in repeats),
        "enqueue_ms": median(repeat.enqueue_ms for repeat in repeats),
        "read_back_ms": median(repeat.read_back_ms for repeat in repeats),
        "repeats": repeats,
        "summary": summarize(pooled),
        "spread": relative_spread([repeat.summary.p50 for repeat in repeats]),
        "median_ci95_ms": bootstrap_median(pooled, generator),
        "peak_memory_bytes": memory.peak_memory_bytes if memory else None,
        "base_memory_bytes": memory.base_memory_bytes if memory else None,
        "flop_bound_ms": bound,
    }


def _repeat(entry: Entry, timing: Timing) -> Repeat:
    differences = _differences(entry, timing)
    ratios = [difference.psnr_db for difference in differences.values() if difference.psnr_db is not None]
    return Repeat(
        init_ms=timing.init_ms,
        first_inference_ms=timing.first_inference_ms,
        latencies_ms=timing.latencies_ms,
        enqueue_ms=timing.enqueue_ms,
        read_back_ms=timing.read_back_ms,
        summary=summarize(timing.latencies_ms),
        parity_db=min(ratios, default=None),
        parity_reason=_parity_reason(entry, differences),
    )


def _differences(entry: Entry, timing: Timing) -> dict[str, Difference]:
    if entry.reference is not None:
        reference = entry.reference.outputs
    elif entry.untimed is not None:
        reference = entry.untimed.outputs
    else:
        raise ValueError("a timed run without an untimed one before it")
    sample = timing.sample
    return {name: compare(reference[name][sample : sample + 1], output) for name, output in timing.outputs.items()}


def _parity_reason(entry: Entry, differences: Mapping[str, Difference]) -> str | None:
    card, reference = entry.artifact.card, entry.reference
    if reference is not None and reference.checkpoint_sha256 != card.checkpoint_sha256:
        return f"the artifact was exported from other weights ({card.checkpoint_sha256[:12]})"
    threshold = PRECISIONS.get(card.precision).min_psnr_db
    reasons = {name: verdict(difference, threshold) for name, difference in differences.items()}
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason) or None


def _flop_bound_ms(device: Device, entry: Entry) -> float | None:
    peak, flops = device.peak_flops(entry.artifact, entry.plan.threads), entry.artifact.card.flops
    return None if peak is None or flops is None else 1e3 * flops / peak


def invalid_reasons(repeats: tuple[Repeat, ...], timings: list[Timing], flop_bound_ms: float | None) -> tuple[str, ...]:
    """Why a row must not be ranked; empty when it may.

    Args:
        repeats: the row's repeats.
        timings: what they were made from.
        flop_bound_ms: no run can be faster than this; None where that is unknown.
    """
    reasons = [f"parity: {reason}" for reason in dict.fromkeys(repeat.parity_reason for repeat in repeats) if reason]
    fastest = min(repeat.summary.min for repeat in repeats)
    if flop_bound_ms is not None and fastest < flop_bound_ms:
        reasons.append(
            f"a run took {fastest:.2g} ms, less than the arithmetic bound of {flop_bound_ms:.2g} ms: no work was done"
        )
    for placement in dict.fromkeys(timing.placement for timing in timings):
        if placement.delegate_got is not None and placement.delegate_got != placement.delegate_asked:
            reasons.append(f"{placement.delegate_asked} was asked for and {placement.delegate_got} ran")
    return tuple(reasons)
