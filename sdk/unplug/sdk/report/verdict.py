"""Did it forget? One word, one sentence with the numbers, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unplug.core import counted, fixed, milliseconds, percent, plain, signed, size, span
from unplug.sdk.evidence.auditing import NEVER_SAW, Certification, Estimate, ModelAudit
from unplug.trust.bundle import ANEW, CERTIFIED, EXACT

from .assurance import assurance_numbers, assurance_words
from .erasures import erasure_numbers, erasure_words
from .fronts import front_words
from .inputs import Inputs
from .labels import labels_numbers, labels_words
from .latency import row_median
from .models import all_models, excludes_zero, judge, main_attack, main_audit, main_models
from .page import Chip, KeyNumber
from .rounding import rounding_fact, rounding_rows
from .schemas import ForgetStep


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The head of the page.

    Args:
        word: the outcome.
        chip: how it is shown.
        lead: the verdict's meaning, in plain language.
        sentence: the numbers.
        facts: utility and cost, a sentence each.
    """

    word: str
    chip: Chip
    lead: str
    sentence: str
    facts: tuple[str, ...]


_BY_METHOD, _EXACTLY = "Forgotten, by a certified method", "Forgotten exactly"
_ANEW = "Trained anew, without them"
_OLD_FILE = "Anyone who kept the old file can compare the two and may learn who was removed."
_LEADS: dict[str, tuple[Chip, str]] = {
    _EXACTLY: (
        "pass",
        "This model is identical, bit for bit, to one trained without them.",
    ),
    _ANEW: (
        "warn",
        "This model holds nothing of the original: it was trained anew on everybody else's data, "
        "by the recipe that the network was adopted with. The original was trained elsewhere, by "
        "an unknown recipe, so its owner's own training without them may give another model. "
        "Compare its use with the original's.",
    ),
    _BY_METHOD: (
        "pass",
        "On as many other people this method left next to nothing, and nobody in this request "
        "stands out. So few people alone could show neither a leak nor its absence.",
    ),
    "Forgotten": (
        "pass",
        "Every attack sees as much of the forget set as on a model retrained without it, within "
        "the margin.",
    ),
    "Forgotten, but less useful": (
        "warn",
        "Every attack sees as much of the forget set as on the oracle, within the margin, but the "
        "model became worse.",
    ),
    "Not forgotten": (
        "fail",
        "An attack still recognizes the forget set more often than on a model retrained without "
        "it.",
    ),
    "Over-forgotten": (
        "fail",
        "The forget set stands out as worse than unseen: that, too, gives away who was removed.",
    ),
    "Inconclusive (too few)": (
        "warn",
        "The intervals are wider than the margin: so few people show neither a leak nor its "
        "absence.",
    ),
    "Inconclusive": (
        "warn",
        "No attack recognized the forget set in the original, so this audit cannot show that it is "
        "gone.",
    ),
    "Not compared": (
        "warn",
        "There is no unlearned model with a retrained one, so nothing says how far forgetting "
        "went.",
    ),
    "Method certified": (
        "pass",
        "On as many people as a request names, this method leaves next to nothing, within the "
        "margin.",
    ),
    "Method not certified": (
        "warn",
        "This method leaves too much of as many people as a request names, or it is unknown.",
    ),
    "Not audited": ("warn", "No audit was given, so this report says nothing about forgetting."),
}


_TIMED = "No audit was given: nothing here is about forgetting."


def _timed(inputs: Inputs) -> str:
    rows = inputs.bench_rows
    devices, ranked = (
        len({(row.device, row.where) for row in rows}),
        sum(row.ranked for row in rows),
    )
    return (
        f"{counted(len(rows), 'row')} from {counted(devices, 'device')}; {ranked} of them may be "
        "ranked."
    )


