"""Gates on what forgetting cost those who stay: error, loss and accuracy compared with the
oracle's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from unplug.sdk.evidence.auditing import Utility
from unplug.trust.bundle import Gate

from .evidence import ReleaseEvidence
from .gate import Question, Rule

ASKS = "The model is of as much use as before"
NAMES = {"test": "utility", "retain": "utility (retain)"}
YEARS = {
    part: Question(name=name, asks=ASKS, limit="max_mae_above_retrained", unit=" years above {}")
    for part, name in NAMES.items()
}
LOSS = {
    part: Question(
        name=name, asks=ASKS, limit="max_loss_above_retrained", unit=" of {} loss above it"
    )
    for part, name in NAMES.items()
}
RIGHT = {
    part: Question(name=name, asks=ASKS, limit="max_accuracy_below_retrained", unit=" below {}")
    for part, name in NAMES.items()
}
"""The use of a classifier, which is how often it is right."""
ACCURACY = replace(
    RIGHT["retain"], name="accuracy (retain)", asks="Those who stay keep their accuracy"
)


@dataclass(frozen=True, kw_only=True)
class StillOfUse(Rule):
    """The model is of use as before, on people whom it never saw and on those who stay.

    Use is compared with the oracle's; where models of a fleet stand in its place, which were
    trained on fewer people, with the original's: nobody who stays may notice.

    Args:
        max_mae_above_retrained: years of test error, and of error on the people who stay, that
            forgetting may cost over retraining.
        max_accuracy_below_retrained: share of the people who stay whose age group it may lose over
            retraining; of a classifier also of pictures that nobody was trained on.
        max_loss_above_retrained: the same for models without years or classes, as a fraction of the
            oracle's loss on test.
    """

    max_mae_above_retrained: float = 1.0
    max_accuracy_below_retrained: float = 0.10
    max_loss_above_retrained: float = 0.02

    questions: ClassVar[tuple[Question, ...]] = (
        *YEARS.values(),
        *LOSS.values(),
        *RIGHT.values(),
        ACCURACY,
    )

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """Error on both sets, and accuracy where there are groups."""
        if evidence.equal:
            return
        report, unlearned = evidence.audit, evidence.audit.model("unlearned")
        base, whose, short = report.model("retrained"), "the oracle's", "retrained"
        if base.sha256 == (report.settings.get("fleet") or {}).get("sha256"):
            base, whose, short = report.model("original"), "the original's", "the original"
        for part in ("test", "retain"):
            mine, theirs = unlearned.utility[part], base.utility[part]
            if mine.wrong is None:
                yield self._error(part, mine, theirs, whose, short)
            right, before = mine.accuracy, theirs.accuracy
            if (mine.wrong or part == "retain") and right and before:
                asked = RIGHT[part] if mine.wrong else ACCURACY
                detail = f"{part} accuracy {right.value:.3f}, {whose} {before.value:.3f}"
                limit = self.max_accuracy_below_retrained
                yield asked.judged(before.value - right.value, limit, detail, unit=short)

    def _error(self, part: str, mine: Utility, theirs: Utility, whose: str, short: str) -> Gate:
        """What forgetting cost on a set: years, or a share of the loss where there are no years."""
        if mine.mae is None or theirs.mae is None:
            cost = mine.loss / theirs.loss - 1.0
            detail = f"{part} loss {mine.loss:.4f}, {whose} {theirs.loss:.4f}"
            return LOSS[part].judged(cost, self.max_loss_above_retrained, detail, unit=whose)
        cost = mine.mae.value - theirs.mae.value
        detail = f"{part} MAE {mine.mae.value:.2f} years, {whose} {theirs.mae.value:.2f}"
        return YEARS[part].judged(cost, self.max_mae_above_retrained, detail, unit=short)
