"""Which audited model plays which part on the page."""

from __future__ import annotations

from unplug.core import plain
from unplug.sdk.evidence.auditing import AuditReport, Estimate, ModelAudit

from .inputs import Inputs
from .page import Cell
from .schemas import PluginRecord

ROLES = ("original", "unlearned", "retrained")
LABELS = {"original": "original", "unlearned": "unlearned", "retrained": "retrained (oracle)"}
SETS = {"retain": "retain set", "forget": "forget set", "test": "test (unseen)"}


def label(role: str) -> str:
    """How the page calls a role."""
    return LABELS.get(role, role)


def all_models(inputs: Inputs) -> tuple[ModelAudit, ...]:
    """Every audited model once, in the order given; a later audit of the same weights under the
    same name is left out.
    """
    known = {
        (model.sha256, model.name): model
        for audit in reversed(inputs.audits)
        for model in reversed(audit.models)
    }
    return tuple(reversed(known.values()))


def main_models(inputs: Inputs) -> dict[str, ModelAudit]:
    """The first model of each of `ROLES`, in that order; roles that were not audited are absent."""
    models = all_models(inputs)
    first = {role: next((model for model in models if model.role == role), None) for role in ROLES}
    return {role: model for role, model in first.items() if model is not None}


def model_label(model: ModelAudit) -> str:
    """The role, with the name where that says more."""
    if model.role == "artifact" or model.name == model.role:
        return label(model.role) if model.name == model.role else plain(model.name)
    return f"{label(model.role)}: {plain(model.name, 40)}"


def model_cell(model: ModelAudit) -> Cell:
    """The head of a model's row."""
    return Cell(model_label(model), role=model.role)


def has_classes(inputs: Inputs) -> bool:
    """True where some audited model is a classifier."""
    return any(use.wrong for model in all_models(inputs) for use in model.utility.values())


def has_years(inputs: Inputs) -> bool:
    """False where everything that was audited says a loss instead of an age, or nothing was and the
    records are plugins'.
    """
    models = all_models(inputs)
    if not models:
        return not any(isinstance(record, PluginRecord) for record in inputs.records)
    return any(use.mae is not None for model in models for use in model.utility.values())


def attack_names(inputs: Inputs) -> tuple[str, ...]:
    """Names of the attacks that ran, in the order given."""
    return tuple(dict.fromkeys(name for model in all_models(inputs) for name in model.attacks))


def why_no_attacks(audit: AuditReport | None) -> str:
    """Why the page shows none: an audit that made none says why."""
    given = None if audit is None else audit.skipped.get("attacks")
    return given or "no audit with attacks was given (unplug audit)"


def main_attack(models: dict[str, ModelAudit]) -> str | None:
    """The attack that recognized the forget set best in the original: forgetting is judged by the
    strongest.

    Without an original, the one that is strongest on whatever is there.
    """
    for model in models.values():
        if model.attacks:
            return max(model.attacks, key=lambda name: (model.attacks[name].auc.value, name))
    return None


def excludes_zero(gap: Estimate | None) -> int:
    """1 where an interval lies above zero, -1 below, 0 where it holds zero or is unknown."""
    if gap is None or gap.low is None or gap.high is None:
        return 0
    return 1 if gap.low > 0 else -1 if gap.high < 0 else 0


def main_audit(inputs: Inputs) -> AuditReport | None:
    """The audit that the verdict is about: the first one with an unlearned model, else the first."""
    with_unlearned = (
        audit for audit in inputs.audits if any(model.role == "unlearned" for model in audit.models)
    )
    return next(with_unlearned, inputs.audits[0] if inputs.audits else None)
