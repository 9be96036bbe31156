"""``--protocol fate-aev``: the numbers of `fate` and `groups` for one model, and the data that they
cannot be had of.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unplug.core import Array, DataError
from unplug.sdk.evidence.statistics import Estimate, PeopleDraws

from .answers import Answers
from .evaluation_report import ModelEvaluation, Rate
from .exact import people_needed, rate
from .fate import (
    ADULT,
    BALANCED_SEXES,
    balanced_mae,
    challenge,
    cumulative,
    det,
    teenagers,
    year_rows,
)
from .groups import cells, group_rows, usable, worst_of
from .people import People
from .protocol import AgeProtocol, Asking

CHALLENGES = (18.0, 21.0, 23.0, 25.0)
DET_AGE = 18.0


def check(people: People) -> None:
    """Refuses people of whom these numbers cannot be had.

    Raises:
        DataError: ages that are known as ranges, ages of one year only, or nobody under 18.
    """
    what = f"data {people.data['spec']}"
    if people.ranges is not None:
        borders = ", ".join(f"{edge:g}" for edge in people.ranges)
        why = (
            f"it knows ages as ranges with the borders {borders}, and these numbers are of single "
            "years"
        )
        raise DataError(what, why, "Give data with an age in years for every picture")
    years = np.unique(np.floor(people.age_N))
    if len(years) == 1:
        why = f"all {len(people)} pictures are of age {years[0]:.0f}, so nothing is compared"
        raise DataError(what, why, "Give data of several ages, minors and adults")
    if not (people.age_N < ADULT).any():
        needed = people_needed(0.01)
        why = (
            f"nobody of its {people.persons} people is under {ADULT:.0f}, so no false positive can "
            "be counted"
        )
        raise DataError(
            what, why, f"Give data with minors: 1 % at 95 % needs {needed} of them without an error"
        )


def measure(answers: Answers, first: Answers | None, asking: Asking) -> ModelEvaluation:
    """All numbers of one model.

    Args:
        answers: the model's answers for people that `check` lets pass.
        first: the first model of the report, over the same people, or None where it is this one.
        asking: limit, challenges and draws.

    Raises:
        InputError: a challenge age outside of the model's groups.
    """
    people = answers.people
    age_N, estimate_N, person_N = people.age_N, answers.expected_age_N, people.person_N
    error_N = estimate_N - age_N
    drawn = PeopleDraws(person_N=person_N, seed=asking.seed, replicates=asking.replicates)
    kept, refused = usable(people.attributes)
    masks = cells(kept)
    groups = group_rows(masks, age_N, error_N, drawn)
    worst = worst_of(groups)
    overall = _overall(error_N, first, age_N, drawn)
    fate_mae = _balanced(kept, age_N, error_N, drawn, refused)
    thresholds = asking.challenges or CHALLENGES
    # refuses what lies outside
    adult = {threshold: answers.over(threshold) for threshold in (*thresholds, DET_AGE)}
    curves = (det(estimate_N, age_N, "age"), det(adult[DET_AGE], age_N, "probability"))
    return ModelEvaluation(
        name=answers.name,
        sha256=answers.sha256,
        checkpoint_sha256=answers.checkpoint_sha256,
        target=answers.target,
        precision=answers.precision,
        runtime=answers.runtime,
        role=answers.role,
        parameters=answers.parameters,
        bytes=answers.bytes,
        edges=answers.edges,
        mae=overall["mae"],
        bias=overall["bias"],
        fate_mae=fate_mae,
        minus_first=overall.get("minus"),
        cumulative=cumulative(error_N, drawn),
        years=year_rows(age_N, error_N, drawn),
        groups=groups,
        worst_group=None if worst is None else worst.cell,
        challenges=tuple(
            challenge(t, age_N, estimate_N, person_N, masks, asking.limit) for t in thresholds
        ),
        teenagers=teenagers(age_N, estimate_N, person_N),
        det=tuple(curve for curve in curves if curve is not None),
        failures=_failures(people),
        seconds=answers.seconds,
        refused=refused,
    )


def _overall(
    error_N: Array, first: Answers | None, age_N: Array, drawn: PeopleDraws
) -> dict[str, Estimate]:
    everybody = np.ones(len(error_N), dtype=bool)
    wanted = {"mae": (np.abs(error_N), everybody), "bias": (error_N, everybody)}
    if first is not None:
        wanted["minus"] = (np.abs(error_N) - np.abs(first.expected_age_N - age_N), everybody)
    means = drawn.means(wanted)
    plain = {name: Estimate(value=float(values_N.mean())) for name, (values_N, _) in wanted.items()}
    return {name: means[name] or plain[name] for name in wanted}


def _balanced(
    kept: Mapping[str, tuple[str, ...]],
    age_N: Array,
    error_N: Array,
    drawn: PeopleDraws,
    refused: dict[str, str],
) -> Estimate | None:
    if "sex" not in kept:
        sexes = " or ".join(BALANCED_SEXES)
        refused["MAE of 26 cells"] = (
            f"no attribute sex says {sexes}, and it is the mean over both sexes of each age of 18 "
            "to 30"
        )
        return None
    mean, small = balanced_mae(age_N, error_N, kept["sex"], drawn)
    if mean is None:
        refused["MAE of 26 cells"] = (
            f"{small} of the cells (a sex at an age of 18 to 30) show fewer than 5 people"
        )
    return mean


def _failures(people: People) -> Rate:
    """Over all pictures of the data, each of a person of its own: who is in one that cannot be
    read, nobody knows.
    """
    # Which of them failed does not matter to a rate, so the first ones stand for them.
    failed_M = np.arange(people.listed) < len(people.failures)
    return rate(failed_M, np.ones(people.listed, dtype=bool), np.arange(people.listed))


FATE_AEV = AgeProtocol(
    name="fate-aev",
    summary=(
        "What NIST's Face Analysis Technology Evaluation of age estimation and verification "
        "reports (IR 8525): errors by year "
        "and by group, Challenge-T over minors, 13 to 16, false rejections of young adults, "
        "failures and time."
    ),
    check=check,
    measure=measure,
)
