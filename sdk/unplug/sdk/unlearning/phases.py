"""Budgets of methods that work in phases."""

from __future__ import annotations

from collections.abc import Sequence

from .descent import plan
from .method import ForgetProblem


def plan_phases(problem: ForgetProblem, costs: Sequence[float], shares: Sequence[float], share: float = 1.0) -> list[int]:
    """Steps of each phase: one of each, and what is then left split by shares.

    steps_i = 1 + floor(shares_i (left - sum costs) / costs_i)

    Args:
        problem: its meter knows what is left.
        costs: of one step of each phase, as in `plan`.
        shares: of each phase, summing to at most 1.
        share: 0 to 1, of what is left, for all phases together.

    Raises:
        BudgetExceeded: one step of each phase does not fit.
    """
    plan(problem, sum(costs), share)
    rest = share * problem.meter.left() - sum(costs)
    return [1 + int(part * rest / cost) for cost, part in zip(costs, shares, strict=True)]
