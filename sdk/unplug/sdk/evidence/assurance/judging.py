"""``unplug evaluate``: one protocol over some models and the same people, as one report."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from unplug.core import versions
from unplug.sdk.drawing.inference import FAULTS
from unplug.sdk.evidence.statistics import CONFIDENCE, MIN_SUBJECTS

from .answers import Answers
from .copies import names_alone
from .evaluation_report import (
    EvaluationAlarm,
    EvaluationReport,
    ModelEvaluation,
    PeopleFacts,
    Processing,
)
from .exact import people_needed, rate
from .fate import ADULT
from .groups import MIN_GAP
from .people import People
from .protocol import AgeProtocol, Asking

NAMES_ALONE = "pictures of the training under other names"


def judge(answers: Sequence[Answers], protocol: AgeProtocol, asking: Asking) -> EvaluationReport:
    """The report of what models said, by one protocol; all of them were asked about the same people.

    Raises:
        DataError: data that the protocol's numbers cannot be had of.
        InputError: a challenge that means nothing to a model.
    """
    people = answers[0].people
    protocol.check(people)
    models = [
        protocol.measure(item, answers[0] if number else None, asking)
        for number, item in enumerate(answers)
    ]
    shared = {
        name: why
        for name, why in models[0].refused.items()
        if all(item.refused.get(name) == why for item in models)
    }
    models = [
        replace(
            item, refused={name: why for name, why in item.refused.items() if name not in shared}
        )
        for item in models
    ]
    needed = people_needed(asking.limit)
    return EvaluationReport(
        protocol=protocol.name,
        data=people.data,
        people=_facts(people),
        limit=asking.limit,
        needed=needed,
        models=tuple(models),
        refused=shared | _unsupported(people, asking.limit, needed),
        alarms=tuple(_alarms(models, people)),
        settings={
            "confidence": CONFIDENCE,
            "replicates": asking.replicates,
            "seed": asking.seed,
            "least_people": MIN_SUBJECTS,
            "least_people_of_a_gap": MIN_GAP,
            "decision": "the estimated age is T or more",
            "means": "95 % by drawing whole people",
            "rates": "95 % by Clopper-Pearson over people",
        },
        versions=versions(),
        processing=_processing(people),
    )


def _facts(people: People) -> PeopleFacts:
    values_of = sorted((name, *map(str, values)) for name, values in people.attributes.items())
    digest = hashlib.sha256(repr((people.ids, values_of)).encode()).hexdigest()
    return PeopleFacts(
        apart=people.apart,
        part=people.part,
        subjects_apart=people.subjects_apart,
        pictures=len(people),
        people=people.persons,
        minors=people.persons_in(people.age_N < ADULT),
        left_out=people.left_out,
        without_age=people.without_age,
        attributes={
            name: dict(sorted(Counter(values).items())[:64])
            for name, values in people.attributes.items()
        },
        attributes_sha256=digest,
        copies=people.copies,
    )


def _processing(people: People) -> Processing:
    if isinstance(people.faults, str):
        return Processing(any=None, faults={}, unmeasured=people.faults)
    everybody, fault_N = (
        np.ones(len(people), dtype=bool),
        np.array([fault or "" for fault in people.faults]),
    )
    return Processing(
        any=rate(fault_N != "", everybody, people.person_N),
        unmeasured=None,
        faults={fault: rate(fault_N == fault, everybody, people.person_N) for fault in FAULTS},
    )


def _unsupported(people: People, limit: float, needed: int) -> dict[str, str]:
    refused = {}
    minors = people.persons_in(people.age_N < ADULT)
    if minors < needed:
        refused[f"false positives of at most {100 * limit:g} %"] = (
            f"that needs {needed} minors without an error, and there are {minors}: "
            f"{needed - minors} are missing"
        )
    if people.copies is not None and people.copies.why is not None:
        refused[NAMES_ALONE] = names_alone(people.copies)
    if people.without_age:
        refused["pictures without an age"] = (
            f"{people.without_age} of these data have none, and are in no number"
        )
    if not people.attributes:
        refused["groups"] = (
            "the data say nothing of anybody but the age, so nobody knows whom a mean hides"
        )
    return refused


def _alarms(models: Sequence[ModelEvaluation], people: People) -> Iterator[EvaluationAlarm]:
    caught: dict[str, list[ModelEvaluation]] = {}
    for model in models:
        gap = None if model.worst_group is None else model.group(model.worst_group).gap
        if (
            model.worst_group is not None
            and gap is not None
            and gap.low is not None
            and gap.low > 0
        ):
            caught.setdefault(model.worst_group, []).append(model)
    for cell, worse in caught.items():
        gaps = [gap for model in worse if (gap := model.group(cell).gap) is not None]
        worst = max(gaps, key=lambda gap: gap.value)
        message = (
            f"{cell}: the error is {worst.value:.1f} years ({worst.low:.1f} to {worst.high:.1f}) "
            "above everybody else's"
        )
        names = ", ".join(model.name for model in worse)
        yield EvaluationAlarm(
            kind="worst-group", model=names, message=f"{message} at the same ages"
        )
    if people.apart == "unknown":
        message = (
            "nothing says whom they learned from, so these may be people that they know: give "
            "`checkpoint` or `split`"
        )
        yield EvaluationAlarm(kind="training-people", model="all", message=message)
