"""The audit report, ``unplug-audit/1``: numbers with intervals, the oracle's for each, raw scores
kept.

What later versions measure stands in optional fields, so that older reports stay readable.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, one_line, write_json
from unplug.export import CodeChange
from unplug.sdk.evidence.statistics import Estimate as Estimate

from .findings import PersonRow as PersonRow
from .findings import Standing as Standing
from .findings import Threat as Threat
from .findings import Usage as Usage
from .findings import Vulnerable as Vulnerable

SCHEMA: Literal["unplug-audit/1"] = "unplug-audit/1"
Role = Literal["original", "unlearned", "retrained", "artifact"]
RoundingOutcome = Literal[
    "nothing back", "part back", "easier to attack", "further away", "not run", "open"
]

KEPT_MARGIN = 0.05
"""An edit of which at least 95 % of the distance is left counts as untouched."""

SWITCHED_OFF = "it was switched off"
"""Why rounding was not measured, where nobody asked for it."""

EQUALITY_SHOWS = (
    "none was made: every weight is that of a model computed without the forgotten, and no attack "
    "could add to that"
)
"""Why there are no attacks where an exact release needs none."""

EQUIVALENCE = 0.10
"""AUC: an attack whose interval of the difference to the oracle's lies within this on both sides
counts as equal to it.
"""

NEVER_SAW = "never saw them"
"""Name of a `FleetPredictor`."""


def called(name: str, member: str | None) -> str:
    """The name of a model in a report; of a member of a family with the member's in it.

    Example:
        >>> called("unlearned", None), called("unlearned", "nano")
        ('unlearned', 'unlearned/members/nano')
    """
    return name if member is None else f"{name}/members/{member}"


Against = Literal["equal", "above", "below", "open"]


def against(gap: Estimate | None, too_few: str | None = None) -> Against:
    """What the interval of an attack's difference to the retrained model says.

    Args:
        gap: AUC minus the oracle's, by the interval that holds for all attacks at once.
        too_few: why the interval leaves out one side's people, or None.

    Returns:
        ``equal`` where both ends are within `EQUIVALENCE`, ``above`` or ``below`` where it leaves
        out zero, else ``open``.

    Example:
        >>> ends = ((-0.05, 0.06), (0.02, 0.3), (-0.4, -0.1), (-0.3, 0.4))
        >>> [against(Estimate(value=0.0, low=low, high=high)) for low, high in ends]
        ['equal', 'above', 'below', 'open']
    """
    if gap is None or gap.low is None or gap.high is None or too_few:
        return "open"
    if max(-gap.low, gap.high) <= EQUIVALENCE:
        return "equal"
    return "above" if gap.low > 0.0 else "below" if gap.high < 0.0 else "open"


AUC_MARGIN = 0.02
"""The release gate's limit for how far an attack on a file may differ from that on its checkpoint.
"""


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """Use of a model within one age group; null where the group is empty."""

    ages: str
    n: int
    accuracy: float | None
    mae: float | None


@dataclass(frozen=True, kw_only=True)
class ClassRow:
    """Use of a classifier on the samples of one class; null where there are none."""

    label: str
    n: int
    accuracy: float | None


@dataclass(frozen=True, kw_only=True)
class SubjectRows:
    """Use of a model per subject, where subjects are known."""

    subjects: int
    mean_mae: float
    worst: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Utility:
    """Use of a model on one set; models without ages have no `mae` and no `per_group`, but
    `loss_interval`; classifiers `accuracy` too, the share of `wrong` answers and `per_class`.
    """

    n: int
    accuracy: Estimate | None
    mae: Estimate | None = None
    loss: float
    per_group: tuple[GroupRow, ...] = ()
    per_subject: SubjectRows | None = None
    loss_interval: Estimate | None = None
    wrong: Estimate | None = None
    per_class: tuple[ClassRow, ...] = ()

    @property
    def error(self) -> Estimate:
        """What a release must not worsen: mean absolute error in years, the share of wrong answers
        of a classifier, or the loss of a model that has neither.
        """
        return self.mae or self.wrong or self.loss_interval or Estimate(value=self.loss)


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """One attack on one model, forget against unseen.

    Args:
        auc: area under the ROC.
        minus_retrained: AUC minus the oracle's, paired; null for the oracle itself.
        threshold_accuracy: balanced, cross-validated; null where a side has under ten samples.
        tpr: true-positive rate per false-positive rate; null where the sample is too small to say.
        forget_scores, unseen_scores: raw, a higher score means "member"; empty in what was
            published.
        tpr_interval: the same rates with their intervals.
        tpr_missing: why a rate is null.
        minus_retrained_together: `minus_retrained`, with intervals that hold for all attacks at
            once; alarms go by it.
    """

    auc: Estimate
    minus_retrained: Estimate | None
    threshold_accuracy: float | None
    tpr: dict[str, float | None]
    forget_scores: tuple[float, ...]
    unseen_scores: tuple[float, ...]
    tpr_interval: dict[str, Estimate] = field(default_factory=dict)
    tpr_missing: dict[str, str] = field(default_factory=dict)
    minus_retrained_together: Estimate | None = None

    @property
    def gap(self) -> Estimate | None:
        """AUC minus the oracle's, as it is shown and judged everywhere: by the interval that holds
        for all attacks at once.

        Older audits have one for each alone.
        """
        return self.minus_retrained_together or self.minus_retrained


@dataclass(frozen=True, kw_only=True)
class RetainPrivacy:
    """AUC of retain against unseen, by the model's confidence in the truth; null without an
    original or an oracle.
    """

    auc: Estimate
    original: Estimate | None
    retrained: Estimate | None
    minus_original: Estimate | None
    minus_retrained: Estimate | None
    samples: int


@dataclass(frozen=True, kw_only=True)
class WorstSubject:
    """The subject that stands out most, compared with the maximum that chance gives; whose it is
    stays out of the report.

    Args:
        value: the largest standardized statistic over subjects.
        null_low, null_high: 95 % of that maximum where membership plays no part.
        p_value: the p-value of the maximum.
        auc: the AUC of that subject's samples against unseen.
        subjects: the number of subjects that were compared.
        samples: the number of this subject's samples.
    """

    value: float
    null_low: float
    null_high: float
    p_value: float
    auc: float
    subjects: int
    samples: int


@dataclass(frozen=True, kw_only=True)
class Relearning:
    """Sample passes of fine-tuning on the forget set until its loss is the original's
    (`target_loss`) again, a run each.

    Null for a run that was stopped; then there is no `mean` with its interval over runs, but a
    `reason`.
    """

    passes: tuple[int | None, ...]
    mean: Estimate | None = None
    target_loss: float | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelAudit:
    """All that was measured on one model or artifact.

    Args:
        name: how the report calls it.
        role: the kind of model.
        sha256: the SHA-256 of the weights or of the exported file.
        target, precision: the form of an artifact, else null.
        utility: the utility for each set (retain, forget, test).
        attacks: the results for each attack.
        distance: mean |expected age - the oracle's| in years (for models without ages: of the loss)
            on forget and test; null for the oracle.
        logistic_accuracy: the accuracy of a logistic regression on the loss, forget against unseen;
            0.5 is guessing.
        retain_privacy: retain against unseen, compared with the original's and the oracle's; of
            what was unlearned.
        worst_subject: the worst subject by the loss attack.
        relearning: null unless it was asked for.
        people: every forgotten person, in the order of the forget set; empty without references
            that left people out.
        usage: shares of the forget and the retain set that it still uses, compared with the
            original; null without one.
        vulnerable: those whom models remember most; null without a fleet.
        further: attacks of a release that read more than the sets of the split, with intervals that
            hold for all of *these* at once; they are held to no equivalence.
        member: the member of a family that it is of; null of a reference, and of what stands alone.
    """

    name: str
    role: Role
    sha256: str
    utility: dict[str, Utility]
    attacks: dict[str, AttackResult]
    distance: dict[str, Estimate] | None = None
    target: str | None = None
    precision: str | None = None
    logistic_accuracy: Estimate | None = None
    retain_privacy: RetainPrivacy | None = None
    worst_subject: WorstSubject | None = None
    relearning: Relearning | None = None
    people: tuple[PersonRow, ...] = ()
    usage: Usage | None = None
    vulnerable: Vulnerable | None = None
    further: dict[str, AttackResult] = field(default_factory=dict)
    member: str | None = None

    def published(self) -> ModelAudit:
        """The record without scores of samples, use on the sets that forgetting changed, and single
        people.
        """
        attacks, further = (
            {
                name: replace(attack, forget_scores=(), unseen_scores=())
                for name, attack in results.items()
            }
            for results in (self.attacks, self.further)
        )
        return replace(
            self,
            utility={name: use for name, use in self.utility.items() if name == "test"},
            attacks=attacks,
            further=further,
            worst_subject=None,
            people=(),
        )

    @property
    def most_standing_out(self) -> tuple[PersonRow, float] | None:
        """The person with the smallest p, and that p times the number of people (Bonferroni); None
        without people.
        """
        if not self.people:
            return None
        first = min(self.people, key=lambda row: row.p_value)
        return first, min(1.0, len(self.people) * first.p_value)


@dataclass(frozen=True, kw_only=True)
class OutputDistance:
    """How far apart the outputs of two models are, mean over samples.

    Args:
        years: |expected age - the other's|; null for models without ages.
        answers: |loss - the other's| of such models, or the true class's probability of classifiers.
        variation: total variation between the two distributions over age groups, 0 to 1; for models
            without groups
            |exp(-loss) - the other's|.
    """

    years: Estimate | None = None
    answers: Estimate | None = None
    variation: Estimate

    @property
    def moved(self) -> Estimate | None:
        """How far the answers are apart, in the model's own unit."""
        return self.years or self.answers


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """How much of the edit export and rounding left in one file, compared with the original's own
    export.

    Args:
        model, sha256, target, precision: the file.
        original_sha256: the hash of the original's export in the same form.
        original_given: it was given; else it was made for this audit.
        codes: stored numbers that differ from the original's export; null where they could not be
            read.
        retrained_codes: the same of the oracle's export.
        distance: outputs from the original's export's, on forget and test; empty where the file
            cannot run here.
        retrained: the same of the oracle's export; empty without one.
        checkpoint: the unlearned checkpoint's outputs from the original checkpoint's: the edit
            before rounding.
        kept: distance over checkpoint, total variation on the forget set: 1 is an edit that
            rounding left as it was.
        minus_retrained: distance minus the oracle's export's, total variation on the forget set,
            paired.
        auc_shift: AUC on the file minus on its checkpoint, an attack; paired.
        notes: values that were not measured, each with the reason.
    """

    model: str
    sha256: str
    target: str
    precision: str
    original_sha256: str
    original_given: bool
    codes: CodeChange | None
    retrained_codes: CodeChange | None
    distance: dict[str, OutputDistance]
    retrained: dict[str, OutputDistance]
    checkpoint: dict[str, OutputDistance]
    kept: Estimate | None
    minus_retrained: Estimate | None
    auc_shift: dict[str, Estimate]
    notes: tuple[str, ...]

    @property
    def outcome(self) -> RoundingOutcome:
        """What the numbers come to; "nothing back" only where whole intervals say so. Never stored
        next to them.
        """
        if not self.distance:
            return "not run"
        if any(
            shift.low is not None and shift.low > AUC_MARGIN for shift in self.auc_shift.values()
        ):
            return "easier to attack"
        kept = self.kept
        if kept is None or kept.low is None or kept.high is None:
            return "open"
        if kept.high < 1 - KEPT_MARGIN or kept.low < 1 - KEPT_MARGIN <= kept.high < 1:
            return "part back"
        if kept.low > 1 + KEPT_MARGIN:
            return "further away"
        settled = bool(self.auc_shift) and all(
            shift.high is not None and shift.high <= AUC_MARGIN for shift in self.auc_shift.values()
        )
        return "nothing back" if kept.low >= 1 - KEPT_MARGIN and settled else "open"

    def sentence(self) -> str:
        """The outcome with its numbers, for a reader."""
        kept = self.kept
        outcome = self.outcome
        if outcome == "not run":
            return "This file was not run here, so only its stored numbers were compared."
        if outcome == "easier to attack":
            name, shift = max(self.auc_shift.items(), key=lambda pair: pair[1].value)
            rose = f"the AUC of the {name[:30]} attack rose by {_spread(shift, 3)}"
            return f"Rounding made the forget set easier to recognize: {rose}."
        if kept is None:
            return (
                "What rounding did to the edit cannot be told: there is nothing unrounded to "
                "compare with."
            )
        share = f"it kept {_percent(kept)} of the edit"
        if outcome == "part back":
            return f"Rounding brought part of the original back: {share}."
        if outcome == "further away":
            return f"Rounding moved this file further from the original: {share}."
        if outcome == "nothing back":
            top = max(shift.high or 0.0 for shift in self.auc_shift.values())
            step = "Export" if self.precision == "fp32" else "Quantization"
            return (
                f"{step} brought nothing back: {share}, and no attack gained more than "
                f"{max(top, 0.0):.3f} AUC."
            )
        why = (
            "too few subjects for an interval" if kept.low is None else "the intervals are too wide"
        )
        return f"Whether rounding brought something back is open ({why}): {share}."


