"""Gates that the forget step must pass: nobody tells the forgotten from people whom no model saw,
at a small cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from unplug.core import counted
from unplug.sdk.evidence import auditing, statistics
from unplug.sdk.evidence.auditing import EQUIVALENCE, AttackResult, AuditReport, ModelAudit
from unplug.trust.bundle import ANEW, CERTIFIED, EXACT, RANKED, Gate

from .evidence import ReleaseEvidence
from .gate import Counts, Foreseen, Question, Rule

if TYPE_CHECKING:
    from torch import Tensor

    from unplug.plugins import Checkpoint

STANDS_OUT = 0.05
"""A person whose p is below it stands out."""
MISSING = 1e9
"""The difference of a weight that the refit lacks."""
HOLD_OUT = "Hold more people out: `unplug data split --test`, then train again"
QUANTILE, CORRELATION = 2.2, 0.8
"""See `least_width`."""
WIDENING = 1.15
"""As they are, intervals refused 7.5 % of models that never saw the people; so widened, 2.5 %
(docs/results/evidence.md).
"""

SAME_WEIGHTS = Question(
    name=EXACT,
    asks="Every weight is that of a refit without them",
    limit="fixed: no weight may differ",
    unit=" largest difference of a weight from a refit without them",
)
METHOD = Question(
    name=CERTIFIED,
    asks="The method leaves next to nothing of as many other people",
    limit="min(max_auc_above_retrained, max_auc_below_retrained)",
    unit=" AUC from models that never saw them, at most",
)
ABOVE = Question(
    name="forgotten ({})",
    asks="The attack does no better on this model than on the retrained one",
    limit="max_auc_above_retrained",
    unit=" AUC above retrained at most",
)
BELOW = Question(
    name="not over-forgotten ({})",
    asks="It does no worse either: over-forgetting leaks too",
    limit="max_auc_below_retrained",
    unit=" AUC below retrained at most",
)
PEOPLE = Question(
    name=RANKED,
    asks="No person of the request stands out among models that never saw that person",
    limit=f"fixed: p below {STANDS_OUT:g} stands out",
    unit=" p of the person who stands out most",
    comparison=">=",
)
WORST = Question(
    name="worst person",
    asks="The person who stands out most does so no more than by chance",
    limit="the end of her own null distribution",
    unit=" standard errors",
)
MORE = Question(
    name="further attacks",
    asks="No attack that reads more than the sets of the split surely tells the forgotten",
    limit="fixed: none may",
    unit=" attacks tell the forgotten from strangers",
)
RELEARN = Question(
    name="relearn time",
    asks="Relearning them takes as long as it takes the retrained model",
    limit="min_relearn_of_retrained",
    unit=" of the passes that the retrained model needs",
    comparison=">=",
)
COST = Question(
    name="budget",
    asks="The forget step is cheap compared with retraining",
    limit="max_compute",
    unit=" of retraining",
)


@dataclass(frozen=True, kw_only=True)
class Equality(Rule):
    """An exact design's gate: no weight differs from those of the same model computed without the
    forgotten.

    Where the original was trained elsewhere, both are trainings of ours, and the detail says so:
    nobody knows what its owner's own training would give without them.
    """

    questions: ClassVar[tuple[Question, ...]] = (SAME_WEIGHTS,)

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """The largest difference of any weight."""
        if not evidence.equal or evidence.retrained is None:
            return
        unlearned = evidence.unlearned
        mine, theirs = (_weights(model) for model in (unlearned, evidence.retrained))
        pairs = [(value, theirs.get(name)) for name, value in mine.items()]
        # a member that the refit lacks is not shown to be equal
        worst = max(
            MISSING if refit is None else float((value.double() - refit.double()).abs().max())
            for value, refit in pairs
        )
        same = sum(refit is not None and bool((value == refit).all()) for value, refit in pairs)
        elsewhere = "weights_sha256" in unlearned.record.get("adopted", {})
        says = (
            f"{ANEW}; no weight of the original is in it"
            if elsewhere
            else "no attack is needed to say so"
        )
        detail = f"{same} of {len(mine)} tensors are the same bit for bit; {says}"
        yield SAME_WEIGHTS.judged(worst, 0.0, detail)


def _weights(model: Checkpoint) -> dict[str, Tensor]:
    """All tensors, of a family those of every member."""
    from unplug.sdk.forgetting.unlearning import members_of

    family = {"": model} | {f"{name}/": item for name, item in members_of(model).items()}
    return {
        f"{name}{key}": value
        for name, item in family.items()
        for key, value in item.model.state_dict().items()
    }


@dataclass(frozen=True, kw_only=True)
class Unrecognised(Rule):
    """The unlearned model's attacks are equivalent to the oracle's, and nobody stands out.

    With a certification of the method forgetting rests on that, and on what this request itself
    shows: an attack that surely sees it, and a person who stands out among models that never saw
    her, still refuse it. Where people are ranked among such models, their p says whether somebody
    stands out, which assumes nothing; else the worst person's parametric null does.

    Args:
        max_auc_above_retrained: how far the AUC of an attack on the unlearned model may be above
            the oracle's. The upper end of the interval that holds for all attacks at once is held
            to it, so that too few people never pass.
        max_auc_below_retrained: how far it may be below (over-forgetting leaks too); the lower end
            is held to it.
        worst_person: the person who stands out most must stand out no more than chance has it;
            false leaves that open.
    """

    max_auc_above_retrained: float = EQUIVALENCE
    max_auc_below_retrained: float = EQUIVALENCE
    worst_person: bool = True

    questions: ClassVar[tuple[Question, ...]] = (METHOD, ABOVE, BELOW, PEOPLE, WORST)

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """Attacks, the method where it is certified, and people."""
        if evidence.equal:
            return
        report, unlearned = evidence.audit, evidence.audit.model("unlearned")
        attacks = [
            gate
            for name, attack in sorted(unlearned.attacks.items())
            for gate in self._equivalence(name, attack, report.too_few)
        ]
        if evidence.certified is not None:
            yield self._certified(evidence.certified)
            yield _people(unlearned, report)
            yield from (gate for gate in attacks if not gate.passed and not gate.inconclusive)
            return
        yield from attacks
        if self.worst_person and unlearned.people:
            yield _people(unlearned, report)
        elif self.worst_person:
            yield from _worst_person(unlearned, report)

    def foresee(self, counts: Counts) -> Iterator[Foreseen]:
        """Too few people for an interval, or for one within the margin; a certification that
        certifies nothing.
        """
        if counts.exact:
            return
        if counts.certified is not None:
            gate = self._certified(counts.certified)
            if not gate.passed:
                fix = "Certify another method, or a larger budget: `unplug certify`"
                yield Foreseen(asked=METHOD, what="the certification", why=gate.explain(), fix=fix)
            return
        yield from self._too_few(counts)
        if self.worst_person and not counts.ranked and counts.unseen < auditing.MIN_UNSEEN_SUBJECTS:
            why = f"nobody can be the worst person among fewer than {auditing.MIN_UNSEEN_SUBJECTS}"
            fix = f"{HOLD_OUT}; or `gates` worst_person=false"
            yield Foreseen(asked=WORST, what=_strangers(counts.unseen), why=why, fix=fix)

    def _too_few(self, counts: Counts) -> Iterator[Foreseen]:
        """People on either side, for an interval at all and for one within the margin."""
        gone, unseen = counts.forgotten, counts.unseen
        forgotten = f"{counted(counts.pictures, 'picture')} of {counted(gone, 'person', 'people')}"
        if gone < statistics.MIN_SUBJECTS:
            why = "no attack can decide that for an ordinary model"
            yield Foreseen(asked=ABOVE, what=forgotten, why=why)
        elif unseen < statistics.MIN_SUBJECTS:
            why = f"no attack can decide anything with fewer than {statistics.MIN_SUBJECTS}"
            yield Foreseen(asked=ABOVE, what=_strangers(unseen), why=why, fix=HOLD_OUT)
        elif (width := least_width(gone, unseen)) > self._margin:
            why = (
                f"with {_strangers(unseen)} no attack can decide that for an ordinary model: its "
                f"interval is +-{width:.2f} AUC or wider, and the margin {self._margin:g}"
            )
            yield Foreseen(asked=ABOVE, what=forgotten, why=why)

    @property
    def _margin(self) -> float:
        return min(self.max_auc_above_retrained, self.max_auc_below_retrained)

    def _certified(self, certified: auditing.Certification) -> Gate:
        """What the method left of other people at most, in as many requests of this size."""
        ends = [
            abs(end or 0.0)
            for leak in certified.leaks.values()
            for end in (leak.auc.low, leak.auc.high)
        ]
        limit = self._margin
        detail = (
            f"{counted(certified.requests, 'request')} of {certified.people} by "
            f"{certified.method}: {certified.why}; "
            f"exact models would pass in {100 * certified.exact_passes:.0f} %"
        )
        gate = METHOD.judged(max(ends), limit, detail)
        holds = gate.passed and certified.verdict == "certified"
        return replace(
            gate, passed=holds, inconclusive=not holds and certified.verdict != "refused"
        )

    def _equivalence(self, name: str, attack: AttackResult, too_few: str | None) -> Iterator[Gate]:
        """Both ends of the simultaneous interval of AUC minus the oracle's, each within its margin
        (two one-sided tests).
        """
        gap = attack.gap
        low = high = None
        detail = f"AUC {attack.auc.value:.3f}; {too_few or 'no oracle to compare with'}"
        if gap is not None and gap.low is not None and gap.high is not None and not too_few:
            low, high = gap.low, gap.high
            detail = (
                f"AUC {attack.auc.value:.3f}; minus the oracle's {gap.value:+.3f} ({low:+.3f} to "
                f"{high:+.3f})"
            )
        below = None if low is None else -low
        sides = (
            (ABOVE, high, self.max_auc_above_retrained, low is not None and low > 0.0),
            (BELOW, below, self.max_auc_below_retrained, high is not None and high < 0.0),
        )
        for asked, end, limit, seen in sides:
            value = None if end is None else max(0.0, end)
            # An interval that holds zero saw nothing: it is only too wide to say that there is
            # nothing to see.
            yield asked.judged(value, limit, detail, of=name, inconclusive=not seen)


def least_width(gone: int, unseen: int) -> float:
    """Half the least width that the interval of an attack's AUC minus the oracle's can be hoped to
    have, by numbers of people.

    w = q few(n) sqrt((1 - r) / 6 (1 / n + 1 / m)), q = 2.2 for all attacks at once, few(n) of few
    people, and r = .8 the correlation of what two trainings say of a person: on the people of
    docs/audit.md intervals were wider at every size.

    Args:
        gone, unseen: n forgotten and m unseen people.

    Example:
        >>> [round(least_width(count, 160), 2) for count in (5, 12, 50)]
        [0.29, 0.14, 0.07]
    """
    spread = math.sqrt((1.0 - CORRELATION) / 6.0 * (1.0 / gone + 1.0 / unseen))
    return QUANTILE * statistics.few_people(min(gone, unseen)) * spread


def _strangers(count: int) -> str:
    return f"{counted(count, 'person', 'people')} that no model saw"


def _people(unlearned: ModelAudit, report: AuditReport) -> Gate:
    """Nobody of this request stands out among models that never saw her: a check of sanity, and no
    evidence by itself.
    """
    if not unlearned.people:
        return PEOPLE.unmeasured(report.skipped.get("people", "nobody could be ranked"))
    # Bonferroni over the people of the request: the least p, times their number
    p_value = min(1.0, len(unlearned.people) * min(row.p_value for row in unlearned.people))
    detail = f"{len(unlearned.people)} ranked; an exact model fails in {100 * STANDS_OUT:g} %"
    return PEOPLE.judged(p_value, STANDS_OUT, detail)


def _worst_person(unlearned: ModelAudit, report: AuditReport) -> Iterator[Gate]:
    """The person who stands out most stands out no more than chance has it; none where subjects are
    not known at all.
    """
    worst = unlearned.worst_subject
    if worst is None:
        reason = report.skipped.get("worst subject", "it was not measured")
        if "subjects are not known" not in reason:
            yield WORST.unmeasured(reason)
        return
    among, on = counted(worst.subjects, "person", "people"), counted(worst.samples, "sample")
    detail = f"p = {worst.p_value:.3f} among {among}, AUC {worst.auc:.3f} on {on}"
    yield WORST.judged(worst.value, worst.null_high, detail)


@dataclass(frozen=True, kw_only=True)
class FurtherAttacks(Rule):
    """No attack that reads more than the sets of the split surely tells the forgotten; no gate
    where none could be judged.

    Held to what is seen (intervals times `WIDENING`), not to equivalence; what an exact retraining
    fails (`inherent`) is named.
    """

    questions: ClassVar[tuple[Question, ...]] = (MORE,)

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """How many of them tell."""
        if evidence.equal:
            return
        further = evidence.audit.model("unlearned").further
        gaps = {
            name: item.minus_retrained_together
            for name, item in sorted(further.items())
            if not auditing.inherent(name)
        }
        known = {
            name: gap
            for name, gap in gaps.items()
            if gap is not None and gap.low is not None and gap.high is not None
        }
        if not known or evidence.audit.too_few:
            return
        seen = [
            name
            for name, gap in known.items()
            if abs(gap.value) > WIDENING / 2 * ((gap.high or 0.0) - (gap.low or 0.0))
        ]
        told = ", ".join(
            f"{name} {gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"
            for name, gap in known.items()
        )
        alone = sorted(set(further) - set(known))
        beside = f"; not judged: {', '.join(alone)}" if alone else ""
        detail = (
            f"minus the oracle's (an interval counts {WIDENING:g} times as wide): {told}{beside}"
        )
        yield MORE.judged(float(len(seen)), 0.0, detail)


@dataclass(frozen=True, kw_only=True)
class RelearnTimeLimit(Rule):
    """Relearning takes the unlearned model as long as the oracle, by Student's intervals over runs.

    Where a run was stopped before it got there no mean is known, and the gate is inconclusive.

    Args:
        min_relearn_of_retrained: sample passes until fine-tuning on the forgotten brings the
            original's loss back, over those that the retrained model needs; None does not measure
            it.
    """

    min_relearn_of_retrained: float | None = None

    questions: ClassVar[tuple[Question, ...]] = (RELEARN,)

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """The least share of the oracle's passes; none where not asked for."""
        if (limit := self.min_relearn_of_retrained) is None or evidence.equal:
            return
        unlearned, oracle = (
            evidence.audit.model(role).relearning for role in ("unlearned", "retrained")
        )
        if (
            unlearned is None
            or oracle is None
            or unlearned.mean is None
            or oracle.mean is None
            or not oracle.mean.value
        ):
            reasons = (
                item.reason for item in (unlearned, oracle) if item is not None and item.reason
            )
            yield RELEARN.judged(
                None, limit, next(reasons, "it was not measured"), inconclusive=True
            )
            return
        low, high = unlearned.mean.low or 0.0, unlearned.mean.high or unlearned.mean.value
        # The ends of both intervals that are farthest apart: what the share is at least.
        surely = low / (oracle.mean.high or oracle.mean.value)
        at_most = high / max(oracle.mean.low or 0.0, 1e-9)
        detail = (
            f"{unlearned.mean.value:.0f} passes ({low:.0f} to {high:.0f}), retrained "
            f"{oracle.mean.value:.0f}"
        )
        yield RELEARN.judged(surely, limit, detail, inconclusive=at_most >= limit)


@dataclass(frozen=True, kw_only=True)
class ForgetCostLimit(Rule):
    """The forget step is cheap compared with retraining, in sample passes: what is signed holds no
    times.

    Args:
        max_compute: the largest compute of the forget step, as a fraction of retraining.
    """

    max_compute: float = 0.05

    questions: ClassVar[tuple[Question, ...]] = (COST,)

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """Compute of the forget step as a fraction of retraining."""
        if evidence.equal:
            return
        cost = evidence.unlearned.record["forget"]["cost"]
        passes, whole = (
            f"{item['forward']:,} forward, {item['backward']:,} back"
            for item in (cost, cost["retrain"])
        )
        detail = f"passes {passes}; of retraining {whole}"
        yield COST.judged(float(cost["compute_fraction"]), self.max_compute, detail)
