"""This computer as a device: each repeat is a fresh child process. Its numbers say nothing about a
phone.
"""

from __future__ import annotations

import platform
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unplug.core import InputError, Reply, call_in_child, memory_for, require_modules, seconds_for
from unplug.export import RUNTIMES, TARGETS, Artifact, Placement, run_values
from unplug.export import TARGET as UNEXPORTED

from ..bench_report import BenchRow, Window
from ..drive import drive
from ..statistics import Summary
from ..validity import peak_flops
from .bench_device import BenchJob, DeviceInfo, DeviceOrder, DeviceTiming, Plan, State, Untimed
from .host_child import unpacked

NEVER_TIMED = ("mil", "litert-web", "onnx-web")
"""Runtimes for numbers: each of their calls costs more than the work. A browser is timed by
``--on web``.
"""
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal")
MARGIN_S = 600.0
"""For a cold start, besides a sustained run's own seconds."""


class Host:
    """The machine that runs this code."""

    def bench(self, place: str | None, order: DeviceOrder) -> tuple[BenchRow, ...]:
        """Times every file in a child process of its own; see `Device.bench`."""
        if place is not None:
            raise InputError(f"host:{place}", "there is one host only", "Write `on=host`")
        return drive(self, order, "host")

    def describe(self) -> DeviceInfo:
        """CPU name, system, power state and the CPU frequency governor."""
        return DeviceInfo(where="host", device=cpu_name(), os=platform.platform(), **_power())

    def state(self) -> State:
        """The CPU's temperature and the battery, where they are told."""
        import psutil

        sensors = psutil.sensors_temperatures() if hasattr(psutil, "sensors_temperatures") else {}
        readings = [reading for name in CPU_SENSORS for reading in sensors.get(name, ())]
        hottest = max((reading.current for reading in readings if reading.current), default=None)
        return State(temperature_c=hottest, **_power())

    def runtimes(self, artifact: Artifact) -> tuple[str, ...]:
        """The runtime of the artifact's target, then others that run files of its kind; PyTorch of
        a checkpoint.
        """
        if artifact.card.target == UNEXPORTED:
            return ("torch",)
        first = TARGETS.get(artifact.card.target).runtime
        others = [
            name
            for name in RUNTIMES
            if name not in (first, *NEVER_TIMED)
            and RUNTIMES.get(name).suffix == artifact.path.suffix
        ]
        return first, *others

    def delegates(self, runtime: str) -> tuple[str, ...]:
        """The delegates that the runtime itself offers on this machine."""
        return RUNTIMES.get(runtime).delegates

    def version(self, runtime: str) -> str | None:
        """The installed version of the runtime's package."""
        return RUNTIMES.get(runtime).version()

    def unavailable(self, artifact: Artifact, runtime: str) -> str | None:
        """What the runtime says; a runtime that is not installed is an error, not a reason."""
        runs = RUNTIMES.get(runtime)
        if (reason := runs.unavailable()) is None:
            require_modules(runs.modules, runs.extra)
        return reason

    def peak_flops(self, artifact: Artifact, plan: Plan, delegate: str) -> float | None:
        """The arithmetic bound of this machine; see `unplug.mobile_bench.validity.peak_flops`."""
        return peak_flops(artifact.card.precision, delegate, plan.threads)

    def untimed(self, job: BenchJob, plan: Plan) -> Untimed:
        """Runs a file once for its outputs; see `Driven.untimed`."""
        reply = self._call("measure_memory", job, plan)
        return Untimed(outputs=reply.arrays, **reply.values)

    def timed(self, job: BenchJob, plan: Plan) -> DeviceTiming:
        """Runs a file as the plan says; see `Driven.timed`."""
        reply = self._call("time_runs", job, plan)
        values = dict(reply.values)
        return DeviceTiming(
            placement=Placement.from_dict(values.pop("placement")),
            latencies_ms=tuple(values.pop("latencies_ms")),
            summary=None if (told := values.pop("summary")) is None else Summary(**told),
            curve=tuple(Window(**window) for window in values.pop("curve")),
            outputs=unpacked(values.pop("samples"), reply.arrays),
            **values,
        )

    def returned(self, seconds: float) -> bool:
        """True: this machine cannot vanish as a phone can."""
        return True

    def _call(self, function: str, job: BenchJob, plan: Plan) -> Reply:
        values = {
            **run_values(job.artifact),
            **asdict(plan),
            "runtime": job.runtime,
            "delegate": job.delegate,
        }
        return call_in_child(
            f"unplug.mobile_bench.devices.host_child:{function}",
            values,
            job.inputs,
            what=f"{job.artifact.path.name} on the host",
            timeout=seconds_for(0, MARGIN_S + (plan.sustain_s or 0.0)),
            memory=memory_for(job.artifact.path),
        )


def cpu_name() -> str:
    """The CPU's model name, or what the platform says where it has none."""
    named = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo") or "", re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()


def _power() -> dict[str, Any]:
    """Battery and governor, where they are told: fields of `DeviceInfo` and of `State`."""
    import psutil

    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return {
        "battery_percent": None if battery is None else float(battery.percent),
        "charging": None if battery is None else battery.power_plugged,
        "clock_mode": _read(GOVERNOR),
    }


def _read(path: str) -> str | None:
    file = Path(path)
    return file.read_text(encoding="utf-8", errors="replace").strip() if file.is_file() else None


HOST = Host()