def verdict(inputs: Inputs) -> Verdict:
    """The head of the page, from the audit and the record of the forget step."""
    models = main_models(inputs)
    if not models and inputs.evaluations:
        return Verdict(**assurance_words(inputs.evaluations[0]))
    if not models and inputs.labels:
        return Verdict(**labels_words(inputs.labels[0]))
    if not models and inputs.erasures:
        return Verdict(**erasure_words(inputs.erasures))
    if not models and inputs.fronts:
        return Verdict(**front_words(inputs.fronts[0]))
    if inputs.timed_only:
        return Verdict(
            word="Benchmark", chip="neutral", lead=_timed(inputs), sentence="", facts=(_TIMED,)
        )
    audited = main_audit(inputs)
    if not models and inputs.certifications:
        return _of_method(inputs.certifications[0])
    if _held(inputs, EXACT):
        word = _ANEW if _elsewhere(inputs) else _EXACTLY
    else:
        word = judge(models, audited.too_few if audited else None)
    if word.startswith("Inconclusive") and _held(inputs, CERTIFIED):
        word = _BY_METHOD
    chip, lead = _LEADS[word]
    facts = [
        line
        for line in (
            _OLD_FILE
            if word in (_BY_METHOD, _EXACTLY, _ANEW)
            else _bound(models)
            if word.startswith("Forgotten")
            else "",
            _whose(inputs, models),
            _utility(models),
            _cost(forget_step(inputs)),
            rounding_fact(inputs),
        )
        if line
    ]
    return Verdict(
        word=word.partition(" (")[0],
        chip=chip,
        lead=lead,
        sentence=_sentence(models),
        facts=tuple(facts),
    )


def _whose(inputs: Inputs, models: Mapping[str, ModelAudit]) -> str:
    """The member of a family that the numbers are of."""
    members = {model.member for model in all_models(inputs)}
    if len(members) < 2:
        return ""
    shown = next(iter(models.values())).member
    of = "the reference" if shown is None else f"the member {plain(shown, 40)}"
    return (
        f"A phone may hold any of the {len(members)} models of this family. The verdict is the "
        f"worst of all; its numbers are those of {of}."
    )


def _held(inputs: Inputs, name: str) -> bool:
    """Whether a release was held to a gate and passed all of them, none by an override."""
    return any(
        all(gate.passed for gate in release.gates)
        and any(gate.name == name for gate in release.gates)
        for release in inputs.releases
        if release.passed
    )


def _elsewhere(inputs: Inputs) -> bool:
    """Whether a release held two trainings of ours to equality, of an original that was trained
    elsewhere.
    """
    gates = (gate for release in inputs.releases for gate in release.gates)
    return any(gate.name == EXACT and ANEW in (gate.detail or "") for gate in gates)


def _of_method(found: Certification) -> Verdict:
    """The verdict of a page about a method, and about no request."""
    certified = found.verdict == "certified"
    chip, lead = _LEADS["Method certified" if certified else "Method not certified"]
    word = (
        "Certified"
        if certified
        else "Inconclusive"
        if found.verdict == "inconclusive"
        else "Not certified"
    )
    chip = "fail" if found.verdict == "refused" else chip
    return Verdict(
        word=word,
        chip=chip,
        lead=lead,
        sentence=f"{plain(found.why[:1].upper() + found.why[1:], 300)}.",
        facts=(),
    )


def _bound(models: Mapping[str, ModelAudit]) -> str:
    """What the attacks could still have missed, and who is meant."""
    gaps = {
        name: gap
        for name, attack in models["unlearned"].attacks.items()
        if (gap := attack.gap) and gap.high
    }
    if not gaps:
        return ""
    most = max(gap.high or 0.0 for gap in gaps.values())
    return (
        f"No leak above {signed(most)} AUC over the oracle was found by these attacks "
        f"({', '.join(sorted(gaps))}), which know "
        f"the weights, the pictures and their labels. {_OLD_FILE}"
    )


def forget_step(inputs: Inputs) -> ForgetStep | None:
    """The forget step of the first unlearned record."""
    return next(
        (
            record.forget
            for record in inputs.records
            if record.role == "unlearned" and record.forget
        ),
        None,
    )


def _auc(estimate: Estimate) -> str:
    ends = span(estimate.low, estimate.high)
    return f"{fixed(estimate.value)} ({ends})" if ends else fixed(estimate.value)


