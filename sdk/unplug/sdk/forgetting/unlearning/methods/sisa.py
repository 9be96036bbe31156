"""SISA: sharded, sliced training, so that forgetting retrains only what has seen the forgotten
samples; exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from unplug.core import InputError
from unplug.sdk.forgetting.tasks import Need
from unplug.sdk.learning.training import Task

from ..method import ForgetProblem
from ..shards import ShardPlan, SisaEnsemble, stage_passes, train_shard


@dataclass(frozen=True, kw_only=True)
class SISA:
    """theta_s <- train(D_s[0..r] - D_f), ..., train(D_s[0..R-1] - D_f), from the checkpoint before
    the first touched slice r.

    The result is, bit for bit, what training the ensemble without the forget set gives, on the same
    machine, so the seed of the *training* decides and that of the forget step does nothing. What it
    costs depends on the request: of R equal slices, one sample costs between 2 / (S (R + 1)) of a
    retraining (last slice) and 1 / S (first). A forget set spread over the first slices of all
    shards costs a whole retraining, hence a default budget of 1; random slices, S samples or more,
    come close to it. The price is S networks to run, each trained on 1 / S of the data, and S (R -
    1) copies of the weights kept in memory. The original must come from `train`.

    Args:
        shards: S. Published: 5 to 50.
        slices: R of each shard.

    Raises:
        InputError: numbers out of range.

    Reference:
        Bourtoule et al., Machine Unlearning, 2021, section IV and algorithm 1.
    """

    shards: int = 5
    slices: int = 3

    needs: ClassVar[tuple[Need, ...]] = (
        "retain data",
        "labels",
        "training-time hooks",
        "class logits",
    )
    default_budget: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        ShardPlan(shards=self.shards, slices=self.slices, seed=0)

    def train(self, problem: ForgetProblem) -> SisaEnsemble:
        """An ensemble on ``problem.retain``, seeded by ``problem.seed``; costs about one training
        in passes.
        """
        plan = ShardPlan(shards=self.shards, slices=self.slices, seed=problem.seed)
        parts, task = plan.parts(problem.retain.ids), problem.task
        passes = sum(stage_passes(plan, task.recipe, slices, 0) for slices in parts)
        problem.meter.charge(forward=passes, backward=passes)
        done = [
            train_shard(task, problem.retain, plan, shard, slices, 0, None)
            for shard, slices in enumerate(parts)
        ]
        members, checkpoints = [member for member, _ in done], [states for _, states in done]
        return (
            SisaEnsemble(members, task.output, plan, parts, checkpoints)
            .to(problem.retain.device)
            .eval()
        )

    def prepared(self, original: nn.Module) -> bool:
        """True for an ensemble with as many shards and slices as this."""
        if not isinstance(original, SisaEnsemble):
            return False
        return (original.plan.shards, original.plan.slices) == (self.shards, self.slices)

    def price(self, before: Sequence[str], after: Sequence[str], task: Task, seed: int) -> int:
        """Training passes of unlearning, from the ids of the training set before and after alone."""
        plan = ShardPlan(shards=self.shards, slices=self.slices, seed=seed)
        parts = plan.parts(after)
        return sum(
            stage_passes(plan, task.recipe, parts[shard], first)
            for shard, first in _touched(plan.parts(before), parts)
        )

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Retrains the touched shards of the ensemble in place, and replaces their checkpoints."""
        if not isinstance(model, SisaEnsemble):
            raise InputError(
                "sisa",
                "the original is not an ensemble of shards",
                "Train it with the method's own hook",
            )
        if not set(problem.retain.ids) <= {
            sample for shard in model.parts for ids in shard for sample in ids
        }:
            raise InputError(
                "sisa",
                "the retain set holds samples that it was not trained on",
                "Give the data of its training",
            )
        plan, task = model.plan, problem.task
        parts = plan.parts(problem.retain.ids)
        touched = _touched(model.parts, parts)
        passes = sum(
            stage_passes(plan, task.recipe, parts[shard], first) for shard, first in touched
        )
        # all at once: refused before any work
        problem.meter.charge(forward=passes, backward=passes)
        for shard, first in touched:
            # checkpoints before the first touched slice never saw who left
            kept = model.checkpoints[shard][:first]
            start = kept[-1] if first else None
            member, states = train_shard(
                task, problem.retain, plan, shard, parts[shard], first, start
            )
            model.members[shard], model.checkpoints[shard], model.parts[shard] = (
                member,
                kept + states,
                parts[shard],
            )
        return model.eval()


def _touched(before: list[list[list[str]]], after: list[list[list[str]]]) -> list[tuple[int, int]]:
    """Shards that lost samples, each with the first slice that did."""
    pairs = [(shard, *both) for shard, both in enumerate(zip(before, after, strict=True))]
    return [
        (shard, next(n for n, ids in enumerate(old) if ids != new[n]))
        for shard, old, new in pairs
        if old != new
    ]
