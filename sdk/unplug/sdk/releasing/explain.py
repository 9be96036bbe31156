"""Why a release passed or not: each gate, what it asks, its limit and where that comes from, and what was found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields

from unplug.sdk.bundle import CERTIFIED, EXACT, RANKED, Gate

from .gates import EQUAL, STANDS_OUT, Gates


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One gate.

    Args:
        gate: its name.
        asks: what must be so, in one sentence.
        limit: what its value is held to.
        source: where the limit comes from.
        outcome: what was found, and what follows from it.
    """

    gate: str
    asks: str
    limit: str
    source: str
    outcome: str


FIXED = {
    EXACT: ("Every weight is that of a refit without them", f"fixed: weights that differ by {EQUAL:g} are equal"),
    RANKED: ("Nobody of the request stands out among models that never saw her", f"fixed: p below {STANDS_OUT:g} stands out"),
    "parity": ("Outputs of every file are the checkpoint's, within their tolerance", "fixed: none may be outside"),
    "bench": ("Every file runs on this machine and finishes its work", "fixed: no row may be refused"),
    "worst person": ("Whoever stands out most stands out no more than by chance", "the end of her own null distribution"),
}  # fmt: skip
"""Gates whose limit nobody sets: what they ask, and where the limit comes from."""
SET = (
    (CERTIFIED, "min(max_auc_above_retrained, max_auc_below_retrained)", "The method leaves next to nothing of as many others"),
    ("forgotten (", "max_auc_above_retrained", "The attack does no better on this model than on the retrained one"),
    ("not over-forgotten (", "max_auc_below_retrained", "It does no worse either: over-forgetting leaks too"),
    ("accuracy (retain)", "max_accuracy_below_retrained", "Those who stay keep their accuracy"),
    ("utility", "max_mae_above_retrained", "The model is of as much use as before"),
    ("budget", "max_compute", "The forget step is cheap beside a retraining"),
    ("audit on artifacts", "max_artifact_auc_shift", "An exported file leaks as little as the checkpoint"),
    ("decision (calibration", "max_calibration_shift", "Forgetting left the probabilities as right as they were"),
    ("decision (worst group", "max_group_shift", "In no group forgetting changed how many minors are called over"),
    ("decision (files", "allow_not_run", "The decision was tried on every file"),
    ("decision (", "max_decision_shift", "Forgetting did not move the decision"),
    ("decision, rounding (calibration", "max_calibration_shift", "Rounding left the probabilities as right as they were"),
    ("decision, rounding (worst group", "max_group_shift", "In no group rounding changed how many minors are called over"),
    ("decision, rounding (", "max_decision_shift", "Rounding did not move the decision"),
    ("rounding", "min_edit_kept", "Export brought nothing back that was forgotten"),
    ("relearn time", "min_relearn_of_retrained", "Relearning them takes as long as it takes the retrained model"),
    ("host latency", "max_host_latency_ms", "Every file is as fast on this machine as was asked for"),
)
"""Beginning of a gate's name, the field of `Gates` that is its limit, and what it asks."""


def explain_gates(gates: Sequence[Gate], limits: Gates, given: Collection[str] = ()) -> tuple[Explanation, ...]:
    """One explanation a gate, in the order in which they were judged.

    Args:
        gates: as they were judged.
        limits: that they were held to.
        given: fields of `Gates` that the user set.
    """
    return tuple(_explained(gate, limits, given) for gate in gates)


def _explained(gate: Gate, limits: Gates, given: Collection[str]) -> Explanation:
    value = "nothing was measured" if gate.value is None else f"found {gate.value:.4g}"
    word = "it holds" if gate.passed else "too little is known to say" if gate.inconclusive else "it does not hold"
    after = "" if gate.passed else "; nothing ships" if gate.override is None else f"; overridden: {gate.override}"
    asks, source = _asked(gate, limits, given)
    return Explanation(
        gate=gate.name, asks=asks, limit=f"{gate.comparison} {gate.limit:g}{gate.unit}", source=source,
        outcome=f"{value}: {word}{after} ({gate.detail})",
    )  # fmt: skip


def _asked(gate: Gate, limits: Gates, given: Collection[str]) -> tuple[str, str]:
    if gate.name in FIXED:
        return FIXED[gate.name]
    for beginning, field, asks in SET:
        if gate.name.startswith(beginning):
            if gate.name.startswith("utility") and "loss above" in gate.unit:
                field = "max_loss_above_retrained"
            return asks, _source(field, limits, given)
    return "", "of a gate of its own"


def _source(field: str, limits: Gates, given: Collection[str]) -> str:
    """Where a threshold comes from: the command, or a default."""
    if field not in {item.name for item in fields(Gates)}:
        return field
    if field in given:
        return f"--gate {field}={getattr(limits, field):g}"
    return "--budget" if field == "max_compute" else f"the default of {field}"
