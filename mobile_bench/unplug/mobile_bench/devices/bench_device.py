"""What a device must do. Most are driven from here, one cold start at a time; an app runs the
protocol by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from unplug.core import Array, Progress
from unplug.export import Artifact, Placement, Reference, digest_inputs

from ..bench_report import BenchRow, TimedUntil, Where, Window
from ..statistics import Summary


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How each artifact is timed.

    Args:
        threads: CPU threads.
        warmup: untimed runs of each cold start, behind its first one.
        iterations: timed runs of each cold start.
        repeats: cold starts of each artifact.
        sustain_s: full load for so many seconds, in one cold start: what is left of the speed when
            the device is warm.
        max_temperature_c: begin each cold start at or below it, where the device tells; one that
            says that it throttles is always waited for.
        cool_down_s: wait for that at most so long, s.
        away_s: wait so long for a device that vanished, s.
        seed: of the order of the repeats.
    """

    threads: int = field(default=2, metadata={"range": (1, 256)})
    warmup: int = field(default=5, metadata={"flag": "--warm-ups", "range": (0, 10_000)})
    iterations: int = field(default=50, metadata={"range": (1, 1_000_000)})
    repeats: int = field(default=7, metadata={"range": (1, 1000)})
    sustain_s: float | None = field(
        default=None,
        metadata={"flag": "--sustain", "metavar": "SECONDS", "range": (1.0, 86_400.0)},
    )
    max_temperature_c: float | None = field(
        default=None,
        metadata={"flag": "--max-temperature", "metavar": "CELSIUS", "range": (0.0, 120.0)},
    )
    cool_down_s: float = field(
        default=600.0, metadata={"flag": "--cool-down", "range": (0.0, 86_400.0)}
    )
    away_s: float = field(default=60.0, metadata={"flag": "--away", "range": (0.0, 86_400.0)})
    seed: int = 0

    @property
    def starts(self) -> int:
        """Cold starts of each artifact."""
        return 1 if self.sustain_s else self.repeats

    def row_facts(self) -> dict[str, Any]:
        """Fields of a row that say how it was timed."""
        return {
            "mode": "sustained" if self.sustain_s else "burst",
            "warmup": self.warmup,
            "iterations": self.iterations,
        }


@dataclass(frozen=True, kw_only=True)
class BenchJob:
    """One artifact, to be timed on one delegate.

    Args:
        artifact: the file.
        runtime: what runs it.
        runtime_version: or None where that is told later, by the device.
        delegate: one of the runtime's.
        inputs: name to array of N samples, taken in turn.
        reference: the checkpoint's outputs of them, or None to compare with the artifact's own
            untimed run.
        not_run: why this device cannot run it, or None.
    """

    artifact: Artifact
    runtime: str
    runtime_version: str | None
    delegate: str
    inputs: Mapping[str, Array]
    reference: Reference | None
    not_run: str | None = None

    def row_facts(self) -> dict[str, Any]:
        """Fields of its row that follow from what was asked for."""
        card = self.artifact.card
        return {
            "file": card.file,
            "model_type": card.model_type,
            "model_sha256": card.checkpoint_sha256,
            "artifact_sha256": card.sha256,
            "target": card.target,
            "precision": card.precision,
            "bytes": card.bytes,
            "runtime": self.runtime,
            "parity_reference": "first_run" if self.reference is None else "checkpoint",
            "inputs_sha256": digest_inputs(self.inputs),
            "flops": card.flops,
        }

    def facts(self) -> tuple[str | None, ...]:
        """What makes it the same job another time."""
        expected = None if self.reference is None else self.reference.checkpoint_sha256
        card = self.artifact.card
        return (
            card.sha256,
            self.runtime,
            self.runtime_version,
            self.delegate,
            digest_inputs(self.inputs),
            expected,
        )


@dataclass(frozen=True, kw_only=True)
class DeviceOrder:
    """What a device is asked for.

    Args:
        artifacts: the files.
        runtime: name, or None for each artifact's own.
        delegates: names, or none for the device's choice: the runtime's first, or in a browser all.
        plan: how they are timed.
        inputs_of: name to array of N samples, of an artifact.
        reference_of: the checkpoint's outputs of those inputs, or None where no checkpoint was
            given.
        journal: a file that keeps what was measured, so that a run that ended early goes on; or
            None.
        progress: called with (cold starts done, cold starts in all, file name).
        say: takes a line for the user.
        cancel: set where the user has stopped the benchmark; nothing more is begun then.
    """

    artifacts: tuple[Artifact, ...]
    runtime: str | None
    delegates: tuple[str, ...]
    plan: Plan
    inputs_of: Callable[[Artifact], Mapping[str, Array]]
    reference_of: Callable[[Artifact], Reference | None]
    journal: Path | None = None
    progress: Progress | None = None
    say: Callable[[str], None] = lambda _: None
    cancel: Event = field(default_factory=Event)


