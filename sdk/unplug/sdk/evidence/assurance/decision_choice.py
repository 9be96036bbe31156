"""One decision for several models: what a bundle carries holds on each of its files, for a phone
may run any of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unplug.core import Array, DataError, InputError
from unplug.export import load_artifact
from unplug.sdk.drawing.inference import Decision, DecisionRecord, GroupHeld, ModelHeld, Share
from unplug.sdk.evidence.auditing import not_run_here
from unplug.trust.bundle import Trust, artifact_paths

from .answers import Answers, name_in
from .people import UNKNOWN, People
from .threshold import FittedThreshold, Limits, fit_decision


def decide(
    answers: Sequence[Answers], limits: Limits, *, by: str | None = None, unseen: bool = False
) -> tuple[DecisionRecord, tuple[FittedThreshold, ...]]:
    """The strictest of the thresholds of some models, fitted on the same people, whom none of them
    learned from.

    A higher end of "over" never calls more minors over and a lower end of "under" never more adults
    under, so the limits hold on every model by itself.

    Args:
        answers: one a checkpoint or file.
        limits: the limits to hold.
        by: attribute in whose groups they must hold as well, where there are enough people.
        unseen: somebody says that no model learned from these people, where no split does.

    Returns:
        The record, and what each model would do with by itself.

    Raises:
        DataError: nobody knows whom a model learned from, ages are known by groups around T only,
            no such attribute, or what `fit_decision` refuses.
        InputError: T lies outside of a model's age groups.
    """
    people = answers[0].people
    over = [item.over(limits.age) for item in answers]
    _check(people, limits, by, unseen)
    if any(item.people.ids != people.ids for item in answers):
        why = "the models were asked about different pictures"
        raise DataError(
            f"data {people.data['spec']}", why, "Take models of one training, or other data"
        )
    fitted = _fitted(over, people, limits, by)
    rule = Decision(
        age=limits.age,
        over_from=max(item.decision.over_from for item in fitted),
        under_to=min(item.decision.under_to for item in fitted),
    )
    adult_N = people.age_N >= limits.age
    minor_N = ~adult_N & (people.age_N >= limits.minors_from)
    models = tuple(
        ModelHeld(
            name=item.name,
            sha256=item.sha256,
            over_from=alone.decision.over_from,
            under_to=alone.decision.under_to,
            minors=shares(rule, over_N, minor_N),
            adults=shares(rule, over_N, adult_N),
        )
        for item, alone, over_N in zip(answers, fitted, over, strict=True)
    )
    return _record(rule, limits, people, by, fitted[0], models), fitted


def _fitted(
    over: Sequence[Array], people: People, limits: Limits, by: str | None
) -> tuple[FittedThreshold, ...]:
    """What each model would do with by itself; says how many people were left out where too few are
    left.
    """
    groups = (
        None
        if by is None
        else [None if value == UNKNOWN else value for value in people.attributes[by]]
    )
    try:
        return tuple(
            fit_decision(over_N, people.age_N, people.person_N, limits, groups, by or "")
            for over_N in over
        )
    except DataError as error:
        if not people.left_out or people.apart != "other data":
            raise
        why = (
            f"{error.why}; {people.left_out} pictures are left out, for the training has their "
            "names or their pixels"
        )
        raise DataError(error.what, why, error.fix) from error


def _record(
    rule: Decision,
    limits: Limits,
    people: People,
    by: str | None,
    first: FittedThreshold,
    models: tuple[ModelHeld, ...],
) -> DecisionRecord:
    """What a bundle carries; people are counted as the first model was fitted on them."""
    groups = tuple(
        GroupHeld(
            name=str(cuts.name),
            minors=cuts.minors.people,
            adults=cuts.adults.people,
            holds=cuts.holds,
        )
        for cuts in first.groups
    )
    return DecisionRecord(
        schema="unplug-decision/1",
        age=rule.age,
        over_from=rule.over_from,
        under_to=rule.under_to,
        max_fpr=limits.max_fpr,
        max_fnr=limits.max_fnr,
        method=limits.method,
        minors_from=limits.minors_from,
        confidence=None if limits.method == "conformal" else limits.confidence,
        minors=first.whole.minors.people,
        adults=first.whole.adults.people,
        data_digest=str(people.data["digest"]),
        apart="said" if people.apart == "unknown" else people.apart,
        by=by,
        groups=groups,
        models=models,
    )


def runnable(
    models: Sequence[Path], trust: Trust | None = None
) -> tuple[list[Path], dict[str, str]]:
    """Checkpoints and exported files that are named, and those of named bundles, as far as they can
    run on this machine.

    Args:
        models: checkpoints, exported files and bundles.
        trust: the keys that may have signed the bundles.

    Returns:
        What runs, and file name to reason of what does not.

    Raises:
        InputError, BundleCheckFailed: see `artifact_paths`.
    """
    runs, skipped = [], {}
    for path in models:
        if (path / "config.json").is_file():
            runs.append(path)
            continue
        for name in artifact_paths([path], trust, members=True):
            if (reason := not_run_here(load_artifact(name))) is None:
                runs.append(name)
            else:
                skipped[name_in(name, path)] = reason
    return runs, skipped


def shares(rule: Decision, over_N: Array, side_N: NDArray[np.bool_]) -> Share:
    """What a rule answers of the pictures of one side.

    Args:
        rule: the rule of the decision.
        over_N: P(age >= T) of N pictures.
        side_N: True for the pictures that are meant, at least one.
    """
    answers = rule.answers(over_N[side_N])
    over, under, unsure = (
        answers.count(word) / len(answers) for word in ("over", "under", "unsure")
    )
    return Share(pictures=len(answers), over=over, under=under, unsure=unsure)


def _check(people: People, limits: Limits, by: str | None, unseen: bool) -> None:
    where = f"data {people.data['spec']}"
    if people.apart == "unknown" and not unseen:
        why = (
            "nothing says whom the model learned from, and a threshold fitted on people of its "
            "training holds for nobody else"
        )
        raise DataError(
            where,
            why,
            "Give the `checkpoint` of the file, or say `unseen_people` where you know it",
        )
    if people.ranges is not None and limits.age not in people.ranges:
        pairs = itertools.pairwise(people.ranges)
        around = next(
            (f"{low:g} to {high:g}" for low, high in pairs if low < limits.age < high),
            "none of them holds it",
        )
        why = f"its ages are ranges, and {limits.age:g} is not one of their borders ({around})"
        raise DataError(
            where, why, "Ask for an age that is a border, or give data with ages in years"
        )
    if by is not None and by not in people.attributes:
        known = ", ".join(sorted(people.attributes)) or "none"
        why = f"the data have no such attribute (they have: {known})"
        raise InputError(f"`by={by}`", why, "Name one of them, or leave `by` out")
