"""Retraining from scratch on the retain set: the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from unplug.sdk.forgetting.tasks import Need

from ..method import ForgetProblem


@dataclass(frozen=True, kw_only=True)
class RetrainFromScratch:
    """theta = train(D_r): the original's recipe, from new random weights, on the retain set alone.

    Exact by definition, and what every other method is compared with. Costs 1.0 of retraining.
    """

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "labels", "validation data")
    default_budget: ClassVar[float | None] = None

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Ignores `model`; the weights follow from the problem's seed."""
        passes = problem.recipe.passes(len(problem.retain))
        problem.meter.charge(forward=passes, backward=passes)
        done = problem.task.fit(
            problem.retain,
            problem.validation,
            seed=problem.seed,
            state=problem.state,
            show=problem.show,
            label="retrain",
        )
        problem.history.extend(done.history)
        return done.model
