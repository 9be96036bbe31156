"""Rungs cost about the same, and who is left is the best."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from unplug.sdk.searching.halving import KEEP, at_random, best, rungs


@given(candidates=st.integers(1, 300), epochs=st.integers(1, 500))
def test_rungs_end_with_one_full_training(candidates: int, epochs: int) -> None:
    steps = rungs(candidates, epochs)
    counts, trained = zip(*steps, strict=True)
    assert (counts[0], counts[-1], trained[-1]) == (candidates, 1, epochs)
    assert [*trained] == sorted(trained)
    assert all(later == max(1, earlier // KEEP) for earlier, later in pairwise(counts))


@given(power=st.integers(0, 4), epochs=st.integers(1, 20))
def test_each_rung_costs_as_much_as_one_full_training(power: int, epochs: int) -> None:
    candidates, full = KEEP**power, epochs * KEEP**power
    assert [count * trained for count, trained in rungs(candidates, full)] == [full] * (power + 1)
    assert at_random(candidates, full) == power + 1


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 9), min_size=1))
def test_the_best_are_those_that_no_other_beats(errors: dict[str, float]) -> None:
    left = best(errors, 3)
    assert max(errors[name] for name in left) <= min(
        [error for name, error in errors.items() if name not in left], default=9.0
    )
