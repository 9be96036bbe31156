"""Whether each control keeps what is asked of it beside the reference control, by paired intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .formatting import apart, ends, number
from .metrics import JUDGED, METRICS
from .report import Row, Verdict

Outcome = Literal["holds", "does not hold", "cannot tell"]
NO_WORSE, WITHIN = "control error no worse than {}'s", "Fréchet distance within 1 % of {}'s"
MOST_RATIO = 1.01
WORST_FIRST: tuple[Outcome, ...] = ("does not hold", "cannot tell", "holds")


def verdicts_of(rows: Sequence[Row], reference: str | None, condition: str) -> tuple[Verdict, ...]:
    """Two verdicts on each control beside the reference; none without one."""
    label = next((row.label for row in rows if row.name == reference), None)
    if label is None:
        return ()
    found = []
    for row in rows:
        if row.role == "control" and row.name != reference:
            for claim, (outcome, why) in ((NO_WORSE, _control_error(row, condition)), (WITHIN, _distance(row))):
                found.append(Verdict(row=row.name, claim=claim.format(label), outcome=outcome, why=why))
    return tuple(found)


def decide(low: float | None, high: float | None, most: float) -> Outcome:
    """Whether a number is at most `most`, by its interval.

    Example:
        >>> decide(-0.2, 0.0, 0.0), decide(0.1, 0.3, 0.0), decide(-0.1, 0.2, 0.0), decide(None, None, 0.0)
        ('holds', 'does not hold', 'cannot tell', 'cannot tell')
    """
    if low is None or high is None:
        return "cannot tell"
    return "holds" if high <= most else "does not hold" if low > most else "cannot tell"


def _control_error(row: Row, condition: str) -> tuple[Outcome, str]:
    """Every number of `JUDGED` must hold; one that does not hold decides."""
    outcomes, reasons = set[Outcome](), list[str]()
    for name in JUDGED.get(condition, ()):
        item, metric = row.measures.get(name), METRICS[name]
        gap = None if item is None else item.difference
        if gap is None:
            outcomes.add("cannot tell")
            reasons.append(f"{metric.label}: {row.missing.get(name, 'no picture counts in both')}")
            continue
        worse = (gap.low, gap.high) if metric.better == "lower" else (_minus(gap.high), _minus(gap.low))
        outcomes.add(decide(*worse, 0.0))
        reasons.append(f"{metric.label} {apart(gap, metric)}{' points' if metric.percent else ''}")
    if not outcomes:
        return "cannot tell", f"there is no control error for the condition {condition}"
    return next(one for one in WORST_FIRST if one in outcomes), "; ".join(reasons)


def _distance(row: Row) -> tuple[Outcome, str]:
    item = row.measures.get("frechet_ratio")
    if item is not None:
        metric = METRICS["frechet_ratio"]
        return decide(item.low, item.high, MOST_RATIO), f"ratio {number(item, metric)} ({ends(item, metric)})"
    return "cannot tell", row.missing.get("frechet_ratio", "no Fréchet distance")


def _minus(value: float | None) -> float | None:
    return None if value is None else -value
