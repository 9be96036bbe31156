"""Who meets whom in the attacks of a leaderboard."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.sdk.studies.leaderboard.membership import match, nomus


def test_unseen_samples_have_the_forget_sets_proportions() -> None:
    forget_F = np.array([0] * 10 + [1] * 30)
    unseen_U = np.array([0] * 50 + [1] * 60 + [2] * 500)
    found = match(forget_F, unseen_U, seed=0)
    groups, counts = np.unique(unseen_U[found.unseen], return_counts=True)
    # Group 1 is the scarce one: 60 are three quarters of 80, so 20 of group 0 join them.
    assert dict(zip(groups.tolist(), counts.tolist(), strict=True)) == {0: 20, 1: 60}
    assert len(found.forget) == 40 and found.enough


def test_forget_samples_that_meet_nobody_are_left_out() -> None:
    found = match(np.array([0, 0, 9]), np.array([0] * 20), seed=0)
    assert found.forget.tolist() == [0, 1] and not found.enough
    assert not match(np.array([9] * 20), np.array([0] * 20), seed=0).enough


def test_evaluation_seeds_draw_other_samples() -> None:
    forget_F, unseen_U = np.array([0, 1] * 10), np.array([0] * 100 + [1] * 20)
    draws = [match(forget_F, unseen_U, seed=seed).unseen for seed in (0, 0, 1)]
    assert np.array_equal(draws[0], draws[1]) and not np.array_equal(draws[0], draws[2])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_no_sample_twice_and_shares_within_one(forget: list[int], unseen: list[int]) -> None:
    forget_F, unseen_U = np.array(forget), np.array(unseen)
    found = match(forget_F, unseen_U, seed=0)
    assert len(set(found.unseen.tolist())) == len(found.unseen)
    kept = forget_F[found.forget]
    for group in np.unique(kept):
        wanted = (kept == group).mean() * len(found.unseen)
        assert abs((unseen_U[found.unseen] == group).sum() - wanted) <= 2


@pytest.mark.parametrize(("accuracy", "attack", "expected"), [(1, 0.5, 1.0), (0, 1, 0.0), (0.4, 0.5, 0.7), (0.6, 0.4, 0.7)])
def test_nomus(accuracy: float, attack: float, expected: float) -> None:
    assert nomus(accuracy, attack) == pytest.approx(expected)
