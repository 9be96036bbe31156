"""Thresholds that hold a limit: against binomials by hand, against crepes, and over many draws of
people.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from unplug.core import DataError, InputError
from unplug.sdk.evidence.assurance.threshold import (
    STEP,
    FittedThreshold,
    Limits,
    Method,
    errors_allowed,
    fit_decision,
    needed,
    person_scores,
)
from unplug.sdk.evidence.statistics import upper_bound

DRAWS = 200
HELD = int(binom.ppf(0.999, DRAWS, 0.05))
"""Draws of 200 in which a limit that holds in 95 % of them is exceeded, with 0.1 % slack: 21."""


def people(
    count: int, rng: np.random.Generator, noise: float = 1.2
) -> tuple[np.ndarray, np.ndarray]:
    """Ages and P(age >= 18), overlapping around 18."""
    age_N = rng.uniform(5, 40, count)
    over_N = 1 / (1 + np.exp(-((age_N - 18) / 2.5 + rng.normal(0, noise, count))))
    return age_N, over_N


def alone(count: int) -> np.ndarray:
    """Everybody with one picture."""
    return np.arange(count)


def limits(share: float = 0.05, **more: object) -> Limits:
    return Limits(**({"age": 18.0, "max_fpr": share, "max_fnr": share} | more))


def fitted(**more: object) -> FittedThreshold:
    age_N, over_N = people(2000, np.random.default_rng(0))
    return fit_decision(over_N, age_N, alone(2000), limits(**more))


@pytest.mark.parametrize("people", [10, 58, 59, 299, 473, 1000])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_as_many_errors_as_the_upper_bound_allows(people: int, share: float) -> None:
    result = errors_allowed(people, share)
    most = -1 if result is None else result

    def bound(errors: int) -> float:
        return float(binomtest(errors, people).proportion_ci(0.90, "exact").high)

    assert (most < 0 or bound(most) <= share) and bound(most + 1) > share


@pytest.mark.parametrize("method", ["clopper-pearson", "conformal"])
@pytest.mark.parametrize("limit", [0.002, 0.01, 0.05, 0.5])
def test_one_person_fewer_is_too_few(method: Method, limit: float) -> None:
    fewest = needed(limit, method)
    assert (
        errors_allowed(fewest, limit, method) == 0
        and errors_allowed(fewest - 1, limit, method) is None
    )


def test_the_threshold_is_the_smallest_that_holds() -> None:
    """By trying every score: at the found one the bound of the errors is within the limit, at the
    next lower one it is not.
    """
    age_N, over_N = people(2000, np.random.default_rng(1))
    rule = fit_decision(over_N, age_N, alone(2000), limits()).decision
    minor_N, adult_N = over_N[age_N < 18], over_N[age_N >= 18]

    def bound(wrong_N: np.ndarray) -> float:
        return upper_bound(int(wrong_N.sum()), len(wrong_N))

    below, above = minor_N[minor_N < rule.over_from].max(), adult_N[adult_N > rule.under_to].min()
    assert bound(minor_N >= rule.over_from) <= 0.05 < bound(minor_N >= below)
    assert bound(adult_N <= rule.under_to) <= 0.05 < bound(adult_N <= above)


def true_rates(seed: int, method: Method) -> np.ndarray:
    """Shares of all minors called over and of all adults called under (R, 2), by rules that are
    fitted on 400 of many people each.
    """
    rng = np.random.default_rng(seed)
    age_N, over_N = people(400_000, rng)
    minors, adults = np.sort(over_N[age_N < 18]), np.sort(over_N[age_N >= 18])
    rates = []
    for _ in range(DRAWS):
        drawn = rng.integers(0, len(age_N), 400)
        asked = limits(method=method)
        rule = fit_decision(over_N[drawn], age_N[drawn], alone(400), asked).decision
        over = 1 - np.searchsorted(minors, rule.over_from) / len(minors)
        rates.append((over, np.searchsorted(adults, rule.under_to, side="right") / len(adults)))
    return np.array(rates)


def test_a_limit_is_exceeded_in_one_draw_of_twenty() -> None:
    exceeded = (true_rates(2, "clopper-pearson") > 0.05).sum(axis=0)
    assert (exceeded > 0).all() and (exceeded <= HELD).all()


def test_conformal_holds_on_average_and_no_more() -> None:
    over_R = true_rates(3, "conformal")[:, 0]
    assert np.mean(over_R) <= 0.05 + 3 * np.std(over_R) / np.sqrt(DRAWS)
    assert np.mean(over_R > 0.05) > 0.25  # what the other method's confidence is for


@pytest.mark.parametrize("limit", ["0.02", "0.05", "0.1"])
def test_conformal_answers_are_those_of_crepes(limit: str) -> None:
    raw = json.loads(Path(__file__).with_name("conformal.json").read_text())
    age_N, asked_N = np.array(raw["age"], float), np.array(raw["asked"])
    ask = limits(float(limit), method="conformal")
    result = fit_decision(np.array(raw["fitted"]), age_N, alone(len(age_N)), ask).decision.answers(
        asked_N
    )
    words = {(1, 0): "under", (0, 1): "over", (1, 1): "unsure"}
    assert result == [words[tuple(kept)] for kept in raw["sets"][limit]]


def test_a_person_with_many_pictures_counts_once_by_the_worst() -> None:
    assert person_scores(np.array([0.2, 0.9, 0.4, 0.3]), np.array([1, 0, 1, 2])).tolist() == [
        0.9,
        0.4,
        0.3,
    ]
    age_N, over_N = people(2000, np.random.default_rng(4))
    one = fit_decision(over_N, age_N, alone(2000), limits())
    twice = fit_decision(
        np.concatenate([over_N, over_N * 0.5]),
        np.tile(age_N, 2),
        np.tile(alone(2000), 2),
        limits(max_fnr=0.9),
    )
    assert twice.whole.minors == one.whole.minors  # their second pictures look younger
    assert twice.whole.adults.people == one.whole.adults.people


AGES = np.r_[np.full(100, 10.0), np.full(100, 30.0)]


def test_equal_scores_are_all_below_the_threshold() -> None:
    """The limit is of "at least", so a score that many minors share must not be answered over at
    all.
    """
    over_N = np.r_[np.full(50, 0.1), np.full(50, 0.7), np.full(100, 0.9)]
    result = fit_decision(over_N, AGES, alone(200), limits())
    assert result.whole.minors.at == pytest.approx(0.7 + STEP, abs=STEP / 10)
    assert result.decision.answers(np.array([0.7, 0.9])) == ["under", "over"]
    assert result.decision.over_from > 0.7


def test_a_model_that_never_errs_leaves_nobody_unsure() -> None:
    over_N = np.r_[np.linspace(0.0, 0.2, 100), np.linspace(0.8, 1.0, 100)]
    rule = fit_decision(over_N, AGES, alone(200), limits()).decision
    assert "unsure" not in rule.answers(over_N) and rule.over_from == pytest.approx(0.5)


def test_a_model_that_is_sure_of_a_minor_says_over_of_nobody() -> None:
    rule = fit_decision(np.ones(200), AGES, alone(200), limits()).decision
    assert rule.over_from > 1.0 and rule.answers(np.ones(1)) == ["unsure"]


def test_the_worst_group_decides_and_a_small_one_is_told() -> None:
    """Good on average and bad on one group of a tenth: the limit of everybody is exceeded there
    threefold, by group nowhere.
    """
    rng = np.random.default_rng(5)
    count = 6000
    age_N, over_N = people(count, rng)
    group_N = np.where(rng.uniform(size=count) < 0.1, "b", "a").tolist()
    group_N[:30] = ["c"] * 30
    worse_N = (np.array(group_N) == "b") & (age_N < 18)
    over_N = np.where(worse_N, np.minimum(1.0, over_N * 3), over_N)
    together = fit_decision(over_N, age_N, alone(count), limits())
    apart = fit_decision(over_N, age_N, alone(count), limits(), group_N, "region")
    assert (over_N[worse_N] >= together.decision.over_from).mean() > 0.15
    assert (over_N[worse_N] >= apart.decision.over_from).mean() <= 0.05
    a, b, c = apart.groups
    assert (a.name, b.name, c.name) == ("a", "b", "c")
    assert apart.decision.over_from == b.minors.at > together.decision.over_from
    assert not c.holds and c.minors.at is None and c.minors.needed == 59


def test_minors_from_leaves_children_out() -> None:
    every, near = fitted(), fitted(minors_from=14.0)
    assert near.whole.minors.people < every.whole.minors.people
    assert near.decision.over_from > every.decision.over_from


SPREAD = np.arange(300) % 5
YOUNG, OLD = (np.r_[np.full(a, 9.0), np.full(b, 30.0)] for a, b in ((300, 40), (40, 300)))


@pytest.mark.parametrize(
    ("age_N", "more", "why"),
    [
        (30.0 + SPREAD, {}, "no minors, so nothing is known of errors below 18"),
        (np.tile([5.0, 30.0], 150), {"minors_from": 14.0}, "no minors from 14 years on"),
        (9.0 + SPREAD, {}, "no adults"),
        (np.full(300, 30.0), {}, "everybody in it is 30 years old"),
        (OLD, {"share": 0.01}, "it takes 299 minors .* the data have 40"),
        (OLD, {"share": 0.01, "method": "conformal"}, "it takes 99 minors"),
        (YOUNG, {"share": 0.01}, "it takes 299 adults"),
    ],
)
def test_what_the_data_cannot_support(age_N: np.ndarray, more: dict[str, object], why: str) -> None:
    with pytest.raises(DataError, match=why) as refused:
        fit_decision(np.linspace(0, 1, len(age_N)), age_N, alone(len(age_N)), limits(**more))
    assert "\n" not in str(refused.value)


def test_a_group_that_half_of_them_have_not() -> None:
    age_N, over_N = people(400, np.random.default_rng(6))
    with pytest.raises(DataError, match="'sex': nobody knows it of 200 of 400 people"):
        fit_decision(over_N, age_N, alone(400), limits(), ["f", None] * 200, "sex")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"max_fpr": 0.0}, "not a share between"),
        ({"max_fnr": 1.5}, "not a share between"),
        ({"max_fpr": float("nan")}, "not a share"),
        ({"method": "mondrian"}, "no such method"),
        ({"minors_from": 18.0}, "nobody is a minor at 18"),
        ({"minors_from": float("nan")}, "nobody is a minor"),
        ({"age": 0.0}, "age 0: nobody is under it"),
        ({"age": float("nan")}, "age nan"),
        ({"age": float("inf")}, "it is not a number"),
    ],
)
def test_limits_out_of_range(more: dict[str, object], why: str) -> None:
    with pytest.raises(InputError, match=why):
        limits(**more)
