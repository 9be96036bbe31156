"""What is said of a release that may not ship: which gates, by how much, and what would make it
conclude.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from unplug.core import GateFailed, counted, seconds
from unplug.sdk.evidence.auditing import AuditReport
from unplug.trust.bundle import Gate

from .gates import Gates
from .gates_forgetting import ABOVE, BELOW


def exactly(takes: float | None) -> str:
    """The way out for a request of so few people, with how long a retraining takes here."""
    about = "not timed here yet" if takes is None else f"about {seconds(takes)} here"
    return (
        f"`method=retrain`, {about}, forgets so few exactly; a model made to forget does at once "
        "(`--forgettable closed-form`)"
    )


def refusal(
    found: Sequence[Gate],
    audit: AuditReport,
    limits: Gates,
    out: Path,
    work: Path,
    retraining: float | None = None,
) -> GateFailed:
    """The error of a release that may not ship.

    Args:
        found: every gate, as it was judged.
        audit: the audit of its models.
        limits: the limits that the gates were held to.
        out, work: the release's folders.
        retraining: seconds that a retraining takes here; None where that is unknown.
    """
    failed = [gate for gate in found if not gate.ships]
    surely = [gate for gate in failed if not gate.inconclusive]
    older = f"The bundle of an earlier release is still at {out}. " if out.exists() else ""
    fix = f"No bundle was written. {older}`unplug report {work}/*.json -o report.html` shows why"
    if surely:
        beside = len(failed) - len(surely)
        still = f"; {counted(beside, 'gate')} more inconclusive" if beside else ""
        return GateFailed(
            "release refused", "; ".join(gate.explain() for gate in surely) + still, fix
        )
    widest = max(failed, key=lambda gate: (gate.value is not None, gate.value or 0.0))
    others = f", and {counted(len(failed) - 1, 'gate')} more open" if len(failed) > 1 else ""
    times = times_as_many(audit, limits) if ABOVE.is_of(widest) or BELOW.is_of(widest) else None
    more = (
        f"About {times} times as many people, forgotten and unseen, would decide it. "
        if times is not None
        else ""
    )
    return GateFailed(
        "release inconclusive", f"{widest.explain()}{others}", f"{more}{exactly(retraining)}. {fix}"
    )


def times_as_many(audit: AuditReport, limits: Gates) -> int | None:
    """How many times the people it would take for an equal model's intervals to lie within the
    margins; None where unknown.

    Widths go with one over the root of the number of people, so it is (half width / margin)², of
    the widest.
    """
    gaps = [attack.minus_retrained_together for attack in audit.model("unlearned").attacks.values()]
    halves = [
        (gap.high - gap.low) / 2
        for gap in gaps
        if gap is not None and gap.low is not None and gap.high is not None
    ]
    margin = min(limits.max_auc_above_retrained, limits.max_auc_below_retrained)
    if not halves or margin <= 0.0 or audit.too_few or max(halves) <= margin:
        return None
    return math.ceil((max(halves) / margin) ** 2)
