"""What the report reads besides the reports that other packages define: checkpoint records, faces
and release gates.

Checkpoint records hold more than a page shows, so surplus keys are ignored there; faces and gates
are strict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from unplug.core import STRICT
from unplug.trust.bundle import Gate

OPEN = {**STRICT, "extra": "ignore"}


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One row of a training history."""

    epoch: int
    train_loss: float
    validation_mae: float | None = None
    validation_accuracy: float | None = None


@dataclass(frozen=True, kw_only=True)
class Steps:
    """One row of the history of a training by steps: the mean loss since the row before."""

    step: int
    loss: float


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Sample passes and wall time of one run."""

    forward: int
    backward: int
    wall_s: float
    device: str | None = None


@dataclass(frozen=True, kw_only=True)
class Retrain:
    """What retraining costs, and how that is known."""

    forward: int
    backward: int
    wall_s: float
    source: str
    recorded_wall_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ForgetCost:
    """`unplug.sdk.forgetting.unlearning.budget.summary`: a cost with the retraining that it is a
    fraction of.
    """

    forward: int
    backward: int
    wall_s: float
    compute_fraction: float
    wall_fraction: float | None
    budget: float | None
    retrain: Retrain


@dataclass(frozen=True, kw_only=True)
class ForgetStep:
    """How an unlearned checkpoint came about."""

    method: str
    samples: int
    cost: ForgetCost
    settings: dict[str, Any] = field(default_factory=dict)
    set_sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """The size of a split and its hash; the ids themselves are not shown."""

    sha256: str
    seed: int
    subject_disjoint: bool
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    forget: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AnyRecord:
    """What the ``unplug.json`` of every checkpoint folder says."""

    __pydantic_config__: ClassVar = OPEN

    weights_sha256: str
    role: str = "original"
    seed: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    split: SplitFacts | None = None
    recipe: dict[str, Any] = field(default_factory=dict)
    cost: Spent | None = None
    forget: ForgetStep | None = None
    lineage: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Record(AnyRecord):
    """``unplug-checkpoint/1``: of an age predictor or a classifier."""

    __pydantic_config__: ClassVar = OPEN

    schema: Literal["unplug-checkpoint/1"]
    history: tuple[Epoch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PluginRecord(AnyRecord):
    """``unplug-plugin/1``: of a conditioning plugin.

    Args:
        history: rows of its training.
        base: its frozen base: name and SHA-256.
        condition: its kind and settings.
    """

    __pydantic_config__: ClassVar = OPEN

    schema: Literal["unplug-plugin/1"]
    history: tuple[Steps, ...] = ()
    base: dict[str, Any] = field(default_factory=dict)
    condition: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Face:
    """One thumbnail.

    Args:
        png: base64 of a small PNG file.
        age: true age in years.
        predictions: age in years that each model says, by role.
    """

    __pydantic_config__: ClassVar = STRICT

    png: str
    age: float
    predictions: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class FaceSheet:
    """``unplug-faces/2``: small pictures of the test set with the models' answers, for a report
    that was asked to show people.

    Version 1 could hold pictures of the forgotten.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-faces/2"]
    faces: tuple[Face, ...]


@dataclass(frozen=True, kw_only=True)
class Try:
    """One way in which a request was tried: who tries often enough passes by chance, so every try
    is told.

    Args:
        request: SHA-256 of the original's and the forget set's digests.
        method, budget, options, seed: the forget step.
        gates: thresholds that are not the defaults.
        unlearned_sha256: the resulting model.
        passed: every gate held.
        failed: names of the gates that did not.
        overridden: those of them that did not keep it from shipping, for a reason that stands in
            the gate.
    """

    request: str
    method: str
    budget: float
    options: dict[str, str]
    seed: int
    gates: dict[str, float | bool | None]
    unlearned_sha256: str
    passed: bool
    failed: tuple[str, ...]
    overridden: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReleaseRecord:
    """``unplug-release/1``: the gates, the wall time of each stage, and every try of the same
    request, this one the last.

    Passed means that it ships: every gate held, or was overridden. In a bundle there are no times:
    they are not signed.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-release/1"]
    gates: tuple[Gate, ...]
    passed: bool
    title: str
    seconds: dict[str, float]
    tries: tuple[Try, ...] = ()
