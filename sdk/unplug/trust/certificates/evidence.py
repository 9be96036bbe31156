"""What a bundle itself says of its model, as a certificate repeats it: made to issue one, and again
by those who verify.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, Estimate, InputError, ReportError
from unplug.trust.bundle import (
    CERTIFIED,
    EXACT,
    HEAD_FILE,
    FileEntry,
    Gate,
    GeneratorManifest,
    Manifest,
    bundle_id,
    open_source,
    read_whole,
    validated,
)

from .certificate import (
    AttackLine,
    Evidence,
    FileLine,
    GateLine,
    ModelLine,
    OverrideLine,
    Shown,
    UseLine,
    Who,
)

AUDIT = "reports/audit.json"
MAX_AUDIT_BYTES = 64 * 2**20
CARRIED = ("artifacts/", "members/", HEAD_FILE, "reports/")
"""Files of a bundle whose hashes a certificate repeats."""


@dataclass(frozen=True, kw_only=True)
class AuditedAttack:
    """The part of an attack in ``unplug-audit/1`` that a certificate repeats;
    `unplug.sdk.evidence.auditing` writes it.
    """

    auc: Estimate
    minus_retrained: Estimate | None
    minus_retrained_together: Estimate | None = None


@dataclass(frozen=True, kw_only=True)
class AuditedUse:
    """The part of a model's use on one set; without ages there is no `mae`, and without classes no
    `wrong`, the share of wrong answers.
    """

    n: int
    mae: Estimate | None = None
    loss: float
    loss_interval: Estimate | None = None
    wrong: Estimate | None = None

    @property
    def error(self) -> Estimate:
        """Mean absolute error in years, the share of wrong answers, or the loss of a model that has
        neither.
        """
        return self.mae or self.wrong or self.loss_interval or Estimate(value=self.loss)

    @property
    def unit(self) -> str:
        """What the error is counted in."""
        return "years" if self.mae else "wrong answers" if self.wrong else "loss"


@dataclass(frozen=True, kw_only=True)
class AuditedModel:
    """The part of a model."""

    role: str
    attacks: dict[str, AuditedAttack]
    utility: dict[str, AuditedUse]


@dataclass(frozen=True, kw_only=True)
class BundledAudit:
    """The part of the report: these fields have their form, and no other is looked at."""

    __pydantic_config__: ClassVar[Any] = {**STRICT, "extra": "ignore"}

    models: tuple[AuditedModel, ...]
    skipped: dict[str, str]
    alarms: tuple[dict[str, str], ...]
    settings: dict[str, Any]
    schema: Literal["unplug-audit/1"]

    @property
    def too_few(self) -> str | None:
        """Why no interval counts as showing anything, or None."""
        return self.skipped.get("forget interval") or self.skipped.get("unseen interval")


def unanswered(manifest: Manifest | GeneratorManifest, id: str) -> str | None:
    """What is wrong where a bundle names requests that it answers, and this one is not among them."""
    answers = () if manifest.publication is None else manifest.publication.requests
    return (
        f"the bundle does not say that it answers the request {id}"
        if answers and id not in answers
        else None
    )


def model_line(bundle: Path, manifest: Manifest) -> ModelLine:
    """The model of a bundle that was verified, in hashes."""
    publication, lineage = manifest.publication, manifest.lineage
    return ModelLine(
        bundle=bundle_id(bundle),
        product=None if publication is None else publication.name,
        release=None if publication is None else publication.release,
        model_type=manifest.model_type,
        original_sha256=lineage.original_sha256,
        checkpoint_sha256=lineage.checkpoint_sha256,
        data_digest=lineage.data_digest,
        forget_samples=lineage.forget_samples,
        method=lineage.method,
        compute=lineage.compute_fraction,
        versions=manifest.versions,
        files=file_lines(
            {name: item for name, item in manifest.files.items() if name.startswith(CARRIED)}
        ),
    )


def file_lines(files: Mapping[str, FileEntry]) -> tuple[FileLine, ...]:
    """Files of a bundle, in the order of their names."""
    return tuple(
        FileLine(name=name, sha256=entry.sha256, bytes=entry.bytes)
        for name, entry in sorted(files.items())
    )


def evidence_of(bundle: Path, manifest: Manifest) -> Evidence:
    """What the audit in a bundle that was verified found, compared with what never saw the people.

    Raises:
        ReportError: it has no audit, or one of another form, or without a model that never saw
            them.
    """
    where = f"{bundle}/{AUDIT}"
    audit = _audit(bundle, manifest, where)
    roles = {model.role: model for model in reversed(audit.models)}
    if not {"unlearned", "retrained"} <= roles.keys():
        why = "it compares with no model that never saw them"
        raise ReportError(where, why, "Audit with an oracle or a fleet")
    released, never, before = roles["unlearned"], roles["retrained"], roles.get("original")
    if not released.attacks and _way(manifest.gates) != "equality":
        raise ReportError(where, "no attack was made on the released model", "Audit it again")
    who: dict[Who, AuditedModel] = {"released": released, "never saw them": never}
    if before is not None:
        who["before"] = before
    if not all("test" in model.utility for model in who.values()):
        why = "it has no use of a model on people whom none saw"
        raise ReportError(where, why, "Audit it again")
    tested = {name: model.utility["test"] for name, model in who.items()}
    fleet = audit.settings.get("fleet")
    return Evidence(
        shown_by=_way(manifest.gates),
        beside="models of a fleet, none trained on them"
        if fleet
        else "a model trained without them",
        attacks=tuple(_attack(name, released, never, before) for name in sorted(released.attacks)),
        use=tuple(
            UseLine(who=name, error=use.error, samples=use.n) for name, use in tested.items()
        ),
        unit=tested["released"].unit,
        too_few=audit.too_few,
        alarms=tuple(alarm.get("message", "") for alarm in audit.alarms),
        gates=tuple(map(gate_line, manifest.gates)),
        overrides=tuple(
            OverrideLine(gate=gate.name, reason=gate.override)
            for gate in manifest.gates
            if gate.override is not None
        ),
        skipped=audit.skipped,
    )


def _way(gates: Sequence[Gate]) -> Shown:
    judged = {gate.name for gate in gates}
    return "equality" if EXACT in judged else "certification" if CERTIFIED in judged else "attacks"


def gate_line(gate: Gate) -> GateLine:
    """A gate, as a certificate repeats it."""
    return GateLine(
        name=gate.name,
        value=gate.value,
        limit=gate.limit,
        comparison=gate.comparison,
        passed=gate.passed,
        unit=gate.unit,
    )


def _attack(
    name: str, released: AuditedModel, never: AuditedModel, before: AuditedModel | None
) -> AttackLine:
    mine, old = released.attacks[name], None if before is None else before.attacks.get(name)
    if name not in never.attacks:
        raise ReportError(
            AUDIT, f"the attack {name[:60]} was not made on what never saw them", "Audit it again"
        )
    return AttackLine(
        attack=name,
        model=mine.auc,
        never_saw=never.attacks[name].auc,
        original=None if old is None else old.auc,
        gap=mine.minus_retrained_together or mine.minus_retrained,
    )


def _audit(bundle: Path, manifest: Manifest, where: str) -> BundledAudit:
    if AUDIT not in manifest.files:
        why = "the bundle holds no audit"
        raise ReportError(where, why, "Release it with `unplug release`, which audits")
    with open_source(bundle) as source:
        raw = read_whole(source, AUDIT, MAX_AUDIT_BYTES)
    if hashlib.sha256(raw).hexdigest() != manifest.files[AUDIT].sha256:
        raise InputError(where, "it was changed while it was read", "Verify the bundle again")
    try:
        return validated(BundledAudit, raw)
    except ValueError as error:
        raise ReportError(where, str(error), "Release it again") from error
