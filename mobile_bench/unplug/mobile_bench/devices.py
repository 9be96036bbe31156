"""Devices by name, and what a device must do; third parties add theirs through ``unplug.devices``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from unplug.export.artifact import Artifact
from unplug.export.child import Array
from unplug.export.runtime.base import Placement
from unplug.plugins.registry import Registry

from .report import Where

DEVICES = Registry("device", {"host": "unplug.mobile_bench.host:HOST"}, group="unplug.devices")


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """What a device says of itself; None where it does not tell. The fields are those of `BenchRow`."""

    where: Where
    device: str
    os: str
    soc: str | None = None
    gpu_driver: str | None = None
    battery_percent: float | None = None
    charging: bool | None = None
    clock_mode: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one artifact is timed.

    Args:
        threads: CPU threads.
        warmup: untimed runs behind the first one, at least 0.
        iterations: timed runs, at least 1.
        delegate: one of the runtime's delegates.
    """

    threads: int
    warmup: int
    iterations: int
    delegate: str


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What one cold start measured; the fields are those of `Repeat`.

    Args:
        placement: what ran the operators.
        outputs: of the last timed run, by name.
        sample: which input sample that was.
    """

    init_ms: float
    first_inference_ms: float
    latencies_ms: tuple[float, ...]
    enqueue_ms: float
    read_back_ms: float
    placement: Placement
    outputs: dict[str, Array]
    sample: int


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


class Device(Protocol):
    """Something that artifacts can be timed on."""

    def describe(self) -> DeviceInfo:
        """Reads the device's name and state."""
        ...

    def runtime(self, artifact: Artifact) -> str:
        """Name of the runtime that would run the artifact."""
        ...

    def unavailable(self, artifact: Artifact) -> str | None:
        """Why the artifact cannot run here, or None when it can."""
        ...

    def peak_flops(self, artifact: Artifact, threads: int) -> float | None:
        """Floating-point operations a second that the device cannot exceed, or None where that is unknown."""
        ...

    def untimed(self, artifact: Artifact, plan: Plan, inputs: Mapping[str, Array]) -> Untimed:
        """Runs every sample once in a fresh process and measures its memory."""
        ...

    def timed(self, artifact: Artifact, plan: Plan, inputs: Mapping[str, Array]) -> Timing:
        """One cold start: load, first run, warm-ups, timed runs."""
        ...
