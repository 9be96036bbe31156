"""Timing artifacts on a device: repeats interleaved, parity on every run, refused rows kept and marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from unplug.export.artifact import Artifact
from unplug.export.child import Array, Progress
from unplug.export.provenance import git_revision, versions
from unplug.export.reference import Reference, reference_outputs
from unplug.export.runtime import RUNTIMES
from unplug.export.runtime.base import Runtime, runtime_versions
from unplug.export.tensors import check_inputs, random_inputs
from unplug.plugins.errors import ArtifactError, ConversionError, InputError
from unplug.plugins.iospec import IOSpec

from .devices import DEVICES, Device, Plan
from .report import BenchReport
from .rows import Entry, build_row

MAX_RUNS = 1_000_000  # of one repeat; more would fill the report with raw samples


def bench_artifacts(
    artifacts: Sequence[Artifact],
    *,
    on: str = "host",
    threads: int = 2,
    warmup: int = 5,
    iterations: int = 50,
    repeats: int = 3,
    inputs: Mapping[str, Array] | None = None,
    checkpoint: Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> BenchReport:
    """Times artifacts on one device, side by side.

    Every artifact first runs once untimed, for its memory and its outputs. Then each repeat times all of them, in an
    order drawn anew, so that a drifting clock does not favour one.

    Args:
        artifacts: from `unplug.export`.
        on: name in DEVICES.
        threads: CPU threads.
        warmup: untimed runs after the first, in each repeat.
        iterations: timed runs in each repeat.
        repeats: cold starts of each artifact.
        inputs: name to array of N samples, taken in turn; default: one random sample a model.
        checkpoint: its outputs are the parity reference; default: the artifact's own untimed run.
        seed: of the random inputs, the order and the bootstrap.
        progress: called with (cold starts done, cold starts in all, file name).

    Raises:
        InputError: an unknown device, a number out of range, or a wrong input.
        MissingExtraError: a runtime is not installed.
        CheckpointError: the checkpoint is missing or broken.
    """
    _check_counts(artifacts, {"threads": threads, "iterations": iterations, "repeats": repeats, "warm-ups + 1": warmup + 1})
    device: Device = DEVICES.get(on)
    info = device.describe()
    generator = np.random.default_rng(seed)
    references = _References(checkpoint)
    entries = []
    for artifact in artifacts:
        runtime: Runtime = RUNTIMES.get(device.runtime(artifact))
        given = random_inputs(artifact.card.iospec, 1, seed) if inputs is None else inputs
        check_inputs(artifact.card.iospec, given)
        plan = Plan(threads=threads, warmup=warmup, iterations=iterations, delegate=runtime.delegates[0])
        not_run = device.unavailable(artifact)
        reference = None if not_run else references.of(artifact.card.iospec, given)
        entries.append(Entry(artifact=artifact, plan=plan, runtime=runtime, inputs=given, reference=reference, not_run=not_run))
    _measure_all(device, entries, repeats, generator, progress)
    return BenchReport(
        rows=tuple(build_row(device, info, entry, generator, has_checkpoint=checkpoint is not None) for entry in entries),
        seed=seed,
        versions=versions(["numpy"]) | runtime_versions(entry.runtime for entry in entries),
        git_revision=git_revision(),
    )


def _check_counts(artifacts: Sequence[Artifact], counts: Mapping[str, int]) -> None:
    if not artifacts:
        raise InputError("bench", "no artifact is given", "Name at least one exported file")
    for name, value in counts.items():
        if not 1 <= value <= MAX_RUNS:
            raise InputError(f"{name} {value}", "out of range", f"Use 1 to {MAX_RUNS}")


class _References:
    """The checkpoint's outputs, computed once for all artifacts with the same tensors."""

    def __init__(self, checkpoint: Path | None) -> None:
        self._checkpoint = checkpoint
        self._known: dict[IOSpec, Reference] = {}

    def of(self, iospec: IOSpec, inputs: Mapping[str, Array]) -> Reference | None:
        if self._checkpoint is None:
            return None
        if iospec not in self._known:
            self._known[iospec] = reference_outputs(self._checkpoint, iospec, inputs)
        return self._known[iospec]


def _measure_all(
    device: Device, entries: Sequence[Entry], repeats: int, generator: np.random.Generator, progress: Progress | None
) -> None:
    total, done = len(entries) * (repeats + 1), 0
    for turn in range(repeats + 1):
        order = generator.permutation(len(entries)) if turn else np.arange(len(entries))
        for entry in (entries[index] for index in order):
            if entry.not_run is None and entry.failure is None:
                _measure(device, entry, timed=turn > 0)
            done += 1
            if progress is not None:
                progress(done, total, entry.artifact.path.name)


def _measure(device: Device, entry: Entry, *, timed: bool) -> None:
    try:
        if timed:
            entry.timings.append(device.timed(entry.artifact, entry.plan, entry.inputs))
        else:
            entry.untimed = device.untimed(entry.artifact, entry.plan, entry.inputs)
    except (ArtifactError, ConversionError) as error:
        # A crash is a result of this artifact: its row says so, and the other artifacts are still timed.
        entry.failure = str(error)
