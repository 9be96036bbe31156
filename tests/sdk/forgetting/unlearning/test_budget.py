"""Cost arithmetic, and a meter that refuses before the work."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import BudgetExceeded, InputError
from unplug.sdk.forgetting.unlearning import Cost, Meter, RetrainCost, slow_clock, summary


class Clock:
    """Seconds that only a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def retraining(passes: int = 1000, wall_s: float = 1000.0) -> RetrainCost:
    return RetrainCost(cost=Cost(forward=passes, backward=passes, wall_s=wall_s), source="test")


def test_a_backward_pass_counts_twice_and_a_charge_refuses_before_the_work() -> None:
    assert Cost(forward=7, backward=5, wall_s=9.0).compute == 17.0
    meter = Meter(retraining(), 0.05, Clock())  # 150 forward passes
    meter.charge(forward=50, backward=50)  # exactly the budget
    why = r"compute cost \(151\.0 forward passes\) is over 0\.05 of retraining"
    with pytest.raises(BudgetExceeded, match=why):
        meter.charge(forward=1, backward=0)


def test_wall_time_is_told_and_decides_nothing() -> None:
    """A text search beside a demo ended it with 7.2 s of 42.9 s; everything it had computed was
    lost.
    """
    clock, whole = Clock(), retraining(wall_s=1000.0)
    meter = Meter(whole, 0.05, clock)  # 50 s, and 5 s of which nothing is said
    clock.now += 54.9
    meter.charge(forward=1, backward=1)
    assert slow_clock(summary(meter.spent, whole, 0.05)) is None
    clock.now += 945.1
    meter.charge(forward=1, backward=1)
    assert slow_clock(summary(meter.spent, whole, 0.05)) == (
        "warning: 16 min 40 s is 100.0 % of the wall time of retraining (16 min 40 s), and the "
        "compute 0.2 %: the machine was busy, or the method does more than its passes"
    )


def test_without_a_budget_nothing_is_enforced() -> None:
    clock, whole = Clock(), retraining(passes=10)
    meter = Meter(whole, None, clock)
    meter.charge(forward=10**9, backward=10**9)
    clock.now += 1e9
    assert slow_clock(summary(meter.spent, whole, None)) is None
    assert meter.spent == Cost(forward=10**9, backward=10**9, wall_s=1e9)
    assert meter.training_passes() == 10


@pytest.mark.parametrize("budget", [0.0, -0.05, math.nan, math.inf, 100.1])
def test_bad_budgets(budget: float) -> None:
    with pytest.raises(InputError, match="out of range"):
        Meter(retraining(), budget)


@given(
    budget=st.floats(1e-4, 5.0),
    passes=st.integers(1, 20_000),
    spent=st.integers(0, 5_000),
    batch=st.integers(1, 512),
)
def test_a_plan_of_training_passes_stays_within_the_budget(
    budget: float, passes: int, spent: int, batch: int
) -> None:
    meter = Meter(retraining(passes), budget, Clock())
    try:
        meter.charge(forward=spent, backward=spent)
    except BudgetExceeded:
        assert spent * 3.0 > budget * passes * 3.0
        return
    plan = meter.training_passes()
    assert plan >= 0
    batch = max(batch, plan // 50)
    for _ in range(plan // batch):  # raises where the plan is over the budget
        meter.charge(forward=batch, backward=batch)
    assert meter.spent.compute <= budget * meter.retrain.cost.compute
    # Not a timid plan either: within one sample of the planned share.
    if plan:
        assert (spent + plan + 1) * 3.0 >= 0.8 * budget * passes * 3.0 * (1 - 1e-12)


def test_summary_golden() -> None:
    spent, whole = Cost(forward=40, backward=30, wall_s=100.0), retraining()
    assert summary(spent, replace(whole, recorded_wall_s=1234.0), 0.05) == {
        "forward": 40,
        "backward": 30,
        "wall_s": 100.0,
        "budget": 0.05,
        "compute_fraction": pytest.approx(100 / 3000),
        "wall_fraction": pytest.approx(0.1),
        "retrain": {
            "forward": 1000,
            "backward": 1000,
            "wall_s": 1000.0,
            "source": "test",
            "recorded_wall_s": 1234.0,
        },
    }
    assert summary(spent, retraining(wall_s=0.0), 0.05)["wall_fraction"] is None
