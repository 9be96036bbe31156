"""Gates on a decision: neither forgetting nor rounding moved it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from unplug.sdk.evidence import assurance, statistics
from unplug.trust.bundle import Gate

from .evidence import ReleaseEvidence
from .gate import Counts, Foreseen, Question, Rule
from .gates_files import MayNotRun

FORGETTING, ROUNDING = "decision", "decision, rounding"
RATES = {
    "false positives": " change in minors called over",
    "false negatives": " change in adults called under",
}
NOT_RUN = Question(
    name="decision (files not run)",
    asks="The decision was tried on every file",
    limit="allow_not_run",
    unit=" files",
)


def _asked(step: str, by: str) -> dict[str, Question]:
    """What is asked of one step, by what it might have moved."""
    rates = {
        what: Question(
            name=f"{step} ({what})",
            asks=f"{by} did not move the decision",
            limit="max_decision_shift",
            unit=unit,
        )
        for what, unit in RATES.items()
    }
    calibration = Question(
        name=f"{step} (calibration)",
        asks=f"{by} left the probabilities as right as they were",
        limit="max_calibration_shift",
        unit=" change of the calibration error",
    )
    group = Question(
        name=f"{step} (worst group)",
        asks=f"In no group {by.lower()} changed how many minors are called over",
        limit="max_group_shift",
        unit=" change in its minors called over",
    )
    return {**rates, "calibration": calibration, "worst group": group}


STEPS = {FORGETTING: _asked(FORGETTING, "Forgetting"), ROUNDING: _asked(ROUNDING, "Rounding")}


@dataclass(frozen=True, kw_only=True)
class DecisionStays(MayNotRun, Rule):
    """Neither forgetting nor rounding moved the decision: both ends of each interval are within its
    margin.

    Each is shown by itself (an intersection of equivalences needs no correction for their number).
    Groups with too few minors to show anything within the margin are named, and not judged.

    Args:
        max_decision_shift: how far forgetting, and then rounding, may change the share of minors
            called over and of adults called under, where a decision is given; both ends of the
            interval are held to it.
        max_group_shift: the same for the minors of each group, where the decision holds by group.
        max_calibration_shift: how far they may change the calibration error of P(age >= T).
    """

    max_decision_shift: float = 0.02
    max_group_shift: float = 0.05
    max_calibration_shift: float = 0.02

    questions: ClassVar[tuple[Question, ...]] = (
        *STEPS[FORGETTING].values(),
        *STEPS[ROUNDING].values(),
        NOT_RUN,
    )

    def foresee(self, counts: Counts) -> Iterator[Foreseen]:
        """Fewer minors or adults than it takes to show that none of them moved."""
        needed = assurance.people_for(self.max_decision_shift)
        for what, side in zip(RATES, counts.sides or (), strict=False):
            if side < needed:
                word = "minors" if what == "false positives" else "adults"
                why = (
                    f"{needed} are needed to show a change of at most {self.max_decision_shift:g}, "
                    "even where nobody changed"
                )
                fix = "Give more people with `decision_data`, or `gates` max_decision_shift"
                yield Foreseen(
                    asked=STEPS[FORGETTING][what], what=f"{side} {word}", why=why, fix=fix
                )

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """Judges each step; no gate where no decision is given."""
        if (decided := evidence.decided) is None:
            return
        yield from self._step(STEPS[FORGETTING], [decided.forgetting, *decided.members])
        if decided.rounding:
            yield from self._step(STEPS[ROUNDING], decided.rounding)
        if decided.not_run and not self.allow_not_run:
            detail = "; ".join(f"{name}: {why}" for name, why in decided.not_run.items())
            yield NOT_RUN.judged(float(len(decided.not_run)), 0.0, detail, inconclusive=True)

    def _step(
        self, asked: dict[str, Question], shifts: Sequence[assurance.Shift]
    ) -> Iterator[Gate]:
        limits = dict.fromkeys(RATES, self.max_decision_shift) | {
            "calibration": self.max_calibration_shift
        }
        for what, limit in limits.items():
            changes = [(getattr(item, what.replace(" ", "_")), item.name) for item in shifts]
            change, name = max(changes, key=lambda pair: _end(pair[0]))
            yield _held(asked[what], change, limit, f"{name}: {_span(change)}")
        yield from self._groups(asked["worst group"], shifts)

    def _groups(self, asked: Question, shifts: Sequence[assurance.Shift]) -> Iterator[Gate]:
        needed = assurance.people_for(self.max_group_shift)
        judged = [
            (group.change, group, shift)
            for shift in shifts
            for group in shift.groups
            if group.people >= needed
        ]
        small = sorted(
            {group.name for shift in shifts for group in shift.groups if group.people < needed}
        )
        beside = f"not judged, fewer than {needed} minors: {', '.join(small)}"
        if not judged:
            if small:
                yield asked.judged(None, self.max_group_shift, beside, inconclusive=True)
            return
        change, group, shift = max(judged, key=lambda row: _end(row[0]))
        before, after = shift.gap or (0.0, 0.0)
        detail = (
            f"{shift.name}: {group.name} {_span(change)}; gap between groups {before:.3f} to "
            f"{after:.3f}"
        )
        yield _held(asked, change, self.max_group_shift, f"{detail}; {beside}" if small else detail)


def _held(asked: Question, change: statistics.Estimate, limit: float, detail: str) -> Gate:
    seen = (change.low or 0.0) > 0.0 or (change.high or 0.0) < 0.0
    return asked.judged(_end(change), limit, detail, inconclusive=not seen)


def _end(change: statistics.Estimate) -> float:
    """The end of the interval that is farther from no change."""
    return max(abs(change.value if end is None else end) for end in (change.low, change.high))


def _span(change: statistics.Estimate) -> str:
    ends = (
        ""
        if change.low is None or change.high is None
        else f" ({change.low:+.4f} to {change.high:+.4f})"
    )
    return f"{change.value:+.4f}{ends}"