def _sentence(models: Mapping[str, ModelAudit]) -> str:
    name = headline_attack(models)
    if name is None:
        return ""
    aucs = {
        role: model.attacks[name].auc for role, model in models.items() if name in model.attacks
    }
    before, after, oracle = (aucs.get(role) for role in ("original", "unlearned", "retrained"))
    lead = f"The AUC of the {plain(name, 30)} attack"
    if before and after:
        moved = (
            "fell"
            if after.value < before.value
            else "rose"
            if after.value > before.value
            else "stayed"
        )
        text = (
            f"{lead} {moved} from {_auc(before)} in the original to {_auc(after)} in the unlearned "
            "model"
        )
    else:
        text = f"{lead} is " + ", ".join(
            f"{_auc(auc)} in the {role} model" for role, auc in aucs.items()
        )
        return f"{text}."
    return (
        f"{text}; {_others(models, 'the retrained oracle has')} {_auc(oracle)}."
        if oracle
        else f"{text}."
    )


def _others(models: Mapping[str, ModelAudit], usual: str) -> str:
    """Who stands in the oracle's place, where it is not a retrained model."""
    return "models that never saw them have" if models["retrained"].name == NEVER_SAW else usual


def headline_attack(models: Mapping[str, ModelAudit]) -> str | None:
    """The attack with the widest gap between unlearned and oracle where forgetting failed, else
    `main_attack`.
    """
    unlearned = models.get("unlearned")
    gaps = {name: attack.gap for name, attack in unlearned.attacks.items()} if unlearned else {}
    failed = {
        name: abs(gap.value) for name, gap in gaps.items() if gap is not None and excludes_zero(gap)
    }
    return (
        max(failed, key=lambda name: (failed[name], name)) if failed else main_attack(dict(models))
    )


def _utility(models: Mapping[str, ModelAudit]) -> str:
    error = {
        role: model.utility["test"].error
        for role, model in models.items()
        if "test" in model.utility
    }
    if "original" not in error or "unlearned" not in error:
        return ""
    unit = error_unit(models["original"])
    before, after = error["original"].value, error["unlearned"].value
    span = (
        f"from {fixed(before, unit.digits)} to {fixed(after, unit.digits)}{unit.years and ' years'}"
    )
    whose = _others(models, "the oracle has") if "retrained" in models else ""
    oracle = (
        f"; {whose} {fixed(error['retrained'].value, unit.digits)}" if "retrained" in error else ""
    )
    return (
        f"On the test set the {unit.name} went {span} "
        f"({signed(after - before, unit.digits)}){oracle}."
    )


@dataclass(frozen=True, kw_only=True)
class ErrorUnit:
    """How a model's error is written: `years` is "years", or empty for another."""

    name: str
    years: str
    digits: int
    label: str
    distance: str


def error_unit(model: ModelAudit) -> ErrorUnit:
    """Years for an age predictor, wrong answers for a classifier, a loss for a model without
    either.
    """
    uses = model.utility.values()
    if any(use.mae for use in uses):
        words = {"name": "mean absolute error", "label": "Test error (MAE)", "distance": "years"}
        return ErrorUnit(years="years", digits=2, **words)
    if any(use.wrong for use in uses):
        words = {"name": "share of wrong answers", "label": "Wrong answers (test)"}
        return ErrorUnit(years="", digits=3, distance="of the probability,", **words)
    return ErrorUnit(name="loss", years="", digits=4, label="Test loss", distance="of the loss,")


def _cost(step: ForgetStep | None) -> str:
    if step is None:
        return ""
    cost = step.cost
    text = (
        f"Forgetting by {plain(step.method, 30)} took {percent(cost.compute_fraction)} of the "
        "compute of retraining"
    )
    if cost.wall_fraction is not None:
        text += f" and {percent(cost.wall_fraction)} of its wall time"
    return (
        f"{text}; the budget is {percent(cost.budget)}."
        if cost.budget is not None
        else f"{text}; no budget was set."
    )


def key_numbers(inputs: Inputs) -> list[KeyNumber]:
    """What a reader should take away: strength of the attack, gap to the oracle, use, cost, and
    what ships.
    """
    models = main_models(inputs)
    numbers = [*_attack_numbers(models), *_use_numbers(models), *_distance_numbers(models)]
    numbers += [number for report in inputs.evaluations for number in assurance_numbers(report)]
    numbers += [number for report in inputs.labels for number in labels_numbers(report)]
    numbers += [number for report in inputs.erasures for number in erasure_numbers(report)]
    return [*numbers, *_cost_number(inputs), *_shipped(inputs), *_left(inputs)]


