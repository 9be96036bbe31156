"""All stages of a release, in their order, and how long they take as far as anybody knows."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from unplug.core import InputError, ReportError, read_dataclass

from .evidence import ReleaseEvidence
from .material import ReleaseMaterial
from .stage import FILE, MAX_BYTES, Stage, StageProgress, StageRecords, Taken
from .stages_audit import AUDIT, Counterparts
from .stages_files import Bench, Export, Members, Parity
from .stages_models import Forget, Oracle, ReferenceModels
from .stages_people import AgeLimits, Decide, ShownFaces
from .timings import recall

STAGES: tuple[Stage, ...] = (
    Oracle(),
    ReferenceModels(),
    Forget(),
    Export(),
    Parity(),
    Counterparts(),
    AUDIT,
    Members(),
    Decide(),
    AgeLimits(),
    ShownFaces(),
    Bench(),
)
HERE = "as long as it took in this work folder"
BEFORE = "as long as it took on this machine before"
AT_MOST, SOON = "at most", 1.0
"""The time of what only writes and signs."""


def find_evidence(material: ReleaseMaterial, progress: StageProgress) -> ReleaseEvidence:
    """Walks from the request to the bench: every stage once, in this run or in the one before that
    was killed.
    """
    known = {"original": material.original, "certified": material.certified}
    evidence = ReleaseEvidence(results=known)
    for stage in STAGES:
        evidence = progress.run(stage, material, evidence)
    return evidence


def _takes(stage: Stage, material: ReleaseMaterial) -> Taken | None:
    """How long a stage takes: as the last one of its kind on this machine, else as it says itself;
    None where it does nothing that is worth a line.
    """
    taken = stage.takes(material) if stage.wanted(material) else None
    if taken is None or (timed := recall(stage.kind(material))) is None:
        return taken
    more = len(material.dataset) / max(1, timed.samples) if stage.scales else 1.0
    return timed.seconds * more, BEFORE


def retraining_takes(material: ReleaseMaterial) -> float | None:
    """Seconds that a retraining takes here, as far as anybody knows."""
    taken = _takes(STAGES[0], replace(material, oracle=None))
    return None if taken is None else taken[0]


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """One thing that a release does.

    Args:
        what: the step in words, as in progress lines.
        seconds: the wall time in seconds, an estimate; None where nothing is known.
        source: how that is known.
        finished: an earlier run has left its result, which is used again if it was made from the
            same.
    """

    what: str
    seconds: float | None
    source: str
    finished: bool = False


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """What a release would do; making it computes nothing.

    Args:
        steps: the steps in their order.
        requests: the ledger's requests that it answers.
    """

    steps: tuple[PlannedStep, ...]
    requests: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """The seconds of those steps that are not finished and have a known time; None where that
        says nothing of the work.
        """
        left = [step for step in self.steps if not step.finished]
        if self.unknown and all(step.seconds is None or step.source == AT_MOST for step in left):
            return None
        return sum(step.seconds for step in left if step.seconds is not None)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Steps of which nobody knows how long they take."""
        return tuple(step.what for step in self.steps if step.seconds is None and not step.finished)


def plan_release(
    material: ReleaseMaterial, *, requests: tuple[str, ...] | None = None, signed: bool = False
) -> ReleasePlan:
    """The plan of a release that `prepare` has let through.

    What a stage cannot say of itself is known from an earlier run in the work folder, or not at
    all.

    Args:
        material: the material of the release.
        requests: the requests that it answers; None where no ledger is told.
        signed: whether the bundle is signed.
    """
    known: Mapping[str, float] = {}
    with contextlib.suppress(InputError):  # there was no earlier run, or what it left is not whole
        earlier = read_dataclass(
            StageRecords, material.work / FILE, ReportError, max_bytes=MAX_BYTES
        ).stages
        known = {name: record.seconds for name, record in earlier.items()}
    steps = []
    for stage in STAGES:
        taken = _takes(stage, material)
        if taken is not None:
            name = stage.name(material)
            seconds, source = (known[name], HERE) if name in known else taken
            done = name in known
            steps.append(PlannedStep(what=name, seconds=seconds, source=source, finished=done))
    told = requests is not None
    last = [
        "judge by every gate" + (", and tell the ledger" if told else ""),
        "write the bundle" + (" with the ledger's head" if told else ""),
        *(["sign it"] if signed else []),
        "publish it in one step",
        *(["tell the ledger that it is published"] if told else []),
    ]
    steps += [PlannedStep(what=what, seconds=SOON, source=AT_MOST) for what in last]
    return ReleasePlan(steps=tuple(steps), requests=requests or ())