class Device(Protocol):
    """What DEVICES holds: something that gives rows for an order."""

    def bench(self, place: str | None, order: DeviceOrder) -> tuple[BenchRow, ...]:
        """Measures.

        Args:
            place: what follows the colon of ``--on NAME:PLACE``, say a serial number.
            order: what is asked for.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """What a device says of itself; None where it does not tell. The fields are those of
    `BenchRow`.
    """

    where: Where
    device: str
    os: str
    soc: str | None = None
    gpu_driver: str | None = None
    battery_percent: float | None = None
    charging: bool | None = None
    clock_mode: str | None = None


@dataclass(frozen=True, kw_only=True)
class State:
    """A device's state at one moment; None where it does not tell.

    Args:
        thermal: its own word, of `THERMAL_STATES` where it is Android's.
        temperature_c: of what throttles it, the skin or the CPU.
        battery_percent: how full.
        charging, clock_mode: see `BenchRow`.
    """

    thermal: str | None = None
    temperature_c: float | None = None
    battery_percent: float | None = None
    charging: bool | None = None
    clock_mode: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceTiming:
    """What one cold start measured; the fields are those of `Repeat`.

    Args:
        latencies_ms: every timed run; none where the tool tells no more than `summary`.
        summary: of the runs, or None to take it from `latencies_ms`.
        placement: what ran the operators.
        outputs: sample and named outputs of runs that must be compared, see
            `unplug.mobile_bench.parity.ParityWatch`.
        compared: runs whose outputs were looked at.
        curve: of a sustained run.
    """

    init_ms: float
    first_inference_ms: float
    latencies_ms: tuple[float, ...]
    summary: Summary | None = None
    enqueue_ms: float | None
    read_back_ms: float | None
    pending_ms: float | None = None
    timed_until: TimedUntil = "return"
    placement: Placement
    outputs: Sequence[tuple[int, Mapping[str, Array]]]
    compared: int
    curve: tuple[Window, ...] = ()
    energy_mj: float | None = None


@dataclass(frozen=True, kw_only=True)
class Untimed:
    """The pass that measures memory: every input sample once, nothing timed.

    Args:
        outputs: name to array of N samples.
        peak_memory_bytes, base_memory_bytes: see `BenchRow`.
    """

    outputs: dict[str, Array]
    peak_memory_bytes: int | None
    base_memory_bytes: int | None


class Runs(Protocol):
    """What can run which files."""

    def runtimes(self, artifact: Artifact) -> tuple[str, ...]:
        """Names of the runtimes that could run the artifact, if any; the first is the default."""
        ...

    def delegates(self, runtime: str) -> tuple[str, ...]:
        """Names of the runtime's delegates here; the first is the default."""
        ...

    def version(self, runtime: str) -> str | None:
        """The version of the runtime, as rows record it."""
        ...

    def unavailable(self, artifact: Artifact, runtime: str) -> str | None:
        """Why the artifact cannot run here, or None when it can."""
        ...


class Driven(Runs, Protocol):
    """A device that `unplug.mobile_bench.drive` drives, one cold start at a time."""

    def describe(self) -> DeviceInfo:
        """Reads the device's name and state."""
        ...

    def state(self) -> State:
        """Reads its temperature and battery."""
        ...

    def peak_flops(self, artifact: Artifact, plan: Plan, delegate: str) -> float | None:
        """Floating-point operations a second that the device cannot exceed, or None where that is
        unknown.
        """
        ...

    def untimed(self, job: BenchJob, plan: Plan) -> Untimed:
        """Runs every sample once in a fresh process and measures its memory."""
        ...

    def timed(self, job: BenchJob, plan: Plan) -> DeviceTiming:
        """One cold start: load, first run, warm-ups, timed runs."""
        ...

    def returned(self, seconds: float) -> bool:
        """Waits until a device that vanished is back, for at most so long."""
        ...
