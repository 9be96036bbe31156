"""Anything that can be audited, behind one call: a checkpoint in torch, or an exported file in its own runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from unplug.plugins.checkpoint import Checkpoint
from unplug.plugins.errors import ArtifactError, InputError
from unplug.sdk.train.evaluate import LossPredictions, Predictions, predict, truth
from unplug.sdk.train.run import Sets
from unplug.sdk.train.tensors import TensorSet

from .attack import Signals
from .report import Role

if TYPE_CHECKING:
    from unplug.sdk.kinds import Kind

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
        """Of the weights."""
        return self.checkpoint.sha256

    def signals(self, sets: Sets) -> Signals:
        """Predictions by torch."""
        device = sets.train.age_N.device
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
        """Of the file."""
        return str(self.artifact.card.sha256)

    @property
    def target(self) -> str:
        """litert, onnx or coreml."""
        return str(self.artifact.card.target)

    @property
    def precision(self) -> str:
        """fp32, fp16, ..."""
        return str(self.artifact.card.precision)

    def signals(self, sets: Sets) -> Signals:
        """Predictions by the file's runtime, all sets in one child process."""
        forget, test, validation, train = ask_artifact(self.artifact, [getattr(sets, name) for name in SETS], self.kind)
        return Signals(forget=forget, unseen=test, population=validation, retain=train)


def ask_artifact(artifact: Any, parts: Sequence[TensorSet], kind: Kind | None) -> list[Predictions]:
    """What an exported file of a kind says of each set; None is that of age predictors."""
    return predict_artifact(artifact, parts) if kind is None else kind.predict_artifact(artifact, parts)


def predict_artifact(artifact: Any, parts: Sequence[TensorSet]) -> list[Predictions]:
    """What an exported file says of each set, in its own runtime.

    Raises:
        ArtifactError: its outputs are not those of an age model.
        ConversionError: its runtime crashed.
    """
    from unplug.export import Session

    image_NCHW = np.concatenate([_pixels(part) for part in parts])
    outputs = Session(artifact).run_channels_first({"image": image_NCHW})
    if missing := [name for name in ("age_logits", "expected_age") if name not in outputs]:
        why = f"it has no output {' or '.join(missing)}, so it is no age model"
        raise ArtifactError(str(artifact.path), why, "Audit the artifacts of an age model")
    ends = np.cumsum([len(part) for part in parts])[:-1]
    logits, ages = (np.split(outputs[name], ends) for name in ("age_logits", "expected_age"))
    return [truth(part, logit, age) for part, logit, age in zip(parts, logits, ages, strict=True)]


def finite(name: str, parts: Iterable[Predictions]) -> None:
    """Raises where an output is not a number.

    Raises:
        InputError: some output is NaN or infinite.
    """
    for part in parts:
        ages = np.zeros(0) if isinstance(part, LossPredictions) else part.age_N
        if not (np.isfinite(part.logits_NG).all() and np.isfinite(ages).all()):
            raise InputError(name, "some of its outputs are not numbers", "Check it with `unplug parity`, or export in fp32")


def _pixels(part: TensorSet) -> np.ndarray:
    return part.image_NCHW.to(torch.float32).div_(255.0).contiguous().cpu().numpy()
