"""Whether a step moved the decision: planted shifts are seen, harmless ones pass, and few people
show nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from unplug.core import DataError
from unplug.sdk.drawing.inference import Decision
from unplug.sdk.evidence.assurance.shift import (
    Shift,
    calibration_error,
    decision_shift,
    people_for,
    rate_change,
)

RULE = Decision(age=18.0, over_from=0.8, under_to=0.2)
GROUPS = ("a", "b")


def people(count: int = 1200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ages and well calibrated P(age >= 18)."""
    rng = np.random.default_rng(seed)
    over_N = rng.beta(0.25, 0.25, count)
    age_N = np.where(rng.uniform(size=count) < over_N, 30.0, 12.0)
    return age_N, over_N


def shift_of(after_N: np.ndarray, **more: object) -> Shift:
    age_N, over_N = people(len(after_N))
    group_N = [GROUPS[number % 2] for number in range(len(after_N))]
    more = {"group_N": group_N, "name": "after", "sha256": "0" * 64} | more
    return decision_shift(over_N, after_N, age_N, np.arange(len(age_N)), RULE, **more)


def moved(by: float) -> np.ndarray:
    """P(age >= 18) with all logits moved."""
    return expit(logit(people()[1]) + by)


def test_a_step_that_changes_next_to_nothing_is_seen_to() -> None:
    rng = np.random.default_rng(1)
    result = shift_of(np.clip(people()[1] + rng.normal(0, 0.002, 1200), 0.0, 1.0))
    for change in (result.false_positives, result.false_negatives, result.calibration):
        assert -0.02 < change.low <= change.value <= change.high < 0.02


@pytest.mark.parametrize("by", [2.0, -2.0])
def test_a_step_that_moves_the_decision_is_seen(by: float) -> None:
    """All look older, or younger: one side errs more, and in either case the probabilities are off."""
    result = shift_of(moved(by))
    worse, better = (result.false_positives, result.false_negatives)[:: int(np.sign(by))]
    assert worse.low > 0.01 and better.high <= 0.01
    assert result.calibration.low > 0.05
    assert all(0 <= end <= 1 for end in result.gap)


def test_a_shift_in_one_group_shows_in_that_group() -> None:
    over_N = people()[1]
    after_N = over_N.copy()
    after_N[1::2] = moved(3.0)[1::2]
    a, b = shift_of(after_N).groups
    assert a.change.high < 0.05 < b.change.low
    assert a.people + b.people == (people()[0] < 18).sum()
    before, after = shift_of(after_N).gap
    assert after > before + 0.05


def test_nobody_changed_among_few_is_no_evidence() -> None:
    """A bootstrap of no change has no width; the interval of a count has."""
    nobody = np.zeros(50, bool)
    assert rate_change(nobody, nobody).high > 0.05
    enough = np.zeros(people_for(0.02), bool)
    assert rate_change(enough, enough).high <= 0.02 < rate_change(enough[1:], enough[1:]).high


def test_the_change_of_a_rate_is_inside_its_interval_as_often_as_said() -> None:
    """2,000 draws of 200 people, of whom 4 % become wrong and 2 % right: each end is missed in at
    most 5 %.
    """
    rng = np.random.default_rng(2)
    missed = np.zeros(2)
    for _ in range(2000):
        kind = rng.choice(4, 200, p=[0.04, 0.02, 0.04, 0.9])
        result = rate_change(np.isin(kind, [1, 2]), np.isin(kind, [0, 2]))
        missed += [result.low > 0.02, result.high < 0.02]
    assert (missed / 2000 <= 0.05).all()


def test_calibration_error_by_a_loop() -> None:
    rng = np.random.default_rng(3)
    over_N, adult_N = rng.uniform(size=300), rng.uniform(size=300) < 0.4
    weight_N = rng.integers(0, 3, 300)
    slow = 0.0
    for low in range(10):
        inside = [i for i in range(300) if min(int(over_N[i] * 10), 9) == low]
        slow += abs(sum(weight_N[i] * (over_N[i] - adult_N[i]) for i in inside)) / weight_N.sum()
    assert calibration_error(over_N, adult_N, weight_N[None])[0] == pytest.approx(slow)


def test_a_person_is_wrong_where_one_of_her_pictures_is() -> None:
    age_N, person_N = np.r_[np.full(10, 12.0), np.full(10, 30.0)], np.repeat(np.arange(10), 2)
    before_N = np.r_[np.full(10, 0.1), np.full(10, 0.9)]
    after_N = before_N.copy()
    after_N[[0, 1, 10]] = 0.95, 0.95, 0.05  # both pictures of one minor, one of one adult
    result = decision_shift(before_N, after_N, age_N, person_N, RULE, name="after", sha256="0" * 64)
    changes = result.false_positives.value, result.false_negatives.value
    assert changes == pytest.approx((0.2, 0.2))


def test_data_without_minors() -> None:
    with pytest.raises(DataError, match="0 pictures of minors"):
        decision_shift(
            *(np.ones(9), np.ones(9), np.full(9, 30.0), np.arange(9)), RULE, name="", sha256=""
        )
