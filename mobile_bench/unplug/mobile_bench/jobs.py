"""From an order to jobs: which file on which runtime and delegate, and what its outputs should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unplug.core import Array, InputError
from unplug.export import Artifact, Session

from .devices.bench_device import BenchJob, DeviceOrder, Runs

NO_RUNTIME = "none"
"""The runtime of a file that nothing on the device runs."""


@dataclass(frozen=True, kw_only=True)
class RunsFiles:
    """Runs files by their suffix, as a browser or an app does.

    Args:
        name: the name of the browser or app, for messages.
        by_suffix: suffix of a file to its runtime.
        by_runtime: runtime to its delegates.
    """

    name: str
    by_suffix: Mapping[str, str]
    by_runtime: Mapping[str, tuple[str, ...]]

    def runtimes(self, artifact: Artifact) -> tuple[str, ...]:
        """The one for its suffix, if there is one."""
        return tuple(
            name for suffix, name in self.by_suffix.items() if suffix == artifact.path.suffix
        )

    def delegates(self, runtime: str) -> tuple[str, ...]:
        """The delegates that the runtime itself offers."""
        return self.by_runtime[runtime]

    def version(self, runtime: str) -> str | None:
        """The runtime's version, which only its report tells."""
        return None

    def unavailable(self, artifact: Artifact, runtime: str) -> str | None:
        """Why the runtime cannot take a file: it is of another target."""
        return (
            None
            if artifact.path.suffix in self.by_suffix
            else f"{self.name} does not run {artifact.card.target} files"
        )


def plan_jobs(device: Runs, order: DeviceOrder, *, every: bool = False) -> list[BenchJob]:
    """Every artifact on every delegate that was asked for and that its runtime has.

    Args:
        device: the device that is to run them.
        order: the order to measure.
        every: all delegates where none is named; or else the runtime's first.

    Raises:
        InputError: a runtime or a delegate that none of the files' runtimes is or has.
    """
    runtimes = dict.fromkeys(
        name for artifact in order.artifacts for name in device.runtimes(artifact)
    )
    if runtimes and order.runtime is not None and order.runtime not in runtimes:
        files = ", ".join(artifact.path.name for artifact in order.artifacts)
        raise InputError(
            f"runtime {order.runtime!r}", f"it does not run {files}", f"Use {' or '.join(runtimes)}"
        )
    used = dict.fromkeys(_runtime_of(device, order, artifact) for artifact in order.artifacts)
    known = dict.fromkeys(
        name for runtime in used if runtime is not None for name in device.delegates(runtime)
    )
    for name in order.delegates if known else ():
        if name not in known:
            raise InputError(
                f"delegate {name!r}", "nothing here has it", f"Known: {', '.join(known)}"
            )
    return [job for artifact in order.artifacts for job in _jobs_of(device, order, artifact, every)]


def _runtime_of(device: Runs, order: DeviceOrder, artifact: Artifact) -> str | None:
    """The runtime that was asked for, or else the first that the artifact has."""
    runtimes = device.runtimes(artifact)
    return order.runtime if order.runtime in runtimes else next(iter(runtimes), None)


def _jobs_of(device: Runs, order: DeviceOrder, artifact: Artifact, every: bool) -> list[BenchJob]:
    """The jobs; if it cannot be run as asked, one job that says why."""
    chosen = _runtime_of(device, order, artifact)
    runtime, known = (NO_RUNTIME, ()) if chosen is None else (chosen, device.delegates(chosen))
    asked = [name for name in order.delegates or (known if every else known[:1]) if name in known]
    reason = device.unavailable(artifact, runtime)
    if reason is None and order.runtime not in (None, runtime):
        reason = (
            f"{order.runtime} does not run this file, {' or '.join(device.runtimes(artifact))} does"
        )
    if reason is None and not asked:
        reason = f"{runtime} has no delegate {' or '.join(order.delegates)} ({', '.join(known)})"
    return [
        BenchJob(
            artifact=artifact,
            runtime=runtime,
            runtime_version=device.version(chosen) if chosen else None,
            delegate=name,
            inputs=order.inputs_of(artifact),
            reference=None if reason else order.reference_of(artifact),
            not_run=reason,
        )
        for name in (asked or (*order.delegates, "default")[:1])
    ]


def expected_outputs(jobs: Sequence[BenchJob]) -> list[Mapping[str, Array] | None]:
    """What outputs should be: the checkpoint's, or else what Python's runtime of the file gives,
    once a file.
    """
    known: dict[str, Mapping[str, Array]] = {}
    expected: list[Mapping[str, Array] | None] = []
    for job in jobs:
        if job.not_run is not None:
            expected.append(None)
        elif job.reference is not None:
            expected.append(job.reference.outputs)
        else:
            path = str(job.artifact.path)
            if path not in known:
                with Session(job.artifact) as session:
                    known[path] = session.run(job.inputs)
            expected.append(known[path])
    return expected
