"""The audit report, ``unplug-audit/1``: numbers with intervals, the oracle beside each, raw scores kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.export.schema import STRICT
from unplug.plugins.files import write_json

SCHEMA: Literal["unplug-audit/1"] = "unplug-audit/1"
Role = Literal["original", "unlearned", "retrained", "artifact"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and its 95 % interval (bootstrap over subjects; null where it was not computed)."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """Use of a model within one age group; null where the group is empty."""

    ages: str
    n: int
    accuracy: float | None
    mae: float | None


@dataclass(frozen=True, kw_only=True)
class SubjectRows:
    """Use of a model per subject, where subjects are known."""

    subjects: int
    mean_mae: float
    worst: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Utility:
    """Use of a model on one set."""

    n: int
    accuracy: Estimate
    mae: Estimate
    loss: float
    per_group: tuple[GroupRow, ...]
    per_subject: SubjectRows | None = None


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """One attack on one model, forget against unseen.

    Args:
        auc: area under the ROC.
        minus_retrained: AUC minus the oracle's, paired; null for the oracle itself.
        threshold_accuracy: balanced, cross-validated; null where a side has under ten samples.
        tpr: true-positive rate per false-positive rate; null where the sample is too small to say.
        forget_scores, unseen_scores: raw, a higher score means "member".
    """

    auc: Estimate
    minus_retrained: Estimate | None
    threshold_accuracy: float | None
    tpr: dict[str, float | None]
    forget_scores: tuple[float, ...]
    unseen_scores: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ModelAudit:
    """All that was measured on one model or artifact.

    Args:
        name: how the report calls it.
        role: which kind of model it is.
        sha256: of the weights or of the exported file.
        target, precision: of an artifact, else null.
        utility: per set (retain, forget, test).
        attacks: per attack.
        distance: mean |expected age - the oracle's| in years on forget and test; null for the oracle.
    """

    name: str
    role: Role
    sha256: str
    utility: dict[str, Utility]
    attacks: dict[str, AttackResult]
    distance: dict[str, Estimate] | None = None
    target: str | None = None
    precision: str | None = None


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """Something a reader must not miss."""

    kind: Literal["over-forgetting", "not-forgotten"]
    model: str
    message: str


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """``unplug-audit/1``."""

    __pydantic_config__: ClassVar = STRICT

    data: dict[str, Any]
    forget: dict[str, Any]
    models: tuple[ModelAudit, ...]
    oracle_band: dict[str, tuple[float, ...]]
    skipped: dict[str, str]
    alarms: tuple[Alarm, ...]
    settings: dict[str, Any]
    versions: dict[str, str | None]
    schema: Literal["unplug-audit/1"] = SCHEMA

    def model(self, name: str) -> ModelAudit:
        """The audit of one model by its name."""
        return next(item for item in self.models if item.name == name)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    def save(self, path: Path) -> None:
        """Writes the report, atomically."""
        write_json(path, self.to_dict())
