"""All gates of a release: what must hold before a bundle is written, and why a release passed or
not.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from unplug.core import InputError
from unplug.sdk.evidence import auditing
from unplug.trust.bundle import Gate

from .evidence import ReleaseEvidence
from .gate import Question, Rule
from .gates_decision import DecisionStays
from .gates_files import EditKept, FilesAgree, FilesLeakNoMore, FilesRun
from .gates_forgetting import (
    Equality,
    ForgetCostLimit,
    FurtherAttacks,
    RelearnTimeLimit,
    Unrecognised,
)
from .gates_use import StillOfUse


@dataclass(frozen=True, kw_only=True)
class Gates(
    Equality,
    Unrecognised,
    FurtherAttacks,
    StillOfUse,
    RelearnTimeLimit,
    EditKept,
    ForgetCostLimit,
    FilesAgree,
    FilesLeakNoMore,
    DecisionStays,
    FilesRun,
):
    """The thresholds of a release; its bases are the list of gates, in the order in which they are
    judged.
    """

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """Every gate of a release.

        An exact design is held to equality, where attacks would only show what they can see.
        """
        for rule in RULES:
            yield from rule.judge(self, evidence)


RULES: tuple[type[Rule], ...] = Gates.__bases__
QUESTIONS: dict[str, Question] = {}
"""By the name of the gate; of several about one thing the first."""
for _rule in RULES:
    for _question in _rule.questions:
        QUESTIONS.setdefault(_question.name.format("ATTACK"), _question)
THRESHOLDS = tuple(sorted(item.name for item in fields(Gates)))
OF_A_DECISION = frozenset(item.name for item in fields(DecisionStays)) - {
    item.name for item in fields(FilesAgree)
}
"""Thresholds that mean nothing where no decision is given."""
OF_AN_AUDIT = (Unrecognised, FurtherAttacks, StillOfUse)


def forgetting_gates(
    gates: Gates, report: auditing.AuditReport, certified: auditing.Certification | None = None
) -> list[Gate]:
    """The gates that an audit alone can tell of: nobody is told from strangers, and the model is of
    use as before.
    """
    evidence = ReleaseEvidence(results={"audit": report, "certified": certified})
    return [gate for rule in OF_AN_AUDIT for gate in rule.judge(gates, evidence)]


def gates_from(given: Mapping[str, Any], budget: float, *, decision: bool = True) -> Gates:
    """Gates with these thresholds, numbers or text (``max_mae_above_retrained=0.5``); the budget is
    a gate as well.

    Raises:
        InputError: an unknown gate, a value that is not a number, or a gate of a decision where
            there is none.
    """
    values: dict[str, Any] = {"max_compute": budget}
    for key, value in given.items():
        if key not in THRESHOLDS:
            raise InputError(f"`gates` {key}", "no such gate", f"Known: {', '.join(THRESHOLDS)}")
        read = _switch if isinstance(getattr(Gates, key), bool) else _number
        values[key] = read(key, value) if isinstance(value, str) else value
    if not decision and (asked := sorted(given.keys() & OF_A_DECISION)):
        fix = "Add `decision` FILE, or leave it out"
        raise InputError(f"`gates` {asked[0]}", "there is no decision to compare", fix)
    return Gates(**values)


def _switch(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InputError(f"`gates` {key}={text}", "neither true nor false", "Write true or false")
    return text.lower() == "true"


def _number(key: str, text: str) -> float:
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise InputError(
        f"`gates` {key}={text}", "not a number", "Write for example max_mae_above_retrained=0.5"
    )


@dataclass(frozen=True, kw_only=True)
class GateExplanation:
    """One gate.

    Args:
        gate: its name.
        asks: the condition, in one sentence.
        limit: the limit.
        source: the source of the limit.
        outcome: the finding, and its consequence.
    """

    gate: str
    asks: str
    limit: str
    source: str
    outcome: str


def explain_gates(
    gates: Sequence[Gate], limits: Gates, given: Collection[str] = ()
) -> tuple[GateExplanation, ...]:
    """One explanation a gate, in the order in which they were judged.

    Args:
        gates: the gates in the order in which they were judged.
        limits: the limits that they were held to.
        given: fields of `Gates` that the user set.
    """
    return tuple(_explained(gate, limits, given) for gate in gates)


def _explained(gate: Gate, limits: Gates, given: Collection[str]) -> GateExplanation:
    value = "nothing was measured" if gate.value is None else f"found {gate.value:.4g}"
    word, after = "it holds", ""
    if not gate.passed:
        word = "too little is known to say" if gate.inconclusive else "it does not hold"
        reason = gate.override
        after = "; nothing ships" if reason is None else f"; overridden: {reason}"
    asked = next((item for rule in RULES for item in rule.questions if item.is_of(gate)), None)
    return GateExplanation(
        gate=gate.name,
        asks="" if asked is None else asked.asks,
        limit=f"{gate.comparison} {gate.limit:g}{gate.unit}",
        source="of a gate of its own" if asked is None else _source(asked.limit, limits, given),
        outcome=f"{value}: {word}{after} ({gate.detail})",
    )


def _source(limit: str, limits: Gates, given: Collection[str]) -> str:
    """Where a threshold comes from: what the user gave, or a default."""
    if limit not in THRESHOLDS:
        return limit
    if limit in given:
        return f"`gates` {limit}={getattr(limits, limit):g}"
    return "`budget`" if limit == "max_compute" else f"the default of {limit}"
