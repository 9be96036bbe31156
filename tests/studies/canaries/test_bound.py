"""The one-run bound on epsilon: by hand, against randomized response whose epsilon is known, and
what is refused.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.studies.canaries.bound import (
    SHARES,
    canary_bound,
    check_canaries,
    choose_included,
    lower_bound,
    p_value,
    person_scores,
    wrong_ages,
)

from unplug.core import InputError

ARRAYS = Path(__file__).parents[2] / "sdk" / "evidence" / "auditing" / "golden_attacks.json"
GOLDEN = json.loads(ARRAYS.read_text())["one-run"]


@pytest.mark.parametrize("key", GOLDEN)
def test_p_values_of_one_run_are_the_papers(key: str) -> None:
    canaries, guesses, correct, epsilon, delta = key.split(",")
    found = p_value(int(canaries), int(guesses), int(correct), float(epsilon), float(delta))
    assert found == pytest.approx(GOLDEN[key], rel=1e-9)


def test_p_values_by_hand() -> None:
    assert p_value(8, 8, 8, 0.0, 0.0) == pytest.approx(2.0**-8)
    assert p_value(8, 8, 7, 0.0, 0.0) == pytest.approx(9 / 256)
    q = math.e / (1 + math.e)
    assert p_value(5, 5, 5, 1.0, 0.0) == pytest.approx(q**5)
    # Two guesses, both right, q = 1/2: beta 1/4; P[1 <= W < 2] = 1/2, P[0 <= W < 2] / 2 = 3/8.
    assert p_value(2, 2, 2, 0.0, 0.01) == pytest.approx(0.25 + 2 * 2 * 0.01 * 0.5)
    # All right: q^r = alpha at the bound.
    bound = lower_bound(40, 40, 40, 0.0, 0.05)
    assert (1 / (1 + math.exp(-bound))) ** 40 == pytest.approx(0.05)
    assert lower_bound(40, 40, 20, 0.0, 0.05) == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 1.0, pytest.param(3.0, marks=pytest.mark.long)])
def test_bounds_of_randomized_response_hold_and_come_near(epsilon: float) -> None:
    """A mechanism that says each coin rightly with probability e^eps / (1 + e^eps) is eps-private,
    and no better.
    """
    q, bounds = 1 / (1 + math.exp(-epsilon)), []
    for seed in range(200):
        included = choose_included(400, seed)
        rng = np.random.default_rng([seed, 7])
        answers = np.where(rng.random(400) < q, included, ~included)
        bounds.append(canary_bound(answers + 1e-3 * rng.random(400), included, delta=0.0).epsilon)
    assert np.mean(np.array(bounds) > epsilon) <= 0.05
    assert np.median(bounds) >= 0.55 * epsilon


def test_a_stronger_score_shows_more_and_never_more_than_most() -> None:
    included = choose_included(200, 1)
    noise = np.random.default_rng(2).normal(size=200)
    found = [canary_bound(noise + shift * included, included) for shift in (0.0, 1.0, 3.0, 30.0)]
    values = [item.epsilon for item in found]
    assert values == sorted(values) and values[0] < 0.5
    assert all(item.epsilon <= item.most for item in found)
    # Who is pushed below strangers stands out as much.
    assert canary_bound(noise - 3.0 * included, included).epsilon > 0.8 * values[2] > 0
    # Everything guessed right: the bound is what that many guesses can show.
    right = canary_bound(included.astype(float), included)
    assert right.correct >= 0.9 * right.guesses and right.guesses in {
        2 * round(share * 100) for share in SHARES
    }


def test_wrong_labels_are_wrong() -> None:
    true = np.random.default_rng(0).uniform(1, 85, 300)
    given = wrong_ages(true, 3)
    assert (np.abs(given - true) >= 10).all() and given.min() >= 1 and given.max() <= 85
    check_canaries(true, given)
    np.testing.assert_array_equal(given, wrong_ages(true, 3))
    scores = person_scores(np.array([1.0, 3.0, 5.0]), np.array([4, 4, 2]), [2, 4])
    np.testing.assert_array_equal(scores, [5.0, 2.0])


def test_what_is_refused() -> None:
    true = np.arange(30.0)
    with pytest.raises(InputError, match="1 of 30 have their true label"):
        check_canaries(true, np.append(true[:29] + 20, true[29]))
    for count in (0, 19):
        with pytest.raises(InputError, match=f"{count} of them show next to nothing.*20 people"):
            choose_included(count, 0)
    included = choose_included(30, 0)
    with pytest.raises(InputError, match="all or none"):
        canary_bound(true, np.ones(30, bool))
    with pytest.raises(InputError, match="not one number each"):
        canary_bound(np.where(true == 3, np.nan, true), included)
    with pytest.raises(InputError, match="not one number each"):
        canary_bound(true[:25], included)
    with pytest.raises(InputError, match="delta"):
        canary_bound(true, included, delta=1.0)
    with pytest.raises(InputError, match="no picture"):
        person_scores(np.ones(2), np.array([1, 2]), [3])