def _percent(item: Estimate) -> str:
    if item.low is None or item.high is None:
        return f"{100 * item.value:.0f} %"
    return f"{100 * item.value:.0f} % ({100 * item.low:.0f} to {100 * item.high:.0f} %)"


def _spread(item: Estimate, digits: int) -> str:
    if item.low is None or item.high is None:
        return f"{item.value:.{digits}f}"
    return f"{item.value:.{digits}f} ({item.low:.{digits}f} to {item.high:.{digits}f})"


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """Something a reader must not miss."""

    kind: Literal["over-forgetting", "not-forgotten"]
    model: str
    message: str


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """``unplug-audit/1``: every model under every attack, with intervals and what was skipped."""

    __pydantic_config__: ClassVar = STRICT

    data: dict[str, Any]
    forget: dict[str, Any]
    models: tuple[ModelAudit, ...]
    oracle_band: dict[str, tuple[float, ...]]
    skipped: dict[str, str]
    alarms: tuple[Alarm, ...]
    settings: dict[str, Any]
    versions: dict[str, str | None]
    rounding: tuple[Rounding, ...] = ()
    threats: tuple[Threat, ...] = ()
    schema: Literal["unplug-audit/1"] = SCHEMA

    __repr__ = one_line

    @property
    def too_few(self) -> str | None:
        """Why an interval of this audit leaves out one side's people, or None: then nothing counts
        as shown by it.
        """
        return self.skipped.get("forget interval") or self.skipped.get("unseen interval")

    def model(self, name: str) -> ModelAudit:
        """The audit of one model by its name, or the first of a role."""
        return next(
            item for by in ("name", "role") for item in self.models if getattr(item, by) == name
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as ``unplug-audit/1``, ready for JSON; of ages it says nothing where a model
        has none.
        """
        raw = asdict(self)
        uses = [use for model in raw["models"] for use in model["utility"].values()]
        parts = [
            row[part] for row in raw["rounding"] for part in ("distance", "retrained", "checkpoint")
        ]
        for named in (*uses, *(found for part in parts for found in part.values())):
            for name in ("mae", "per_group", "years", "answers"):
                if name in named and not named[name]:
                    del named[name]
        return raw

    def published(self) -> AuditReport:
        """What a bundle holds: nothing by which who has somebody's picture and the file could try
        out whether she is meant.

        Left out are the score of every sample, the use on the sets that forgetting changed, and the
        numbers of single people.
        """
        data = {name: value for name, value in self.data.items() if name != "spec"}
        # the spec is a path of the machine that trained
        return replace(self, data=data, models=tuple(model.published() for model in self.models))

    def save(self, path: Path) -> None:
        """Writes the report, its owner's alone, atomically; `OutputError` where the place cannot be
        written.
        """
        write_json(path, self.to_dict(), private=True)
