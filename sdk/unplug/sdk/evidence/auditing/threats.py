"""Who might attack a model, by what they hold, and what this audit tried of it: the threat model of
a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .audit_report import AuditReport, Threat

NOT_TRIED = "not part of this audit"


@dataclass(frozen=True, kw_only=True)
class ThreatLine:
    """What somebody holds, the attacks that try it, and the measures of a report that do; `never`
    where nothing here does.
    """

    holds: str
    attacks: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    never: str = ""


ROWS = (
    ThreatLine(
        holds="the file, a picture and its label", attacks=("loss", "error", "task-loss", "gain")
    ),
    ThreatLine(holds="the file and a picture, not its label", attacks=("entropy",)),
    ThreatLine(
        holds="the file and a picture that is cut a little differently",
        attacks=("views", "best-view"),
    ),
    ThreatLine(holds="the file and all pictures of a person", attacks=("person",)),
    ThreatLine(
        holds="the file and other pictures of a person, none of them trained on",
        attacks=("other-pictures",),
    ),
    ThreatLine(
        holds="the file, and data to train models of their own",
        attacks=("rmia", "lira", "error-lira"),
        measures=("people",),
    ),
    ThreatLine(holds="the file, and whose pictures are remembered most", measures=("vulnerable",)),
    ThreatLine(holds="the weights", attacks=("features",)),
    ThreatLine(holds="the weights, and the means to train on", measures=("relearning",)),
    ThreatLine(holds="the old file as well", attacks=("two-versions",)),
    ThreatLine(
        holds="the old weights as well, of a linear head over a fixed trunk",
        attacks=("head-difference",),
    ),
    ThreatLine(holds="the exported file", measures=("rounding",)),
    ThreatLine(holds="a set of pictures, to ask how much of it was used", measures=("usage",)),
    ThreatLine(holds="the pictures of those who stay", measures=("retain privacy",)),
    ThreatLine(
        holds="a say in what is trained on (planted people)",
        never=(
            "it needs canaries: people with wrong labels in the training set of a model of its own "
            "(docs/audit.md)"
        ),
    ),
    ThreatLine(
        holds="several later versions, or many requests in a row",
        never="an audit is about one request and two versions",
    ),
)


def threat_model(report: AuditReport) -> tuple[Threat, ...]:
    """The threat model of a report, by what ran in it.

    A row is covered by the attacks that some model has, and by the measures that the report holds.
    What did not run keeps its reason; a row with nothing that ran is "not tested".

    Args:
        report: an audit; what it holds decides, not what was asked for.
    """
    ran = {name for model in report.models for name in (*model.attacks, *model.further)}
    measured = _measures(report)
    return tuple(_threat(row, ran | measured, report.skipped) for row in ROWS)


def _measures(report: AuditReport) -> set[str]:
    """Names of the measures besides attacks that the report holds."""
    models = report.models
    held = {
        "people": any(model.people for model in models),
        "vulnerable": any(model.vulnerable is not None for model in models),
        "relearning": any(model.relearning is not None for model in models),
        "rounding": bool(report.rounding),
        "usage": any(model.usage is not None for model in models),
        "retain privacy": any(model.retain_privacy is not None for model in models),
    }
    return {name for name, there in held.items() if there}


def _threat(row: ThreatLine, ran: set[str], skipped: Mapping[str, str]) -> Threat:
    tried = (*row.attacks, *row.measures)
    covered = tuple(name for name in tried if name in ran)
    missing = {name: _reason(name, skipped) for name in tried if name not in ran}
    if row.never:
        missing["not tested"] = row.never
    return Threat(holds=row.holds, covered=covered, missing=missing)


def _reason(name: str, skipped: Mapping[str, str]) -> str:
    return skipped.get(name, NOT_TRIED)


def untested(threats: Sequence[Threat]) -> tuple[str, ...]:
    """What those hold whom no attack of the audit stood for."""
    return tuple(threat.holds for threat in threats if not threat.covered)
