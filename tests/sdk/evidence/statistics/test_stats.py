"""Every statistic against its definition: all pairs, loops, simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from tests.intervals import ends

from unplug.core import InputError
from unplug.sdk.evidence.statistics import (
    Estimate,
    NotGiven,
    Resamples,
    auc,
    bootstrap_auc,
    interval,
    logistic_accuracy,
    mean_estimate,
    resamples,
    roc,
    share,
    simultaneous,
    threshold_accuracy,
    tpr_estimate,
    tpr_or_reason,
)
from unplug.sdk.evidence.statistics.separation import fit_logistic
from unplug.sdk.learning.training import ClassPredictions

Array = NDArray[np.float64]

SCORES = st.lists(
    st.integers(-3, 3).map(float) | st.floats(-1e6, 1e6), min_size=1, max_size=25
).map(np.array)
"""Few distinct integers among floats: many ties."""


def pairs_auc(forget_F: Array, unseen_U: Array) -> float:
    """The definition: P(s_f > s_u) + P(s_f = s_u) / 2, over all pairs."""
    wins = [(f > u) + 0.5 * (f == u) for f in forget_F for u in unseen_U]
    return float(np.mean(wins))


@given(SCORES, SCORES)
def test_auc_equals_all_pairs(forget_F: Array, unseen_U: Array) -> None:
    assert auc(forget_F, unseen_U) == pytest.approx(pairs_auc(forget_F, unseen_U), abs=1e-12)
    assert auc(forget_F, unseen_U) + auc(unseen_U, forget_F) == pytest.approx(1.0, abs=1e-12)


@given(SCORES, SCORES)
def test_roc_rises_from_corner_to_corner_and_holds_the_auc(
    forget_F: Array, unseen_U: Array
) -> None:
    false, true = roc(forget_F, unseen_U)
    assert (false[0], true[0], false[-1], true[-1]) == (0.0, 0.0, 1.0, 1.0)
    assert (np.diff(false) >= 0).all() and (np.diff(true) >= 0).all()
    area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))
    assert area == pytest.approx(auc(forget_F, unseen_U), abs=1e-9)


def test_tpr_by_hand_and_refused_where_the_sample_cannot_support_it() -> None:
    unseen_U = np.arange(100.0)  # at a rate of 0.1 scores of 90 to 99 pass, and 89 does not
    assert tpr_or_reason(np.array([88.5, 90.0, 95.0, 200.0]), unseen_U, 0.1) == 0.75
    assert tpr_or_reason(np.array([0.0, 1.0]), unseen_U, 0.1) == 0.0
    # A tie that would let too many through is not split: the rate is at most the one asked for.
    assert tpr_or_reason(np.full(4, 5.0), np.full(100, 5.0), 0.1) == 0.0
    forget_F, unseen_U = np.linspace(0, 1, 50), np.linspace(0, 1, 99)
    assert isinstance(tpr_or_reason(forget_F, unseen_U, 0.1), NotGiven)  # 9.9 false positives
    assert isinstance(tpr_or_reason(forget_F, np.linspace(0, 1, 100), 0.1), float)
    refused = tpr_or_reason(np.arange(50.0), np.arange(999.0), 0.01)
    assert isinstance(refused, NotGiven)
    assert "at least 1000 unseen samples, 999 given" in refused.reason


def test_threshold_accuracy_on_noise_on_separable_scores_and_on_gaussians() -> None:
    rng = np.random.default_rng(0)
    noise: list[Any] = [
        threshold_accuracy(rng.normal(size=200), rng.normal(size=300), seed=n) for n in range(20)
    ]
    assert abs(np.mean(noise) - 0.5) < 0.02
    assert threshold_accuracy(rng.normal(5, 0.1, size=40), rng.normal(-5, 0.1, size=60)) == 1.0
    # Balanced: an attack that calls everybody a member of a large forget set wins nothing.
    assert threshold_accuracy(np.zeros(500), np.zeros(20)) == 0.5
    assert threshold_accuracy(rng.normal(size=9), rng.normal(size=50)) is None
    # Best threshold of N(d, 1) against N(0, 1): Phi(d / 2).
    rng = np.random.default_rng(1)
    value = threshold_accuracy(rng.normal(2.0, 1.0, size=4000), rng.normal(0.0, 1.0, size=4000))
    assert value == pytest.approx(0.5 * (1 + math.erf(1 / math.sqrt(2))), abs=0.015)


def naive_bootstrap(forget_F: Array, unseen_U: Array, draws: Resamples) -> Array:
    """The definition, one replicate and one pair at a time."""
    values = []
    for weight_F, weight_U in zip(draws.forget_RF, draws.unseen_RU, strict=True):
        wins = total = 0.0
        for score_f, w_f in zip(forget_F, weight_F, strict=True):
            for score_u, w_u in zip(unseen_U, weight_U, strict=True):
                wins += w_f * w_u * ((score_f > score_u) + 0.5 * (score_f == score_u))
                total += w_f * w_u
        values.append(wins / total)
    return np.array(values)


@pytest.mark.parametrize("seed", range(2))
def test_bootstrap_auc_equals_the_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides = [rng.integers(0, 6, count).astype(float) for count in (14, 17)]  # many ties
    draws = resamples(rng.integers(0, 6, 14), rng.integers(0, 9, 17), replicates=30, seed=seed)
    slow = naive_bootstrap(*sides, draws)
    np.testing.assert_allclose(bootstrap_auc(*sides, draws), slow, atol=1e-12)


def test_resampling_keeps_subjects_together_and_follows_from_the_seed() -> None:
    subjects_F, subjects_U = np.array([0, 0, 0, 1, 2, 2, 7]), np.arange(5)
    draws = resamples(subjects_F, subjects_U, replicates=400, seed=0)
    for person in np.unique(subjects_F):
        columns = draws.forget_RF[:, subjects_F == person]
        assert (columns == columns[:, :1]).all()
    assert len(np.unique(draws.forget_RF[:, 0])) > 1
    # As many people as there are, drawn with replacement: one column of each adds up to their
    # number.
    people = draws.forget_RF[:, [0, 3, 4, 6]]
    assert (people.sum(axis=1) == 4).all()
    assert (draws.unseen_RU.sum(axis=1) == 5).all()
    assert people.mean() == pytest.approx(1.0)
    one, same, other = (
        resamples(np.arange(9), np.arange(9), replicates=20, seed=seed) for seed in (1, 1, 2)
    )
    assert (one.forget_RF == same.forget_RF).all() and (one.unseen_RU == same.unseen_RU).all()
    assert (one.forget_RF != other.forget_RF).any()
    assert (one.forget_RF != one.unseen_RU).any(), "both sides share their draws"


def test_copies_of_a_person_do_not_narrow_an_interval() -> None:
    rng = np.random.default_rng(5)
    forget_F, unseen_U = rng.normal(size=30), rng.normal(size=30)
    single = interval(bootstrap_auc(forget_F, unseen_U, resamples(np.arange(30), np.arange(30))))
    copies = np.repeat(np.arange(30), 10)
    repeated = interval(
        bootstrap_auc(forget_F[copies], unseen_U[copies], resamples(copies, copies))
    )
    assert repeated == pytest.approx(single, abs=1e-9)


def test_confidence_and_intervals_by_hand() -> None:
    # p = (.5, .3, .2): ln(.5 / .5) = 0 for the first class, ln(.2 / .8) for the last.
    rows = [list(np.log([0.5, 0.3, 0.2]) + 7.0)] * 2
    np.testing.assert_allclose(
        of_logits(rows, [0, 2]).confidence_N, [0.0, math.log(0.25)], atol=1e-12
    )
    phi = of_logits([[900.0, 0.0, 0.0], [-900.0, 0.0, 0.0]], [0, 0]).confidence_N
    np.testing.assert_allclose(phi, [900.0 - math.log(2), -900.0 - math.log(2)])
    with pytest.raises(InputError, match="no second class"):
        print(of_logits([[1.0]], [0]).confidence_N)
    assert interval(np.arange(0.0, 101.0)) == pytest.approx((2.5, 97.5))
    assert interval(np.arange(0.0, 101.0), 0.5) == pytest.approx((25.0, 75.0))
    values_N = np.random.default_rng(7).normal(3.0, 2.0, size=400)
    low, high = ends(mean_estimate(values_N, np.arange(400), 0))
    error = 1.96 * values_N.std() / 20
    assert (low, high) == pytest.approx(values_N.mean() + np.array([-error, error]), abs=0.05)
    values = np.arange(8.0)
    few = mean_estimate(values, np.array([1, 1, 1, 1, 2, 2, 3, 4]), 0)
    assert few == Estimate(value=3.5)
    low, high = ends(mean_estimate(values, np.arange(8), 0))
    assert low < 3.5 < high


def test_auc_interval_covers_the_truth_with_people_of_three_pictures() -> None:
    """Scores share a person's own offset. Resampling pictures instead of people covers far less
    often.
    """
    # difference of two N(., 2), shifted by 1: Phi(1 / 2)
    truth = 0.5 * (1 + math.erf(1.0 / 2 / math.sqrt(2)))
    rng, covered, naive = np.random.default_rng(12), 0, 0
    people = np.repeat(np.arange(40), 3)
    for number in range(80):
        person_F, person_U = rng.normal(size=40)[people], rng.normal(size=40)[people]
        forget_F, unseen_U = 1.0 + person_F + rng.normal(size=120), person_U + rng.normal(size=120)
        for subjects in (people, np.arange(120)):
            low, high = interval(
                bootstrap_auc(
                    forget_F, unseen_U, resamples(subjects, subjects, replicates=300, seed=number)
                )
            )
            if subjects is people:
                covered += low <= truth <= high
            else:
                naive += low <= truth <= high
    assert 0.90 <= covered / 80 <= 0.99
    assert naive < covered


def of_logits(logits: list[list[float]], groups: list[int]) -> ClassPredictions:
    none = np.full(len(groups), np.nan)
    return ClassPredictions(
        logits_NG=np.array(logits), age_N=none, true_age_N=none, true_group_N=np.array(groups)
    )


def test_logistic_fit_minimizes_its_objective_and_stays_finite() -> None:
    # Against a general optimizer on the definition.
    rng = np.random.default_rng(2)
    one, zero = rng.gamma(1.0, 1.0, 40), rng.gamma(3.0, 2.0, 90)
    x, t = np.r_[one, zero], np.r_[np.ones(40), -np.ones(90)]
    c = np.r_[np.full(40, 130 / 80), np.full(90, 130 / 180)]

    def objective(theta: Array) -> float:
        return float(
            (c * np.logaddexp(0, -t * (theta[0] + theta[1] * x))).sum()
            + 0.5 * (theta[1] * x.std()) ** 2
        )

    best = minimize(objective, np.zeros(2), tol=1e-12)
    np.testing.assert_allclose(fit_logistic(one, zero), best.x, atol=1e-4)
    bias, slope = fit_logistic(np.full(20, -1.0), np.full(30, 1.0))
    assert math.isfinite(slope) and slope < 0 and bias == pytest.approx(0.0, abs=1e-9)
    assert fit_logistic(np.zeros(20), np.zeros(30)) == pytest.approx((0.0, 0.0))


def test_logistic_accuracy_interval_covers_and_small_sides_are_refused() -> None:
    # N(0, 1) against N(1, 1): Phi(1 / 2)
    truth, covered = 0.5 * (1 + math.erf(0.5 / math.sqrt(2))), 0
    rng, draws = np.random.default_rng(4), resamples(np.arange(80), np.arange(80), replicates=200)
    for _ in range(60):
        result = logistic_accuracy(rng.normal(0, 1, 80), rng.normal(1, 1, 80), draws)
        low, high = ends(result)
        covered += low <= truth <= high
    assert covered >= 50  # of 60; 53 or more are likely at 95 %
    small = logistic_accuracy(
        np.zeros(9), np.zeros(50), resamples(np.arange(9), np.arange(50), replicates=5)
    )
    assert isinstance(small, NotGiven) and "10 folds" in small.reason


def test_intervals_of_rates_hold_the_value_and_of_several_attacks_are_wider() -> None:
    rng = np.random.default_rng(0)
    forget, unseen = rng.normal(1.0, 1.0, 200), rng.normal(0.0, 1.0, 400)
    draws = resamples(np.arange(200), np.arange(400), seed=1)
    result = tpr_estimate(forget, unseen, 0.1, draws)
    assert result.value == tpr_or_reason(forget, unseen, 0.1)
    # P(N(1, 1) > the 90 % quantile of N(0, 1)) = 1 - Phi(1.2816 - 1) = 0.389
    low, high = ends(result)
    assert low < 0.389 < high and high - low < 0.3
    assert isinstance(tpr_estimate(forget, unseen, 0.01, draws), NotGiven)
    apart = tpr_estimate(forget + 100, unseen, 0.1, draws)
    assert apart == Estimate(value=1.0, low=1.0, high=1.0)
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 4000))
    alone = simultaneous({"a": (0.0, one)})["a"]
    twins = simultaneous({"a": (0.0, one), "b": (0.0, 2 * one)})
    both = simultaneous({"a": (0.0, one), "b": (0.0, other)})["a"]
    assert alone.high == pytest.approx(1.96, abs=0.08)
    assert twins["a"].high == pytest.approx(alone.high)
    assert twins["b"].high == pytest.approx(2 * ends(alone)[1])
    assert both.high == pytest.approx(2.236, abs=0.09)  # (2 Phi(q) - 1)^2 = 0.95
    assert simultaneous({"a": (0.0, np.zeros(9))})["a"] == Estimate(value=0.0, low=0.0, high=0.0)


@pytest.mark.parametrize("people", [5, 8, 12, 30])
def test_intervals_over_few_people_cover_what_they_claim(people: int) -> None:
    """The mean of n Gaussian people; without the widening an interval over few of them covers less
    than it claims.
    """
    rng, covered, plain = np.random.default_rng(people), 0, 0
    for _ in range(600):
        drawn = rng.normal(size=people)
        weight_RP = rng.multinomial(people, np.full(people, 1 / people), size=400)
        gap_R = weight_RP @ drawn / people
        gaps = {"a": (float(drawn.mean()), gap_R)}
        wide, narrow = (ends(simultaneous(gaps, count)["a"]) for count in (people, None))
        covered += wide[0] <= 0.0 <= wide[1]
        plain += narrow[0] <= 0.0 <= narrow[1]
    assert 0.92 <= covered / 600 <= 0.98, covered
    assert people > 12 or plain / 600 < 0.93, plain


@given(st.integers(1, 60), st.data())
def test_exact_intervals_of_a_share_are_the_binomials(count: int, data: st.DataObject) -> None:
    """At either end as many or more, as few or fewer, are seen in one of forty."""
    events = data.draw(st.integers(0, count))
    found = share(events, count)
    low, high = ends(found)
    assert low <= found.value == events / count <= high

    def tail(p: float, least: int, most: int) -> float:
        return sum(
            math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(least, most + 1)
        )

    assert low == 0 if events == 0 else tail(low, events, count) == pytest.approx(0.025)
    assert high == 1 if events == count else tail(high, 0, events) == pytest.approx(0.025)
