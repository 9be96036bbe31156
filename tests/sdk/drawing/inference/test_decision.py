"""P(age >= T) and the three answers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import InputError
from unplug.sdk.drawing.inference import Decision, over_probability

EDGES = (0.0, 6.0, 13.0, 18.0, 30.0, 100.0)


def by_hand(logits: list[float], age: float) -> float:
    total = sum(map(math.exp, logits))
    above = 0.0
    for logit, (low, high) in zip(logits, itertools.pairwise(EDGES), strict=True):
        share = 1.0 if low >= age else 0.0 if high <= age else (high - age) / (high - low)
        above += math.exp(logit) / total * share
    return above


@given(st.lists(st.floats(-30, 30), min_size=5, max_size=5), st.floats(0.01, 99.9))
def test_the_groups_above_and_a_share_of_the_one_around(logits: list[float], age: float) -> None:
    assert over_probability(np.array([logits]), EDGES, age)[0] == pytest.approx(
        by_hand(logits, age), abs=1e-12
    )


@given(
    st.lists(st.floats(-30, 30), min_size=5, max_size=5),
    st.floats(0.01, 99.9),
    st.floats(0.01, 99.9),
)
def test_an_older_limit_is_never_more_probable(
    logits: list[float], one: float, other: float
) -> None:
    low, high = sorted((one, other))
    array = np.array([logits])
    assert over_probability(array, EDGES, high)[0] <= over_probability(array, EDGES, low)[0] + 1e-12


def test_logits_that_overflow_alone_are_fine() -> None:
    assert over_probability(np.array([[5000.0, 0, 0, 0, 5000.0]]), EDGES, 18.0)[0] == 0.5


@pytest.mark.parametrize("age", [0.0, 100.0, -1.0, 101.0, math.nan])
def test_an_age_outside_the_borders(age: float) -> None:
    with pytest.raises(InputError, match="no output speaks of"):
        over_probability(np.zeros((1, 5)), EDGES, age)


@pytest.mark.parametrize(
    ("over", "under"), [(0.5, 0.5), (0.2, 0.6), (math.nan, 0.1), (0.9, math.nan)]
)
def test_a_rule_that_crosses_is_refused(over: float, under: float) -> None:
    with pytest.raises(InputError):
        Decision(age=18.0, over_from=over, under_to=under)


def test_its_ends_belong_to_the_answers() -> None:
    rule = Decision(age=18.0, over_from=0.75, under_to=0.25)
    assert rule.answers(np.array([0.75, 0.7499, 0.25, 0.2501])) == [
        "over",
        "unsure",
        "under",
        "unsure",
    ]
