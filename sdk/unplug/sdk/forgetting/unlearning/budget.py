"""What forgetting may cost: passes, as a fraction of retraining; wall time is told as well and
decides nothing.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from unplug.core import BudgetExceeded, InputError, percent, seconds
from unplug.sdk.learning.training import (
    SampleSet,
    Task,
    decay_groups,
    describe_device,
    synchronize,
    training_step,
    update_average,
)

BACKWARD_WEIGHT = 2.0
"""A backward pass computes two products per layer (for the input and for the weights) where a
forward pass computes one.
"""

WALL_GRACE_S = 5.0
"""Seconds beyond its share of the wall time of which nothing is said: 5 % of a retraining of one
minute is 3 s, and a clock on a shared machine is not that exact. Of a retraining of hours it is
nothing.
"""

PLANNED = 0.8
"""Share of the budget that methods plan to spend; the rest absorbs what a plan cannot see (uneven
machines, last batches).
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Sample passes forward and backward, and seconds of wall time.

    Example:
        >>> Cost(forward=10, backward=10, wall_s=1.0).compute
        30.0
    """

    forward: int
    backward: int
    wall_s: float

    @property
    def compute(self) -> float:
        """forward + 2 backward, in forward sample passes."""
        return self.forward + BACKWARD_WEIGHT * self.backward

    def record(self, device: torch.device) -> dict[str, Any]:
        """The cost as a checkpoint's record has it, with where it was spent."""
        return {**asdict(self), "device": describe_device(device)}


@dataclass(frozen=True, kw_only=True)
class RetrainCost:
    """What retraining costs, and how that is known.

    Args:
        cost: the cost of training from scratch on the retain set by the original's recipe, on this
            device as busy as it is now.
        source: how the wall time is known.
        recorded_wall_s: the time that the retrained model itself took, where there is one; shown,
            not enforced.
    """

    cost: Cost
    source: str
    recorded_wall_s: float | None = None


class Meter:
    """Counts what a method spends and stops it at its budget.

    Args:
        retrain: the cost of retraining, to compare with.
        budget: fraction of retraining, above 0; None counts without a limit (for the oracle
            itself).
        clock: seconds; tests give their own.
        tell: called with the pictures that would have been trained on for what was charged since.

    Raises:
        InputError: a budget that is not above 0.
        BudgetExceeded: from `charge`, for passes. A clock never ends a step: what it computed would
            be thrown away for a busy minute of the machine.

    Example:
        >>> hundred = Cost(forward=100, backward=100, wall_s=10.0)
        >>> meter = Meter(RetrainCost(cost=hundred, source=""), 0.05)
        >>> meter.charge(forward=5, backward=5)
        >>> meter.charge(forward=1, backward=0)
        Traceback (most recent call last):
        unplug.core.errors.BudgetExceeded: forget step: ...
    """

    def __init__(
        self,
        retrain: RetrainCost,
        budget: float | None,
        clock: Callable[[], float] = time.perf_counter,
        tell: Callable[[int], object] = lambda _: None,
    ) -> None:
        if budget is not None and not 0.0 < budget <= 100.0:
            raise InputError(
                f"budget {budget}", "out of range", "Give a fraction of retraining such as 0.05"
            )
        self.retrain, self.budget = retrain, budget
        self._clock, self._start = clock, clock()
        self._forward = self._backward = self._told = 0
        self._tell = tell

    @property
    def spent(self) -> Cost:
        """The passes and the wall time that were spent so far."""
        return Cost(
            forward=self._forward, backward=self._backward, wall_s=self._clock() - self._start
        )

    def charge(self, *, forward: int, backward: int) -> None:
        """Call before the work: counts the passes and refuses those that the budget does not cover."""
        # counted before it is compared: a refused step shows what it would have cost
        self._forward += forward
        self._backward += backward
        spent, whole = self.spent.compute, self.retrain.cost.compute
        if self.budget is not None and spent > self.budget * whole:
            raise BudgetExceeded(
                "forget step",
                f"its compute cost ({spent:.1f} forward passes) is over {self.budget:g} of "
                f"retraining ({whole:.1f})",
                "Give a larger `budget` or a cheaper method",
            )
        pictures = int(spent / (1.0 + BACKWARD_WEIGHT)) - self._told
        self._told += pictures
        self._tell(pictures)

    def training_passes(self) -> int:
        """How many samples a method should plan to train on (one forward and one backward each)
        from here on.
        """
        return max(0, int(self.left() / (1.0 + BACKWARD_WEIGHT)))

    def left(self) -> float:
        """Forward passes that a method should plan to spend from here on; of the whole retraining
        without a limit.
        """
        if self.budget is None:
            return self.retrain.cost.compute
        return max(0.0, self.budget * PLANNED * self.retrain.cost.compute - self.spent.compute)


def summary(cost: Cost, retrain: RetrainCost, budget: float | None) -> dict[str, Any]:
    """A cost and the retraining it is compared with, JSON-ready."""
    return {
        **asdict(cost),
        "compute_fraction": cost.compute / retrain.cost.compute,
        "wall_fraction": cost.wall_s / retrain.cost.wall_s if retrain.cost.wall_s > 0 else None,
        "budget": budget,
        "retrain": {
            **asdict(retrain.cost),
            "source": retrain.source,
            "recorded_wall_s": retrain.recorded_wall_s,
        },
    }


def slow_clock(cost: Mapping[str, Any]) -> str | None:
    """One line where a step took more of retraining's wall time than its budget of compute, else
    None.

    Args:
        cost: a `summary`, as records hold it.

    Example:
        >>> whole = RetrainCost(cost=Cost(forward=100, backward=100, wall_s=100.0), source="")
        >>> print(slow_clock(summary(Cost(forward=1, backward=1, wall_s=9.0), whole, 0.05)))
        None
    """
    budget, whole = cost["budget"], cost["retrain"]["wall_s"]
    if budget is None or cost["wall_s"] <= budget * whole + WALL_GRACE_S:
        return None
    return (
        f"warning: {seconds(cost['wall_s'])} is {percent(cost['wall_fraction'])} of the wall "
        "time of retraining "
        f"({seconds(whole)}), and the compute {percent(cost['compute_fraction'])}: the machine "
        "was busy, or the method "
        "does more than its passes"
    )


WARM_UP, TIMED = 2, 5


def seconds_per_sample(model: nn.Module, retain: SampleSet, task: Task) -> float:
    """Median seconds of one training step of the recipe (forward, backward, AdamW, averaging) per
    sample.

    A recorded training time may be of another device, or of this one on a quieter day; a budget
    compared with it would accept or refuse methods by the weather. So the recipe's own training
    step is timed just before the forget step.

    Args:
        model: a model on the device of `retain`; a copy is trained and thrown away.
        retain: the retain set, at least two samples.
        task: the task, as in training.
    """
    # a rate of 0 leaves the weights of the copy where they are, and costs the same
    recipe, trained, average = task.recipe, copy.deepcopy(model).train(), copy.deepcopy(model)
    optimizer = torch.optim.AdamW(decay_groups(trained, recipe.weight_decay), lr=0.0)
    generator = torch.Generator().manual_seed(0)
    size, device = min(recipe.batch_size, len(retain)), retain.device
    times = []
    for number in range(WARM_UP + TIMED):
        synchronize(device)
        started = time.perf_counter()
        index_B = torch.randperm(len(retain), generator=generator)[:size].to(device)
        training_step(trained, retain, index_B, task, optimizer, generator)
        update_average(average, trained, recipe.ema, number)
        synchronize(device)
        times.append((time.perf_counter() - started) / size)
    return statistics.median(times[WARM_UP:])
