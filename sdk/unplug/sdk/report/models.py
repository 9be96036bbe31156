"""Which audited model plays which part on the page."""

from __future__ import annotations

from collections.abc import Mapping

from unplug.core import plain
from unplug.sdk.evidence.auditing import EQUIVALENCE, AuditReport, Estimate, ModelAudit, called

from .inputs import Inputs
from .page import Cell
from .schemas import PluginRecord

ROLES = ("original", "unlearned", "retrained")
LABELS = {"original": "original", "unlearned": "unlearned", "retrained": "retrained (oracle)"}
WORST_FIRST = (
    *("Not forgotten", "Over-forgotten", "Inconclusive (too few)", "Inconclusive"),
    *("Not compared", "Forgotten, but less useful", "Forgotten", "Not audited"),
)
"""What `judge` says."""
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
    """The first model of each of `ROLES`, in that order; roles that were not audited are absent.

    Of a family they are those of the member of which `judge` says the worst, else of the reference.
    """
    models, audit = all_models(inputs), main_audit(inputs)
    firsts = []
    for member in dict.fromkeys(model.member for model in models):
        roles: dict[str, ModelAudit] = {
            model.role: model for model in reversed(models) if model.member == member
        }
        firsts.append({role: roles[role] for role in ROLES if role in roles})
    too_few = None if audit is None else audit.too_few
    return min(firsts, key=lambda found: WORST_FIRST.index(judge(found, too_few)), default={})


def judge(models: Mapping[str, ModelAudit], too_few: str | None = None) -> str:
    """The word: the worst of what the attacks say, by paired intervals against the oracle that hold
    for all of them at once.

    Forgotten means equivalent: every interval lies within `EQUIVALENCE` on both sides. Otherwise
    one that excludes zero says that it failed, and one that does not says nothing. Use counts as
    lost where the intervals of the test error before and after forgetting do not touch.

    Args:
        models: the models by role.
        too_few: why the intervals leave out one side's people, or None.
    """
    if not models:
        return "Not audited"
    unlearned = models.get("unlearned")
    gaps = [attack.gap for attack in unlearned.attacks.values()] if unlearned else []
    if not gaps or any(gap is None or gap.low is None or gap.high is None for gap in gaps):
        return "Not compared"
    signs = [excludes_zero(gap) for gap in gaps]
    within = all(max(abs(gap.low), abs(gap.high)) <= EQUIVALENCE for gap in gaps)  # type: ignore[union-attr, arg-type]
    if too_few or (not within and not any(signs)):
        return "Inconclusive (too few)"
    if not within:
        return "Not forgotten" if 1 in signs else "Over-forgotten"
    original = models.get("original")
    seen = original is None or any(
        excludes_zero(attack.gap) == 1 for attack in original.attacks.values()
    )
    if not seen:
        return "Inconclusive"
    return "Forgotten, but less useful" if _use_lost(models) else "Forgotten"


def _use_lost(models: Mapping[str, ModelAudit]) -> bool:
    uses = [
        models[role].utility.get("test") for role in ("original", "unlearned") if role in models
    ]
    if len(uses) < 2 or uses[0] is None or uses[1] is None:
        return False
    before, after = uses[0].error, uses[1].error
    return before.high is not None and after.low is not None and after.low > before.high


def model_label(model: ModelAudit) -> str:
    """The role, with the name where that says more."""
    if model.name != called(model.role, model.member):
        other = model.role == "artifact"
        return plain(model.name) if other else f"{label(model.role)}: {plain(model.name, 40)}"
    of = "" if model.member is None else f"{plain(model.member, 24)}: "
    return f"{of}{label(model.role)}"


def short_label(model: ModelAudit) -> str:
    """`model_label` for a figure."""
    return plain(model_label(model).removeprefix("members/"), 24)


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
