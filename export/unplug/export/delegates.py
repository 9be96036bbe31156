"""What a delegate takes of an artifact."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from unplug.core import ArtifactError, IOSpec, Job, Reply, call_in_child, memory_for, seconds_for

from .artifact import Artifact
from .runtime import RUNTIMES
from .runtime.base import Placement, Runtime
from .session import check_runtime, run_values, runtime_of


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """One artifact on one delegate.

    Args:
        file, delegate: which.
        whole: the delegate takes every operator.
        placement: the runtime's own account of the placement, or None where it did not open the
            file.
        reason: why not, in the delegate's words, or None.
    """

    file: str
    delegate: str
    whole: bool
    placement: Placement | None = None
    reason: str | None = None

    def __str__(self) -> str:
        if self.whole:
            return f"{self.file}: {self.delegate} takes all of it"
        left = Counter(() if self.placement is None else self.placement.left)
        what = self.reason or ", ".join(f"{count} {name}" for name, count in left.items())
        return f"{self.file}: {self.delegate} does not take {what}"


def coverage(artifact: Artifact, delegate: str) -> Coverage:
    """Opens an artifact on a delegate and counts what went there.

    Args:
        artifact: an artifact whose target's runtime has this delegate.
        delegate: one of the runtime's `delegates`.

    Raises:
        InputError: no such delegate, or no device for it here.
        ConversionError: the runtime crashed.
    """
    runtime: Runtime = runtime_of(artifact)
    check_runtime(runtime, delegate, 1)
    values = {**run_values(artifact), "runtime": runtime.name, "delegate": delegate}
    try:
        told = call_in_child(
            "unplug.export.delegates:place",
            values,
            what=f"{artifact.path.name} on {delegate}",
            timeout=seconds_for(1),
            memory=memory_for(artifact.path),
        ).values
    except ArtifactError as error:
        return Coverage(
            file=artifact.path.name, delegate=delegate, whole=False, reason=f"it ({error.why})"
        )
    placement = Placement.from_dict(told)
    counted = placement.nodes_total is not None
    whole = (
        placement.nodes_delegated == placement.nodes_total
        if counted
        else placement.delegate_got == delegate
    )
    return Coverage(file=artifact.path.name, delegate=delegate, whole=whole, placement=placement)


def place(job: Job) -> Reply:
    """The child's side of `coverage`."""
    values = job.values
    runtime = RUNTIMES.get(values["runtime"])
    runner = runtime.open(
        Path(values["path"]),
        IOSpec.from_dict(values["iospec"]),
        threads=1,
        delegate=values["delegate"],
    )
    return Reply(values=asdict(runner.placement))
