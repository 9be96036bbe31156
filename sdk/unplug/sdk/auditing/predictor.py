"""Anything that can be audited, behind one call: a checkpoint in torch, or an exported file in its own runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from unplug.plugins import Checkpoint
from unplug.sdk.tasks import ask_artifact
from unplug.sdk.training import Sets, predict

from .attack import Signals
from .report import Role

if TYPE_CHECKING:
    from unplug.sdk.tasks import Kind

SETS = ("forget", "test", "validation", "train")


class Predictor(Protocol):
    """Name, role, hash, and predictions over sets; `target` and `precision` are those of an exported file."""

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


@dataclass(frozen=True, kw_only=True)
class CheckpointPredictor:
    """A checkpoint on the device of the data; `kind` says how it computes (None: by itself, as an age predictor does)."""

    name: str
    role: Role
    checkpoint: Checkpoint
    kind: Kind | None = None
    target: str | None = None
    precision: str | None = None

    @property
    def sha256(self) -> str:
        """SHA-256 of the checkpoint's weight file."""
        return self.checkpoint.sha256

    def signals(self, sets: Sets) -> Signals:
        """What torch says of every set, as the attacks read it."""
        device = sets.train.device
        network = self.checkpoint.model if self.kind is None else self.kind.network(self.checkpoint.model)
        model = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        forget, test, validation, train = (predict(model, getattr(sets, name)) for name in SETS)
        return Signals(forget=forget, unseen=test, population=validation, retain=train)


@dataclass(frozen=True, kw_only=True)
class ArtifactPredictor:
    """An exported file, run by its own runtime in a child process: the very bytes that ship."""

    name: str
    artifact: Any
    role: Role = "artifact"
    kind: Kind | None = None

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
        forget, test, validation, train = ask_artifact(self.artifact, [getattr(sets, name) for name in SETS], self.kind)
        return Signals(forget=forget, unseen=test, population=validation, retain=train)
