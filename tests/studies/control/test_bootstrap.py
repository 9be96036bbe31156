"""Ratios of sums over pictures and trainings, and their paired differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.studies.control.bootstrap import (
    Resampled,
    Shares,
    difference,
    estimate,
    make_draws,
    with_trainings,
)

from unplug.sdk.evidence.statistics import Estimate

NAN = math.nan


def test_replicates_by_hand() -> None:
    draws = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]])
    one = Shares.of_values(np.array([[1.0, 5.0, 4.0]]))
    assert one.replicates(draws).tolist() == [(2 * 1 + 4) / 3, 5.0]
    two = Shares.of_values(np.array([[1.0, 5.0, 4.0], [7.0, NAN, 1.0]]))
    assert two.replicates(draws).tolist() == [(2 * 1 + 4 + 2 * 7 + 1) / 6, 5.0]


def test_a_replicate_without_a_picture_that_counts_is_left_out() -> None:
    draws = np.array([[0.0, 2.0], [2.0, 0.0], [1.0, 1.0]])
    shares = Shares.of_values(np.array([[3.0, NAN]]))
    assert math.isnan(shares.replicates(draws)[0])
    assert estimate(shares, draws).low == estimate(shares, draws).high == 3.0


def test_differences_use_the_pictures_that_count_in_both() -> None:
    draws = make_draws(np.arange(3), seed=0, replicates=50)
    row, reference = (
        Shares.of_values(np.array([[5.0, 1.0, NAN]])),
        Shares.of_values(np.array([[1.0, NAN, 9.0]])),
    )
    gap = difference(row, reference, draws)
    assert gap is not None and (gap.value, gap.low, gap.high) == (4.0, 4.0, 4.0)
    assert difference(row, Shares.of_values(np.array([[NAN, NAN, 1.0]])), draws) is None


def test_pictures_of_one_person_are_drawn_together() -> None:
    draws = make_draws(np.array([0, 0, 1, 2]), seed=0, replicates=200)
    assert np.array_equal(draws[:, 0], draws[:, 1]) and not np.array_equal(draws[:, 0], draws[:, 2])
    assert np.array_equal(draws[:, [0, 2, 3]].sum(axis=1), np.full(200, 3.0))


# Several trainings


def test_two_trainings_use_students_t_by_hand() -> None:
    """Values 1 and 3: s = sqrt 2, s / sqrt 2 = 1, t with one degree of freedom 12.706."""
    still = Estimate(value=2.0, low=2.0, high=2.0)
    wide = with_trainings(still, np.array([1.0, 3.0]))
    assert (wide.low, wide.high) == pytest.approx((2 - 12.706, 2 + 12.706), abs=1e-3)
    assert with_trainings(still, np.array([1.0])) == with_trainings(still, np.array([1.0, NAN]))
    # added in quadrature
    wide = with_trainings(Estimate(value=0.0, low=-3.0, high=5.0), np.array([-1.0, 1.0]))
    assert (wide.low, wide.high) == pytest.approx(
        (-math.hypot(3.0, 12.706), math.hypot(5.0, 12.706)), abs=1e-3
    )


def test_differences_are_taken_training_by_training() -> None:
    """Both rows of a seed share its luck: the paired difference is the same in each, and trainings
    add nothing.
    """
    draws = make_draws(np.arange(4), seed=1, replicates=400)
    ours, reference = np.array([[1.0] * 4, [3.0] * 4]), np.array([[2.0] * 4, [4.0] * 4])
    paired = difference(Shares.of_values(ours), Shares.of_values(reference), draws)
    assert paired is not None and (paired.value, paired.low, paired.high) == (-1.0, -1.0, -1.0)
    crossed = difference(Shares.of_values(ours), Shares.of_values(reference[::-1]), draws)
    assert crossed is not None and crossed.value == -1.0 and crossed.low < -20 < 20 < crossed.high
    alone = difference(Shares.of_values(np.full((1, 4), 2.0)), Shares.of_values(ours), draws)
    assert (
        alone is not None and alone.value == 0.0 and alone.high == pytest.approx(12.706, abs=1e-3)
    )


def test_intervals_of_two_trainings_hold_the_truth_as_often_as_they_say() -> None:
    """Trainings scatter by 1, pictures by 0.5 of 100; drawn again with replacement, two trainings
    reach under half of it.
    """
    rng, inside = np.random.default_rng(5), 0
    for seed in range(60):
        values = rng.normal(size=(2, 1)) + 0.5 * rng.normal(size=(2, 100))
        interval = estimate(
            Shares.of_values(values), make_draws(np.arange(100), seed=seed, replicates=50)
        )
        inside += (
            interval.low is not None
            and interval.high is not None
            and interval.low <= 0.0 <= interval.high
        )
    assert inside >= 0.85 * 60


# Distances between sets


def resampled(value: float, *drawn: float) -> Resampled:
    return Resampled(value_S=np.array([value]), drawn_RS=np.array(drawn)[:, None])


def test_both_sides_of_a_ratio_are_moved_before_they_are_divided() -> None:
    """Replicates that are twice too large on both sides, by an amount that is added: their own
    ratios would say 1.2.
    """
    one, two = resampled(3.0, 5.0, 6.0, 7.0), resampled(2.0, 4.0, 5.0, 6.0)
    ratio = one.over(two)
    assert ratio is not None and ratio.value == 1.5
    assert ratio.low == pytest.approx(np.percentile([2 / 1, 3 / 2, 4 / 3], 2.5))
    assert ratio.high == pytest.approx(np.percentile([2 / 1, 3 / 2, 4 / 3], 97.5))


def test_a_ratio_needs_a_clearly_positive_distance_to_divide_by() -> None:
    one = resampled(1.0, 1.0, 1.0)
    assert one.over(resampled(0.0, 0.0, 0.0)) is None
    assert one.over(resampled(0.5, 1.0, 3.0)) is None  # moved onto 0.5 they are -0.5 and 1.5
    assert one.over(resampled(-0.5, 1.0, 1.0)) is None
    assert one.over(one) == Estimate(value=1.0, low=1.0, high=1.0)


def test_trainings_widen_a_distance() -> None:
    two = Resampled(value_S=np.array([1.0, 3.0]), drawn_RS=np.array([[1.0, 3.0], [1.0, 3.0]]))
    assert two.estimate.high == pytest.approx(2 + 12.706, abs=1e-3)
    assert two.minus(resampled(1.0, 1.0, 1.0)).low == pytest.approx(1 - 12.706, abs=1e-3)
    assert two.minus(two) == Estimate(value=0.0, low=0.0, high=0.0)
