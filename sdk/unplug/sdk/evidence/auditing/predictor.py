"""Anything that can be audited, through one call: a checkpoint in torch, or an exported file in its
own runtime.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch

from unplug.core import InputError
from unplug.plugins import Checkpoint
from unplug.sdk.learning.training import (
    ClassPredictions,
    Predictions,
    SampleSet,
    Sets,
    predict,
)

from .attack import Signals
from .audit_report import NEVER_SAW, Role
from .evidence import AuditEvidence
from .white_box import look_inside

if TYPE_CHECKING:
    from unplug.sdk.forgetting.tasks import StoredTask

SETS = ("forget", "test", "validation", "train")


class Predictor(Protocol):
    """Name, role, hash, and predictions over sets; `target` and `precision` are those of an
    exported file.
    """

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> Role: ...

    @property
    def sha256(self) -> str: ...

    @property
    def target(self) -> str | None: ...

    @property
    def precision(self) -> str | None: ...

    def signals(self, sets: Sets) -> Signals:
        """Predictions on forget, unseen (test), population (validation) and retain (train)."""

    def further(self, says: Signals, sets: Sets, evidence: AuditEvidence) -> Signals:
        """`says`, with what the model says of the evidence; stored answers say nothing of it."""


def _signals(sets: Sets, answers: Sequence[Predictions]) -> Signals:
    """What a model answered to `SETS`, as the attacks read it."""
    forget, test, validation, train = answers
    return Signals(
        forget=forget,
        unseen=test,
        population=validation,
        retain=train,
        person_F=sets.forget.subject_N,
        person_U=sets.test.subject_N,
    )


@dataclass(frozen=True, kw_only=True)
class CheckpointPredictor:
    """A checkpoint on the device of the data; `task` says how it computes."""

    name: str
    role: Role
    checkpoint: Checkpoint
    task: StoredTask
    target: str | None = None
    precision: str | None = None

    @property
    def sha256(self) -> str:
        """SHA-256 of the checkpoint's weight file."""
        return self.checkpoint.sha256

    def says(self, part: SampleSet) -> Predictions:
        """What torch says of one set."""
        model = self.task.network(self.checkpoint.model).to(
            part.device, memory_format=torch.channels_last
        )  # type: ignore[call-overload]
        return predict(model, part)

    def signals(self, sets: Sets) -> Signals:
        """What torch says of every set, as the attacks read it."""
        return _signals(sets, [self.says(getattr(sets, name)) for name in SETS])

    def further(self, says: Signals, sets: Sets, evidence: AuditEvidence) -> Signals:
        """What torch says of views and other pictures, and what the last layer reads of the forget
        and the test set.
        """
        model = self.task.network(self.checkpoint.model).to(sets.train.device)
        says = evidence.said(says, [predict(model, part) for part in evidence.parts])
        # In a plugin with its base no layer answers for a sample: it has no classes.
        known = isinstance(says.forget, ClassPredictions)
        return replace(says, inside=look_inside(model, sets)) if known else says


@dataclass(frozen=True, kw_only=True)
class FleetPredictor:
    """Models that never saw who is forgotten, one a person, in the place of a retrained one; what
    they say is known already.
    """

    sha256: str
    said: Signals
    name: str = NEVER_SAW
    role: Role = "retrained"
    target: str | None = None
    precision: str | None = None

    def signals(self, sets: Sets) -> Signals:
        """What they said, whatever the sets."""
        return self.said

    def further(self, says: Signals, sets: Sets, evidence: AuditEvidence) -> Signals:
        """Nobody can be asked any more."""
        return says


@dataclass(frozen=True, kw_only=True)
class ArtifactPredictor:
    """An exported file, run by its own runtime in a child process: the very bytes that ship."""

    name: str
    artifact: Any
    task: StoredTask
    role: Role = "artifact"

    @property
    def sha256(self) -> str:
        """SHA-256 of the exported file."""
        return str(self.artifact.card.sha256)

    @property
    def target(self) -> str:
        """What the file was exported for: litert, onnx or coreml."""
        return str(self.artifact.card.target)

    @property
    def precision(self) -> str:
        """How the file stores its numbers: fp32, fp16, int8-weight, ..."""
        return str(self.artifact.card.precision)

    def signals(self, sets: Sets) -> Signals:
        """Predictions by the file's runtime, all sets in one child process."""
        parts = [getattr(sets, name) for name in SETS]
        return _signals(sets, self.task.predict_artifact(self.artifact, parts))

    def further(self, says: Signals, sets: Sets, evidence: AuditEvidence) -> Signals:
        """What the file says of views and other pictures; it shows no features."""
        parts = evidence.parts
        return (
            evidence.said(says, self.task.predict_artifact(self.artifact, parts)) if parts else says
        )


def fitted_to(predictors: Sequence[Predictor]) -> set[str]:
    """The reference models, by the SHA-256 of their files, whose answers some audited model was
    fitted to.
    """
    steps = [
        model.checkpoint.record.get("forget") or {}
        for model in predictors
        if isinstance(model, CheckpointPredictor)
    ]
    return {name for step in steps for name in (step.get("outside") or {}).get("models", ())}


def check_finite(name: str, parts: Iterable[Predictions]) -> None:
    """Refuses a model that says something other than numbers: `InputError`."""
    if not all(part.finite for part in parts):
        raise InputError(
            name,
            "some of its outputs are not numbers",
            "Check it with `unplug parity`, or export in fp32",
        )
