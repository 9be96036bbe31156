"""The child process of the host: loads an artifact, runs it, times it, and watches that every run
did its work.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from unplug.core import Array, IOSpec, Job, Reply, peak_rss_bytes, rss_bytes
from unplug.export import RUNTIMES, Runner, Runtime

from ..parity import ParityWatch
from ..statistics import summarize
from ..sustained import windows

PENDING_RUNS = 5
"""Runs that look for work that a call leaves."""
MAX_SUSTAINED = 20_000_000
"""Runs of a sustained one: 160 MB of numbers."""


def measure_memory(job: Job) -> Reply:
    """The child's side of `Host.untimed`."""
    runtime, iospec = _runtime(job), IOSpec.from_dict(job.values["iospec"])
    base = rss_bytes()
    runner = _open(runtime, iospec, job)
    parts = []
    for sample in _samples(job):
        runner.feed(sample)
        runner.invoke()
        parts.append(runner.read())
    outputs = {
        tensor.name: np.concatenate([part[tensor.name] for part in parts])
        for tensor in iospec.outputs
    }
    return Reply(
        values={"peak_memory_bytes": peak_rss_bytes(), "base_memory_bytes": base}, arrays=outputs
    )


def time_runs(job: Job) -> Reply:
    """The child's side of `Host.timed`."""
    runtime, iospec, samples = _runtime(job), IOSpec.from_dict(job.values["iospec"]), _samples(job)
    started = time.perf_counter()
    runner = _open(runtime, iospec, job)
    opened = time.perf_counter()
    runner.feed(samples[0])
    runner.invoke()
    outputs = runner.read()
    first = time.perf_counter()
    watch = ParityWatch()
    watch.look(0, outputs)
    for index in range(job.values["warmup"]):
        runner.feed(samples[index % len(samples)])
        runner.invoke()
        watch.look(index % len(samples), runner.read())
    runs, meter = ChildRuns(runner, samples, watch), ProcessMeter()
    while not runs.enough(job.values["iterations"], job.values["sustain_s"]):
        runs.one()
    energy, sustained = meter.millijoules(), bool(job.values["sustain_s"])
    samples_kept, arrays = packed(watch.kept())
    values = {
        "init_ms": 1e3 * (opened - started),
        "first_inference_ms": 1e3 * (first - opened),
        "latencies_ms": [] if sustained else list(runs.latencies),
        "summary": asdict(summarize(runs.latencies)) if sustained else None,
        "curve": [asdict(window) for window in windows(runs.ends, runs.latencies)]
        if sustained
        else [],
        "enqueue_ms": median(runs.enqueue),
        "read_back_ms": median(runs.read_back),
        "pending_ms": pending_ms(runner, samples[0]),
        "timed_until": "return",
        "energy_mj": None if energy is None else energy / len(runs.latencies),
        "placement": asdict(runner.placement),
        "samples": samples_kept,
        "compared": watch.count,
    }
    return Reply(values=values, arrays=arrays)


class ChildRuns:
    """Timed runs of a loaded artifact, outputs read and looked at between them."""

    def __init__(
        self, runner: Runner, samples: Sequence[Mapping[str, Array]], watch: ParityWatch
    ) -> None:
        self._runner, self._samples, self._watch = runner, samples, watch
        self.enqueue, self.latencies, self.read_back, self.ends = (array("d") for _ in range(4))
        self._begun = time.perf_counter()

    def enough(self, iterations: int, sustain_s: float | None) -> bool:
        """Whether all runs are done."""
        if not sustain_s:
            return len(self.latencies) >= iterations
        return bool(self.ends) and (self.ends[-1] >= sustain_s or len(self.ends) >= MAX_SUSTAINED)

    def one(self) -> None:
        """Runs the file once and reads its outputs back."""
        index = len(self.latencies) % len(self._samples)
        before = time.perf_counter()
        self._runner.feed(self._samples[index])
        fed = time.perf_counter()
        self._runner.invoke()
        done = time.perf_counter()
        outputs = self._runner.read()
        read = time.perf_counter()
        self._watch.look(index, outputs)
        self.enqueue.append(1e3 * (fed - before))
        self.latencies.append(1e3 * (done - fed))
        self.read_back.append(1e3 * (read - done))
        self.ends.append(read - self._begun)


def packed(kept: Sequence[tuple[int, Mapping[str, Array]]]) -> tuple[list[int], dict[str, Array]]:
    """Outputs of several runs as named arrays, and the samples that they are of."""
    return [sample for sample, _ in kept], {
        f"{place}/{name}": value
        for place, (_, found) in enumerate(kept)
        for name, value in found.items()
    }


def unpacked(
    samples: Sequence[int], arrays: Mapping[str, Array]
) -> list[tuple[int, dict[str, Array]]]:
    """The inverse of `packed`.

    Example:
        >>> unpacked(*packed([(1, {"y": np.ones(1)})]))
        [(1, {'y': array([1.])})]
    """
    runs: list[tuple[int, dict[str, Array]]] = [(sample, {}) for sample in samples]
    for key, value in arrays.items():
        place, _, name = key.partition("/")
        runs[int(place)][1][name] = value
    return runs


def pending_ms(runner: Runner, sample: Mapping[str, Array]) -> float:
    """How much longer reading takes after a run than after another reading, in milliseconds: work
    that the call left.

    A call that returns early makes the first reading wait; the second one only copies. The smallest
    of a few runs, so that a busy machine is not taken for it.
    """
    waits = []
    for _ in range(PENDING_RUNS):
        runner.feed(sample)
        runner.invoke()
        called = time.perf_counter()
        runner.read()
        waited = time.perf_counter()
        runner.read()
        waits.append(1e3 * ((waited - called) - (time.perf_counter() - waited)))
    return max(min(waits), 0.0)


def _open(runtime: Runtime, iospec: IOSpec, job: Job) -> Runner:
    return runtime.open(
        Path(job.values["path"]),
        iospec,
        threads=job.values["threads"],
        delegate=job.values["delegate"],
    )


def _runtime(job: Job) -> Runtime:
    """The runtime, its packages imported, so that neither memory nor load time counts the import."""
    runtime = RUNTIMES.get(job.values["runtime"])
    for module in runtime.modules:
        import_module(module)
    return runtime


def _samples(job: Job) -> list[dict[str, Any]]:
    count = len(next(iter(job.arrays.values())))
    return [
        {name: np.array(array[index : index + 1]) for name, array in job.arrays.items()}
        for index in range(count)
    ]


POWERCAP = Path("/sys/class/powercap")
ZONE = "intel-rapl:[0-9]*"
"""Packages; their parts have a second colon. AMD's CPUs have the same name there."""


class ProcessMeter:
    """Counts from its making on.

    Args:
        folder: the folder of the zones.
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        zones = [zone for zone in sorted(folder.glob(ZONE)) if zone.name.count(":") == 1]
        self._begun = {
            zone: value for zone in zones if (value := _counted(zone / "energy_uj")) is not None
        }

    def millijoules(self) -> float | None:
        """The energy of all packages since the beginning, other work on the machine included; None
        where nothing is counted.
        """
        total, known = 0.0, False
        for zone, begun in self._begun.items():
            now, around = _counted(zone / "energy_uj"), _counted(zone / "max_energy_range_uj")
            if now is None:
                continue
            if now < begun and around is not None:  # the counter went round once
                now += around
            total, known = total + (now - begun) / 1e3, True
        return total if known else None


def _counted(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() else None
