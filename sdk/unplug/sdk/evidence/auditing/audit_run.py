"""``unplug audit``: utility, attacks and distance to the oracle, with intervals, for checkpoints
and artifacts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from unplug.core import DataError, counted, progress, settled, versions
from unplug.sdk.evidence.fleet import References
from unplug.sdk.evidence.statistics import (
    CONFIDENCE,
    MIN_FALSE_POSITIVES,
    MIN_SUBJECTS,
    REPLICATES,
    Resamples,
    auc,
    resamples,
)
from unplug.sdk.learning.data import Split, keyed
from unplug.sdk.learning.training import LabelledSet, SampleSet, Sets

from .attack import ATTACKS, Attack, Signals
from .audit_report import Alarm, AuditReport, Estimate, ModelAudit, Rounding
from .checks import check_references, check_split
from .critic import add_critic
from .evidence import AuditEvidence
from .exports import Exports
from .measure import FALSE_POSITIVE_RATES, Measured, audit_model, measure, of_role, run_attacks
from .people import composites, person_rows, stays
from .predictor import SETS, ArtifactPredictor, FleetPredictor, Predictor, check_finite, fitted_to
from .privacy import add_privacy
from .rounding import Compared, Said, measure_rounding
from .threats import threat_model

LOGISTIC_FOLDS = 10
NO_EVIDENCE = "it needs more than the sets of the split, which was not gathered"
MIN_FORGET = 2  # an interval over one sample says nothing, and AUC over one sample is a rank


@settled
def audit(
    predictors: Sequence[Predictor],
    sets: Sets,
    split: Split,
    *,
    edges: tuple[float, ...],
    data: dict[str, Any],
    references: Sequence[Predictor] = (),
    fleet: References | None = None,
    attacks: Sequence[str] | None = None,
    exports: Sequence[Exports] = (),
    evidence: AuditEvidence | None = None,
    exact: bool = False,
    seed: int = 0,
    show: bool = True,
) -> AuditReport:
    """Audits models that share a forget request.

    Args:
        predictors: the models to audit; a model of role "retrained" is the oracle that the others
            are compared with.
        sets: retain (as ``train``), forget, validation and test on the device.
        split: the split that gives the sets.
        edges: age-group borders.
        data: facts about the data, copied into the report.
        references: models trained without the forget set, with other seeds; RMIA needs one, LiRA
            two.
        fleet: references that left people out; attacks then have as many references as models never
            saw each person, and every forgotten person is ranked among those. Whose answers a model
            was fitted to are left out. Where there is no oracle, the first of those models stand in
            its place, one a person.
        attacks: names of `ATTACKS`; None takes all.
        exports: artifacts of unlearned models with the original's export in the same form: what
            rounding did is measured on each; one that cannot run here is compared by its stored
            numbers alone.
        evidence: further questions besides the sets (see `gather`); None leaves out the attacks
            that read the answers.
        exact: forgetting is shown by equality, so attacks only illustrate it and a single sample
            will do.
        seed: the seed of the resampling.
        show: progress bar.

    Returns:
        The report. Attacks that could not run are in ``skipped``, with the reason.

    Raises:
        DataError: no forget set, or one of a single sample.
        InputError: no such attack, or a model whose outputs are not finite.
    """
    check_forget_size(len(sets.forget), exact=exact or fleet is not None)
    strangers: list[Signals] = []
    if fleet is not None:
        fleet = fleet.apart(fitted_to(predictors))
        strangers = composites(fleet, sets)
    facts = None if fleet is None else _fleet_facts(fleet, len(strangers))
    if fleet is not None and not any(model.role == "retrained" for model in predictors):
        predictors = [*predictors, FleetPredictor(sha256=fleet.sha256, said=strangers.pop(0))]
    chosen, skipped = usable(attacks, len(references) + len(strangers), evidence)
    draws = resamples(sets.forget.subject_N, sets.test.subject_N, seed=seed)
    pictures = sum(len(getattr(sets, name)) for name in SETS)
    total = pictures * (len(references) + len(predictors))
    bar = progress(total=total, label="audit", show=show)

    def each_of(models: Sequence[Predictor]) -> Iterator[Predictor]:
        for model in models:
            yield model
            bar.update(pictures)

    with bar:
        others = [signals_of(model, sets) for model in each_of(references)]
        check_references(others)
        measured, unable = measure_all(
            each_of(predictors), sets, evidence, chosen, [*others, *strangers], draws
        )
        oracle = of_role(measured, "retrained")
        skipped |= _limits(sets, oracle=oracle is not None) | unable
        rows = [
            audit_model(one, None if one is oracle else oracle, sets, edges, draws, seed)
            for one in measured
        ]
        models, missing = add_privacy(rows, measured, sets, seed)
        if fleet is not None:
            models, known = _ranked(models, measured, fleet, sets)
            missing |= known
        if evidence is not None:
            models, unknown = add_critic(models, measured, fleet, sets, seed)
            missing |= unknown
        band = [auc(says.forget.log_prob_N, says.unseen.log_prob_N) for says in others]
        report = AuditReport(
            data=data,
            forget={"samples": len(sets.forget), "subjects": people_in(sets.forget)},
            models=models,
            oracle_band={"loss": tuple(band)},
            skipped=skipped | missing,
            alarms=tuple(_alarms(models)) if enough_people(sets) else (),
            settings={
                **settings_of(sets, split, edges, seed),
                "references": [model.sha256 for model in references],
                "fleet": facts,
            },
            versions=versions(),
            rounding=_roundings(exports, measured, sets, draws, seed),
        )
        return replace(report, threats=threat_model(report))


def measure_all(
    predictors: Iterable[Predictor],
    sets: Sets,
    evidence: AuditEvidence | None,
    attacks: Mapping[str, Attack],
    references: Sequence[Signals],
    draws: Resamples,
) -> tuple[list[Measured], dict[str, str]]:
    """What every model says and how attacks score it, and why some attacks could not run."""
    asked = [(model, signals_of(model, sets, evidence)) for model in predictors]
    old = next((own for model, own in asked if model.role == "original"), None)
    if evidence is not None and old is not None:  # for somebody who holds the old file as well
        asked = [(model, own if own is old else replace(own, before=old)) for model, own in asked]
    # By position, because two models may share a name.
    oracle = next(
        (number for number, (model, _) in enumerate(asked) if model.role == "retrained"), None
    )
    names, signals = [model.name for model, _ in asked], [own for _, own in asked]
    scores, unable = run_attacks(attacks, signals, references, names=names, oracle=oracle)
    measured = [measure(*pair, row, draws) for pair, row in zip(asked, scores, strict=True)]
    return measured, unable


def _ranked(
    models: Sequence[ModelAudit], measured: Sequence[Measured], fleet: References, sets: Sets
) -> tuple[tuple[ModelAudit, ...], dict[str, str]]:
    """The audits with every forgotten person's place among models that never saw them, and what
    cannot be said of whom.
    """
    ranked = tuple(
        model
        if isinstance(one.item, FleetPredictor)
        else replace(model, people=person_rows(one.own, fleet, sets))
        for model, one in zip(models, measured, strict=True)
    )
    known = int(stays(fleet, sets).sum())
    why = (
        f"{known} forgotten samples are of people with other pictures that stay, so they are not "
        "strangers"
    )
    return ranked, {"people": why} if known else {}


def settings_of(sets: Sets, split: Split, edges: tuple[float, ...], seed: int) -> dict[str, Any]:
    """How the intervals were made, and of what."""
    return {
        "confidence": CONFIDENCE,
        "replicates": REPLICATES,
        "seed": seed,
        "split_sha256": keyed(split).sha256,
        "edges": list(edges),
        "resampled": "whole subjects"
        if people_in(sets.test) < len(sets.test)
        else "single samples",
    }


def _fleet_facts(fleet: References, never_saw: int) -> dict[str, Any]:
    record = fleet.record
    return {
        "sha256": fleet.sha256,
        "models": record.models,
        "folds": record.folds,
        "never_saw": never_saw,
        "cost": asdict(record.cost),
    }


def usable(
    names: Sequence[str] | None, references: int, evidence: AuditEvidence | None
) -> tuple[dict[str, Attack], dict[str, str]]:
    """The attacks that can run, all or some by name, and why the others cannot."""
    chosen: dict[str, Attack] = {}
    skipped: dict[str, str] = {}
    for name in ATTACKS if names is None else names:
        attack = ATTACKS.get(name)()
        reads = getattr(attack, "reads", None)
        if reads is not None and (evidence is None or reads in evidence.missing):
            skipped[name] = NO_EVIDENCE if evidence is None else evidence.missing[reads]
        elif attack.min_references > references:
            needed = counted(attack.min_references, "reference model")
            skipped[name] = f"needs {needed}, {references} given"
        else:
            chosen[name] = attack
    return chosen, skipped


def check_forget_size(samples: int, *, exact: bool = False) -> None:
    """Refuses a forget set that no attack can say anything about; callers that train first ask
    before that.
    """
    if samples < (1 if exact else MIN_FORGET):
        raise DataError(
            "audit", f"{samples} forget samples support no interval", "Name at least two samples"
        )


def people_in(part: SampleSet) -> int:
    """How many subjects a set has."""
    return len(np.unique(part.subject_N))


def enough_people(sets: Sets) -> bool:
    """Whether resampling subjects says anything, on either side."""
    return min(people_in(sets.forget), people_in(sets.test)) >= MIN_SUBJECTS


def signals_of(model: Predictor, sets: Sets, evidence: AuditEvidence | None = None) -> Signals:
    """What a model says of the sets, and of the evidence where there is any; refuses what is of
    other sets, or no number.
    """
    says = model.signals(sets)
    if evidence is not None:
        says = model.further(says, sets, evidence)
    check_split(model.name, says, sets)
    others = () if says.others is None else (says.others.forget, says.others.unseen)
    parts = (says.forget, says.unseen, says.population, says.retain, *others)
    check_finite(model.name, (*parts, *(part for pair in says.views for part in pair)))
    return says


def _roundings(
    exports: Sequence[Exports],
    measured: Sequence[Measured],
    sets: Sets,
    draws: Resamples,
    seed: int,
) -> tuple[Rounding, ...]:
    """What rounding did to each artifact, from what is known of it already."""
    by_sha = {one.item.sha256: one for one in measured}
    original = of_role(measured, "original")
    rows = []
    for files in exports:
        card = files.artifact.card
        file, checkpoint = by_sha.get(card.sha256), by_sha.get(card.checkpoint_sha256)
        known = Compared(
            name=files.artifact.path.name,
            own=_said(file),
            checkpoint=_said(checkpoint),
            original=_said(original),
            auc_shift={
                name: scored.minus(checkpoint.scored[name]) for name, scored in file.scored.items()
            }
            if file and checkpoint
            else {},
            task=file.item.task if file and isinstance(file.item, ArtifactPredictor) else None,
        )
        rows.append(measure_rounding(files, known, sets, draws.forget_RF, seed))
    return tuple(rows)


def _said(one: Measured | None) -> Said | None:
    return None if one is None else Said(forget=one.own.forget, test=one.own.unseen)


def _limits(sets: Sets, *, oracle: bool) -> dict[str, str]:
    """What this request cannot show, and why."""
    limits = {}
    if not oracle:
        limits["oracle"] = "no retrained model was given, so nothing can be compared with it"
    if people_in(sets.test) < MIN_SUBJECTS:
        limits["unseen interval"] = (
            f"the unseen samples are of fewer than {MIN_SUBJECTS} subjects: intervals of attacks "
            "show how much the forget side "
            "may vary, hardly the unseen side, and raise no alarm"
        )
    if people_in(sets.forget) < MIN_SUBJECTS:
        limits["forget interval"] = (
            f"the forget set is fewer than {MIN_SUBJECTS} subjects: means over it have no "
            "interval, intervals of attacks show "
            "how much the unseen side may vary, hardly the forget side, and raise no alarm"
        )
    groups, others = _groups(sets.forget), _groups(sets.test)
    if len(groups) == 1 and len(others) > 1:
        limits["forget groups"] = (
            f"the forget set is of one group only ({groups[0]}) and unseen samples are of several: "
            "an attack may tell the "
            "group instead of membership, so compare its AUC with the retrained model's, never "
            "with 0.5"
        )
    if min(len(sets.forget), len(sets.test)) < LOGISTIC_FOLDS:
        limits["loss-logistic accuracy"] = f"ten folds need {LOGISTIC_FOLDS} samples a side"
    if missing := explain_missing_tpr(len(sets.test)):
        limits["tpr"] = missing
    return limits


def _alarms(models: Sequence[ModelAudit]) -> list[Alarm]:
    """A paired interval, valid for all attacks at once, wholly below zero is over-forgetting, above
    zero not forgotten.

    One alarm a model and kind: its message has the widest gap and names the other attacks.
    """
    alarms = []
    for model in models:
        if model.role not in ("unlearned", "artifact"):
            continue
        together = {name: row.minus_retrained_together for name, row in model.attacks.items()}
        gaps = {name: gap for name, gap in together.items() if gap is not None}
        above = {name: gap for name, gap in gaps.items() if gap.low is not None and gap.low > 0}
        below = {name: gap for name, gap in gaps.items() if gap.high is not None and gap.high < 0}
        if above:
            text = f"{_widest(above, 'above')}; the forget set is still recognizable"
            alarms.append(Alarm(kind="not-forgotten", model=model.name, message=text))
        if below:
            text = f"{_widest(below, 'below')}; the forget set stands out, which leaks too"
            alarms.append(Alarm(kind="over-forgetting", model=model.name, message=text))
    return alarms


def _widest(gaps: dict[str, Estimate], side: str) -> str:
    name = max(gaps, key=lambda key: (abs(gaps[key].value), key))
    others = ", ".join(sorted(set(gaps) - {name}))
    gap = gaps[name]
    also = f", and so it is for {others}" if others else ""
    return (
        f"{name}: AUC is {side} the retrained model's by {gap.value:+.3f} ({gap.low:+.3f} to "
        f"{gap.high:+.3f}){also}"
    )


def explain_missing_tpr(unseen: int) -> str:
    """Why some TPR entries are null; empty where none is."""
    rates = ", ".join(
        f"{rate:g}" for rate in FALSE_POSITIVE_RATES if rate * unseen < MIN_FALSE_POSITIVES
    )
    return (
        rates
        and f"TPR at FPR {rates} needs more than {unseen} unseen samples (at least {MIN_FALSE_POSITIVES} false positives)"
    )


def _groups(part: SampleSet) -> list[int]:
    """The classes that a set's samples are of, in order; none where samples have no class."""
    return sorted(set(part.group_N.tolist())) if isinstance(part, LabelledSet) else []
