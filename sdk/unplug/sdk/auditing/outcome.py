"""What the rounding numbers say, in plain words; computed from a report's numbers, never stored beside them."""

from __future__ import annotations

from typing import Literal

from .report import Estimate, Rounding

Outcome = Literal["nothing back", "part back", "easier to attack", "further away", "not run", "open"]

KEPT_MARGIN = 0.05
"""An edit of which at least 95 % of the distance is left counts as untouched."""

AUC_MARGIN = 0.02
"""The release gate's limit for how far an attack on a file may differ from that on its checkpoint."""


def rounding_outcome(row: Rounding) -> Outcome:
    """One word for one file; "nothing back" only where whole intervals say so."""
    if not row.distance:
        return "not run"
    if any(shift.low is not None and shift.low > AUC_MARGIN for shift in row.auc_shift.values()):
        return "easier to attack"
    kept = row.kept
    if kept is None or kept.low is None or kept.high is None:
        return "open"
    if kept.high < 1 - KEPT_MARGIN or kept.low < 1 - KEPT_MARGIN <= kept.high < 1:
        return "part back"
    if kept.low > 1 + KEPT_MARGIN:
        return "further away"
    settled = bool(row.auc_shift) and all(
        shift.high is not None and shift.high <= AUC_MARGIN for shift in row.auc_shift.values()
    )
    return "nothing back" if kept.low >= 1 - KEPT_MARGIN and settled else "open"


def rounding_sentence(row: Rounding) -> str:
    """The outcome with its numbers."""
    kept = row.kept
    outcome = rounding_outcome(row)
    if outcome == "not run":
        return "This file was not run here, so only its stored numbers were compared."
    if outcome == "easier to attack":
        name, shift = max(row.auc_shift.items(), key=lambda pair: pair[1].value)
        return (
            f"Rounding made the forget set easier to recognize: the AUC of the {name[:30]} attack rose by {_spread(shift, 3)}."
        )
    if kept is None:
        return "What rounding did to the edit cannot be told: there is nothing unrounded to compare with."
    far = (
        f"on the forget set its outputs are {_spread(kept, 2)} times as far from the original's export as the checkpoint's are "
        "from the original's"
    )
    if outcome == "part back" and kept.low is not None and kept.high is not None:
        back = f"{100 * (1 - kept.value):.0f} % ({100 * (1 - kept.high):.0f} to {100 * (1 - kept.low):.0f} %)"
        return f"Rounding brought part of the original back: {back} of the edit is gone; {far}."
    if outcome == "further away":
        return f"Rounding moved this file further from the original: {far}."
    if outcome == "nothing back":
        top = max(shift.high or 0.0 for shift in row.auc_shift.values())
        step = "Export" if row.precision == "fp32" else "Quantization"
        return f"{step} brought nothing back: {far}, and no attack gained more than {max(top, 0.0):.3f} AUC."
    why = "too few subjects for an interval" if kept.low is None else "the intervals are too wide"
    return f"Whether rounding brought something back is open ({why}): {far}."


def _spread(item: Estimate, digits: int) -> str:
    if item.low is None or item.high is None:
        return f"{item.value:.{digits}f}"
    return f"{item.value:.{digits}f} ({item.low:.{digits}f} to {item.high:.{digits}f})"
