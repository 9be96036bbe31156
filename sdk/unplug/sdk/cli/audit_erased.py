"""``unplug audit`` of a base from which something was erased."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import Estimate, counted, plain, table
from unplug.sdk import journey

from .base import Common, Outcome, folded

if TYPE_CHECKING:
    from unplug.sdk.evidence.concepts import ConceptAudit, ErasureAudit


def audit_erased(base: Path, out: Path, common: Common, **options: Any) -> Outcome:
    """Attacks one erased base, says what was found and keeps it."""
    report = journey.audit_erasure(
        base,
        work=out.with_name(f".{out.name}.rows"),
        **common.shared,
        say=common.say,
        **options,
    )
    report.save(out)
    return Outcome(value=asdict(report), text="\n".join([*summary(report), f"saved {out}"]))


def summary(report: ErasureAudit) -> Iterator[str]:
    """Each concept's rates next to the original's and the reference, then what may be claimed."""
    for concept in report.concepts:
        facts = concept.judge
        yield folded(
            f"{plain(concept.words, 40)}: share of {report.pictures} pictures that show it; the "
            f"judge sees {_rate(facts.recall)} of what is there, and {_rate(facts.false_alarms)} of "
            "what is not"
        )
        yield _rates(concept, list(report.models))
        yield from (folded(f"{name}: not tried, {why}") for name, why in concept.left_out.items())
        yield folded(
            "against who holds: "
            + ", ".join(f"{claim} {outcome}" for claim, outcome in concept.claims.items())
        )
    yield folded(
        f"pictures of other prompts stay within {_db(report.retained_db)} of the original's; held "
        f"against {report.reference}"
    )
    if apart := report.frechet:
        yield folded(
            f"their Fréchet distance from the original's is {apart.erased:.4g}, where the original's "
            f"own have {apart.original:.4g}: of {apart.pictures} pictures on each side, in "
            f"{counted(apart.components, 'component')} of what the autoencoder sees"
        )
    for words, rates in report.beside.items():
        both = ", ".join(f"{role} {_rate(rate)}" for role, rate in rates.items())
        yield folded(f"{plain(words, 40)}: {both}")
    said = (
        f"holds against {report.claim}" if report.claim else "holds against nothing that was tried"
    )
    yield folded(f"the erasure {said}")


def _rates(concept: ConceptAudit, roles: list[Any]) -> str:
    cells = dict[tuple[str, str, str], dict[str, str]]()
    for row in concept.rows:
        key = row.attack, row.form, row.holds or ""
        cells.setdefault(key, {})[row.role] = _rate(row.rate)
    return table(
        ("attack", "form", "attacker holds", *roles),
        [(*key, *(found.get(role, "") for role in roles)) for key, found in cells.items()],
    )


def _rate(rate: Estimate) -> str:
    ends = rate.ends
    told = f"{100 * rate.value:.0f} %"
    return told if ends is None else f"{told} [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]"


def _db(value: Estimate) -> str:
    ends = value.ends
    told = f"{value.value:.1f} dB"
    return told if ends is None else f"{told} [{ends[0]:.1f}, {ends[1]:.1f}]"
