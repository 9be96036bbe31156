"""This computer as a device: each repeat is a fresh child process. Its numbers say nothing about a phone."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from statistics import median

import numpy as np

from unplug.export.artifact import Artifact
from unplug.export.child import Array, Reply, call_in_child
from unplug.export.extras import require_modules
from unplug.export.memory import peak_rss_bytes, rss_bytes
from unplug.export.runtime import RUNTIMES
from unplug.export.runtime.base import Placement, Runtime
from unplug.export.session import run_values
from unplug.export.targets import TARGETS
from unplug.export.worker import Job
from unplug.plugins.iospec import IOSpec

from .devices import DeviceInfo, Plan, Timing, Untimed

MAX_CLOCK_HZ = 6.5e9  # above every CPU on sale; a bound must not depend on what a virtual machine reports
FLOP_PER_CYCLE = 256.0
"""Of one core: two 512-bit units x 32 half-precision lanes x a multiply and an add. fp32 has half of it. It is a
bound that catches work that was not done, not an estimate of the speed to expect."""


class Host:
    """The machine that runs this code."""

    def describe(self) -> DeviceInfo:
        """CPU name, system, power state and the CPU frequency governor."""
        import psutil

        battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
        return DeviceInfo(
            where="host",
            device=cpu_name(),
            os=platform.platform(),
            battery_percent=None if battery is None else float(battery.percent),
            charging=None if battery is None else battery.power_plugged,
            clock_mode=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        )

    def runtime(self, artifact: Artifact) -> str:
        """The runtime of the artifact's target."""
        name: str = TARGETS.get(artifact.card.target).runtime
        return name

    def unavailable(self, artifact: Artifact) -> str | None:
        """What the runtime says; a runtime that is not installed is an error, not a reason."""
        runtime: Runtime = RUNTIMES.get(self.runtime(artifact))
        if (reason := runtime.unavailable()) is not None:
            return reason
        require_modules(runtime.modules, runtime.extra)
        return None

    def peak_flops(self, artifact: Artifact, threads: int) -> float | None:
        """Threads x clock x operations a cycle, all generous."""
        return threads * MAX_CLOCK_HZ * FLOP_PER_CYCLE

    def untimed(self, artifact: Artifact, plan: Plan, inputs: Mapping[str, Array]) -> Untimed:
        """See `Device.untimed`."""
        reply = self._call("measure_memory", artifact, plan, inputs)
        return Untimed(outputs=reply.arrays, **reply.values)

    def timed(self, artifact: Artifact, plan: Plan, inputs: Mapping[str, Array]) -> Timing:
        """See `Device.timed`."""
        reply = self._call("time_runs", artifact, plan, inputs)
        values = dict(reply.values)
        placement, latencies = Placement.from_dict(values.pop("placement")), tuple(values.pop("latencies_ms"))
        return Timing(**values, placement=placement, latencies_ms=latencies, outputs=reply.arrays)

    def _call(self, function: str, artifact: Artifact, plan: Plan, inputs: Mapping[str, Array]) -> Reply:
        values = {**run_values(artifact), **asdict(plan), "runtime": self.runtime(artifact)}
        what = f"{artifact.path.name} on the host"
        return call_in_child(f"unplug.mobile_bench.host:{function}", values, inputs, what=what)


def measure_memory(job: Job) -> Reply:
    """The child's side of `Host.untimed`."""
    runtime, iospec = _runtime(job), IOSpec.from_dict(job.values["iospec"])
    base = rss_bytes()
    runner = runtime.open(Path(job.values["path"]), iospec, threads=job.values["threads"], delegate=job.values["delegate"])
    parts = []
    for sample in _samples(job):
        runner.feed(sample)
        runner.invoke()
        parts.append(runner.read())
    outputs = {tensor.name: np.concatenate([part[tensor.name] for part in parts]) for tensor in iospec.outputs}
    return Reply(values={"peak_memory_bytes": peak_rss_bytes(), "base_memory_bytes": base}, arrays=outputs)


def time_runs(job: Job) -> Reply:
    """The child's side of `Host.timed`."""
    runtime, iospec, samples = _runtime(job), IOSpec.from_dict(job.values["iospec"]), _samples(job)
    started = time.perf_counter()
    runner = runtime.open(Path(job.values["path"]), iospec, threads=job.values["threads"], delegate=job.values["delegate"])
    opened = time.perf_counter()
    runner.feed(samples[0])
    runner.invoke()
    outputs = runner.read()
    first = time.perf_counter()
    for index in range(job.values["warmup"]):
        runner.feed(samples[index % len(samples)])
        runner.invoke()
    enqueue, latencies, read_back = [], [], []
    for index in range(job.values["iterations"]):
        before = time.perf_counter()
        runner.feed(samples[index % len(samples)])
        fed = time.perf_counter()
        runner.invoke()
        done = time.perf_counter()
        outputs = runner.read()
        read_back.append(1e3 * (time.perf_counter() - done))
        enqueue.append(1e3 * (fed - before))
        latencies.append(1e3 * (done - fed))
    values = {
        "init_ms": 1e3 * (opened - started),
        "first_inference_ms": 1e3 * (first - opened),
        "latencies_ms": latencies,
        "enqueue_ms": median(enqueue),
        "read_back_ms": median(read_back),
        "placement": asdict(runner.placement),
        "sample": (job.values["iterations"] - 1) % len(samples),
    }
    return Reply(values=values, arrays=outputs)


def _runtime(job: Job) -> Runtime:
    """The runtime, its packages imported, so that neither memory nor load time counts the import."""
    runtime: Runtime = RUNTIMES.get(job.values["runtime"])
    for module in runtime.modules:
        import_module(module)
    return runtime


def _samples(job: Job) -> list[dict[str, Array]]:
    count = len(next(iter(job.arrays.values())))
    return [{name: np.array(array[index : index + 1]) for name, array in job.arrays.items()} for index in range(count)]


def cpu_name() -> str:
    """The CPU's model name, or what the platform says where it has none."""
    found = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo") or "", re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def _read(path: str) -> str | None:
    file = Path(path)
    return file.read_text(encoding="utf-8", errors="replace").strip() if file.is_file() else None


HOST = Host()
