"""The bench report, ``unplug-bench/1``. A field that nobody measured is null, never zero."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

from unplug.core import STRICT, ReportError, one_line, read_dataclass, write_json

from .statistics import Summary

SCHEMA: Literal["unplug-bench/1"] = "unplug-bench/1"
# of one file: a hundred artifacts on twenty delegates; each takes milliseconds to be worked out
# anew
MAX_ROWS = 2000
Where = Literal["device", "emulated", "host"]
Status = Literal["ok", "failed", "not_run"]
Mode = Literal["burst", "sustained"]
TimedUntil = Literal["return", "read_back"]


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """One cold start: a fresh process that loads the artifact, warms up and times it.

    Args:
        started_s: seconds from the start of the benchmark.
        init_ms: load, compile and allocate; the file is in the system's page cache.
        first_inference_ms: the first run after that.
        latencies_ms: every timed run, in order, from the call until the work is done; none where
            the tool that ran it, or a sustained run, keeps their summary only.
        enqueue_ms, read_back_ms: medians of handing the inputs over and of copying the outputs out,
            timed apart.
        pending_ms: how much longer the copying takes after a run than after another copying: work
            that the call left.
        summary: the summary of the timed runs.
        compared: runs whose outputs were looked at; 0 where nobody did.
        parity_db: PSNR of the worst output of those against the reference; None when exact or
            undefined.
        parity_reason: why the outputs are too far from the reference, or None when they are near
            enough.
        delegate_got: the delegate that ran the operators in this cold start.
        thermal, temperature_c, battery_percent, charging, clock_mode: the device's state right
            before.
        thermal_after, temperature_after_c: right after.
        energy_mj: the energy per run, or None where the device does not tell.
    """

    started_s: float = 0.0
    init_ms: float | None
    first_inference_ms: float | None
    latencies_ms: tuple[float, ...]
    enqueue_ms: float | None = None
    read_back_ms: float | None = None
    pending_ms: float | None = None
    summary: Summary
    compared: int = 0
    parity_db: float | None
    parity_reason: str | None
    delegate_got: str | None = None
    thermal: str | None = None
    temperature_c: float | None = None
    battery_percent: float | None = None
    charging: bool | None = None
    clock_mode: str | None = None
    thermal_after: str | None = None
    temperature_after_c: float | None = None
    energy_mj: float | None = None


@dataclass(frozen=True, kw_only=True)
class Window:
    """A part of a sustained run.

    Args:
        start_s, end_s: since its first timed run.
        count: runs that ended in it.
        p50, p95: percentiles of its runs, in milliseconds.
        temperature_c: the temperature at its end, or None.
    """

    start_s: float
    end_s: float
    count: int
    p50: float
    p95: float
    temperature_c: float | None = None


@dataclass(frozen=True, kw_only=True)
class BenchRow:
    """One artifact on one delegate of one device.

    Args:
        file, model_type, model_sha256, artifact_sha256, target, precision: the artifact; the
            model's hash is its weights'.
        bytes: the size of the artifact.
        where: "device", "emulated" or "host".
        device, soc, os, gpu_driver: the machine.
        runtime, runtime_version, threads: the runtime that ran it, and its threads.
        delegate_asked, delegate_got, nodes_delegated, nodes_total, partitions: see
            `unplug.export.runtime.base.Placement`.
        status: "ok", "failed" or "not_run".
        valid: whether the row may be ranked.
        reasons: why it may not, or why it was not run.
        warnings: warnings about a row that is valid all the same.
        mode: "burst": repeats x iterations; "sustained": one cold start at full load.
        warmup, iterations: untimed and timed runs of each repeat.
        timed_until: the event at which the clock stopped: the call's return, or the outputs where
            calls return early.
        init_ms_cold, first_inference_ms, enqueue_ms, read_back_ms: medians over the repeats.
        init_ms_cached: load with the runtime's compilation cache filled.
        repeats: each with its raw latencies.
        summary: the summary of the latencies of all repeats together.
        median_ms: geometric mean of the repeats' medians: what is compared and ranked.
        median_ci95_ms: its interval over cold starts; None for a single one.
        spread: (largest - smallest) / smallest median of the repeats.
        drift: the share by which runs became slower from the first to the last of a cold start, on
            average.
        drift_ci95: its interval over cold starts.
        outlier_share: the share of runs far above their repeat's median, see
            `unplug.mobile_bench.statistics.outlier_share`.
        curve: the windows of a sustained run, of equal length.
        peak_memory_bytes: the peak memory of a process that loads and runs the artifact, in a
            separate pass that is not timed.
        base_memory_bytes: the memory of that process before it loads the artifact, with the runtime
            imported.
        energy_mj: the energy per run, median over the repeats; on the host it is the CPU packages',
            other work included.
        thermal_before, thermal_during, thermal_after: the device's word before, at its worst, and
            at the end.
        thermal_gate: the result of waiting for a cool device.
        battery_percent, charging, clock_mode: power state at the start.
        battery_after_percent: the battery's charge at the end; each repeat has its own too.
        interruptions: faults on the way that were made good.
        parity_reference: "checkpoint", or "first_run" when none was given: the untimed pass of the
            same artifact.
        inputs_sha256: `unplug.export.digest_inputs` of what went in.
        flops: floating-point operations of a run, from the card.
        flop_bound_ms: no run can be faster than this.
    """

    file: str
    model_type: str
    model_sha256: str
    artifact_sha256: str
    target: str
    precision: str
    bytes: int | None = None
    where: Where
    device: str
    soc: str | None = None
    os: str
    gpu_driver: str | None = None
    runtime: str
    runtime_version: str | None
    threads: int
    delegate_asked: str
    delegate_got: str | None = None
    nodes_delegated: int | None = None
    nodes_total: int | None = None
    partitions: int | None = None
    status: Status
    valid: bool
    reasons: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    mode: Mode = "burst"
    warmup: int
    iterations: int
    timed_until: TimedUntil = "return"
    init_ms_cold: float | None = None
    init_ms_cached: float | None = None
    first_inference_ms: float | None = None
    enqueue_ms: float | None = None
    read_back_ms: float | None = None
    repeats: tuple[Repeat, ...] = ()
    summary: Summary | None = None
    median_ms: float | None = None
    median_ci95_ms: tuple[float, float] | None = None
    spread: float | None = None
    drift: float | None = None
    drift_ci95: tuple[float, float] | None = None
    outlier_share: float | None = None
    curve: tuple[Window, ...] = ()
    peak_memory_bytes: int | None = None
    base_memory_bytes: int | None = None
    energy_mj: float | None = None
    thermal_before: str | None = None
    thermal_during: str | None = None
    thermal_after: str | None = None
    thermal_gate: str | None = None
    battery_percent: float | None = None
    battery_after_percent: float | None = None
    charging: bool | None = None
    clock_mode: str | None = None
    interruptions: tuple[str, ...] = ()
    parity_reference: Literal["checkpoint", "first_run"]
    inputs_sha256: str
    flops: int | None
    flop_bound_ms: float | None = None

    @property
    def ranked(self) -> bool:
        """Whether its latency may be compared with others': valid, of a real machine, in bursts."""
        return self.valid and self.mode == "burst" and self.where != "emulated"

    @property
    def unranked_because(self) -> str | None:
        """In a word, why a valid row is not ranked; None of all other rows."""
        if not self.valid or self.ranked:
            return None
        return "sustained" if self.mode == "sustained" else "emulated"


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """The rows of one benchmark, all taken in one run.

    Args:
        schema: always ``unplug-bench/1``.
        rows: one an artifact, in the order given.
        seed: the seed of the inputs, of the order of the repeats and of the bootstrap.
        versions: the versions of Python, unplug and the runtimes.
        git_revision: the git revision of this code, or None outside a git checkout.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-bench/1"] = SCHEMA
    rows: tuple[BenchRow, ...]
    seed: int
    versions: dict[str, str]
    git_revision: str | None

    __repr__ = one_line

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as JSON, atomically."""
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BenchReport:
        """Reads a report; `ReportError` if the file is missing, does not follow the schema or has
        over `MAX_ROWS` rows.
        """
        report = read_dataclass(cls, Path(path), ReportError)
        if len(report.rows) > MAX_ROWS:
            raise ReportError(
                str(path), f"it has more than {MAX_ROWS} rows", "Make one report for each part"
            )
        return report