def _attack_numbers(models: Mapping[str, ModelAudit]) -> Iterator[KeyNumber]:
    name = headline_attack(models)
    attacks = {role: model.attacks[name] for role, model in models.items() if name in model.attacks}
    if name is None or "original" not in attacks or "unlearned" not in attacks:
        return
    auc = {role: fixed(attack.auc.value) for role, attack in attacks.items()}
    aside = f"retrained {auc['retrained']}" if "retrained" in auc else "no oracle"
    value = f"{auc['original']} → {auc['unlearned']}"
    yield KeyNumber(f"Attack AUC ({plain(name, 30)})", value, aside)
    if (gap := attacks["unlearned"].gap) is not None:
        ends = span(gap.low, gap.high, sign=True)
        yield KeyNumber("AUC minus the oracle's", signed(gap.value), ends or "no interval")


def _use_numbers(models: Mapping[str, ModelAudit]) -> Iterator[KeyNumber]:
    tested = {role: model for role, model in models.items() if "test" in model.utility}
    if "original" not in tested or "unlearned" not in tested:
        return
    unit = error_unit(tested["original"])
    error = {
        role: fixed(model.utility["test"].error.value, unit.digits)
        for role, model in tested.items()
    }
    theirs = f"retrained {error['retrained']}" if "retrained" in error else ""
    moved = f"{error['original']} → {error['unlearned']}"
    yield KeyNumber(unit.label, moved, "; ".join(filter(None, (unit.years, theirs))))


def _distance_numbers(models: Mapping[str, ModelAudit]) -> Iterator[KeyNumber]:
    unlearned = models.get("unlearned")
    if unlearned is None or not unlearned.distance or "forget" not in unlearned.distance:
        return
    far, unit = unlearned.distance["forget"], error_unit(unlearned)
    whose = f"{unit.distance} on the forget set"
    note = "; ".join(filter(None, (whose, span(far.low, far.high, unit.digits))))
    yield KeyNumber("Distance to the oracle", fixed(far.value, unit.digits), note)


def _left(inputs: Inputs) -> list[KeyNumber]:
    known = [(row.kept, row) for row in rounding_rows(inputs) if row.kept is not None]
    if not known:
        return []
    kept, row = min(known, key=lambda pair: pair[0].value)
    ends = span(kept.low, kept.high, 1, scale=100.0)
    aside = plain(
        f"{row.target} {row.precision}, the least of {len(known)}"
        if len(known) > 1
        else f"{row.target} {row.precision}"
    )
    return [
        KeyNumber(
            "Edit left after export",
            percent(kept.value),
            f"{aside}; {ends}" if ends else aside,
        )
    ]


def _cost_number(inputs: Inputs) -> list[KeyNumber]:
    step = forget_step(inputs)
    if step is None:
        return []
    budget = (
        f"of retraining; budget {percent(step.cost.budget)}"
        if step.cost.budget is not None
        else "of retraining"
    )
    return [KeyNumber("Compute spent", percent(step.cost.compute_fraction), budget)]


def _shipped(inputs: Inputs) -> list[KeyNumber]:
    numbers = []
    if inputs.cards:
        card = min(inputs.cards, key=lambda card: card.bytes)
        numbers.append(
            KeyNumber(
                "Smallest artifact",
                size(card.bytes),
                plain(f"{card.target} {card.precision}"),
            )
        )
    timed = [row for row in inputs.bench_rows if row.ranked]
    rows = [(median, row) for row in timed if (median := row_median(row)) is not None]
    if rows:
        median, row = min(rows, key=lambda pair: pair[0])
        aside = (
            f"{plain(row.target, 20)} {plain(row.precision, 20)}, "
            f"{counted(row.threads, 'thread')}, {row.where}"
        )
        numbers.append(KeyNumber("Fastest median run", f"{milliseconds(median)} ms", aside))
    return numbers
