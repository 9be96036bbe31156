"""Ratios of sums over pictures and trainings, and their paired differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unplug.sdk.diffusion.compare.bootstrap import Draws, Shares, difference, estimate, make_draws

NAN = math.nan


def test_means_leave_out_what_has_no_number() -> None:
    assert Shares.of_values(np.array([[1.0, NAN, 4.0]])).value == 2.5
    assert math.isnan(Shares.of_values(np.array([[NAN, NAN]])).value)


def test_replicates_by_hand() -> None:
    draws = Draws(picture_RM=np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]]), training_RS=np.array([[2.0, 0.0], [1.0, 1.0]]))
    one = Shares.of_values(np.array([[1.0, 5.0, 4.0]]))
    assert one.replicates(draws).tolist() == [(2 * 1 + 4) / 3, 5.0]
    two = Shares.of_values(np.array([[1.0, 5.0, 4.0], [7.0, NAN, 1.0]]))
    assert two.replicates(draws).tolist() == [2.0, 5.0]


def test_a_replicate_without_a_picture_that_counts_is_left_out() -> None:
    draws = Draws(picture_RM=np.array([[0.0, 2.0], [2.0, 0.0], [1.0, 1.0]]), training_RS=np.ones((3, 1)))
    shares = Shares.of_values(np.array([[3.0, NAN]]))
    assert math.isnan(shares.replicates(draws)[0])
    assert estimate(shares, draws).low == estimate(shares, draws).high == 3.0


def test_differences_use_the_pictures_that_count_in_both() -> None:
    draws = make_draws(np.arange(3), 1, seed=0, replicates=50)
    row, reference = Shares.of_values(np.array([[5.0, 1.0, NAN]])), Shares.of_values(np.array([[1.0, NAN, 9.0]]))
    found = difference(row, reference, draws)
    assert found is not None and (found.value, found.low, found.high) == (4.0, 4.0, 4.0)
    assert difference(row, Shares.of_values(np.array([[NAN, NAN, 1.0]])), draws) is None


def test_a_row_with_one_training_meets_each_of_the_others() -> None:
    draws = make_draws(np.arange(4), 2, seed=1, replicates=400)
    reference = Shares.of_values(np.array([[1.0] * 4, [3.0] * 4]))
    found = difference(Shares.of_values(np.full((1, 4), 2.0)), reference, draws)
    assert found is not None and (found.value, found.low, found.high) == (0.0, -1.0, 1.0)


def test_pairing_narrows_the_interval() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(1, 60)) * 10
    row = base + 0.5 + 0.1 * rng.normal(size=(1, 60))
    draws = make_draws(np.arange(60), 1, seed=0)
    paired = difference(Shares.of_values(row), Shares.of_values(base), draws)
    alone = estimate(Shares.of_values(row), draws)
    assert paired is not None and paired.low > 0.4 and paired.high < 0.6
    assert alone.high - alone.low > 2.0


def test_the_interval_of_a_mean_has_the_textbook_width() -> None:
    values = np.random.default_rng(3).normal(size=(1, 400))
    found = estimate(Shares.of_values(values), make_draws(np.arange(400), 1, seed=0))
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * values.std() / 20, rel=0.12)


def test_pictures_of_one_person_are_drawn_together() -> None:
    draws = make_draws(np.array([0, 0, 1, 2]), 1, seed=0, replicates=200)
    assert np.array_equal(draws.picture_RM[:, 0], draws.picture_RM[:, 1])
    assert not np.array_equal(draws.picture_RM[:, 0], draws.picture_RM[:, 2])
    assert np.array_equal(draws.picture_RM[:, [0, 2, 3]].sum(axis=1), np.full(200, 3.0))


def test_trainings_widen_the_interval() -> None:
    values = np.array([[1.0] * 8, [2.0] * 8])
    found = estimate(Shares.of_values(values), make_draws(np.arange(8), 2, seed=0))
    assert (found.value, found.low, found.high) == (1.5, 1.0, 2.0)
