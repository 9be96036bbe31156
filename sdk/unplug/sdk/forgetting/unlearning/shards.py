"""What SISA trains: one network a shard, their checkpoints after each slice, and the ensemble that
speaks for them.

Shapes: B batch, S shards, G classes.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unplug.core import InputError, TrainingError
from unplug.sdk.learning.training import Recipe, SampleSet, Task, decay_groups, fit_epoch, seeded

MAX_PARTS = 256  # shards x slices: each part keeps one copy of the weights in memory
State = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """How training is cut into parts, and the seed that all of its randomness follows from.

    Args:
        shards, slices: S and R, each at least 1 and together at most 256 parts.
        seed: part (s, r) draws from (seed, s, r), whatever happened in other parts.

    Raises:
        InputError: a number out of range.
    """

    shards: int
    slices: int
    seed: int

    def __post_init__(self) -> None:
        if min(self.shards, self.slices) < 1 or self.shards * self.slices > MAX_PARTS:
            why = f"out of range (1 to {MAX_PARTS} parts in all, since each keeps its weights)"
            what = f"shards={self.shards} slices={self.slices}"
            raise InputError(what, why, "Use for example 5 shards of 3 slices")

    def place(self, sample: str) -> tuple[int, int]:
        """(shard, slice) of a sample id, by its SHA-256: taking one away moves no other."""
        # 64 bits: modulo a few hundred parts nobody sees that they are not quite alike
        number = int.from_bytes(hashlib.sha256(sample.encode()).digest()[:8], "big")
        return number % self.shards, number // self.shards % self.slices

    def parts(self, ids: Iterable[str]) -> list[list[list[str]]]:
        """The ids of each slice of each shard, sorted, so that the order they came in decides
        nothing.
        """
        parts: list[list[list[str]]] = [
            [[] for _ in range(self.slices)] for _ in range(self.shards)
        ]
        for sample in sorted(ids):
            shard, number = self.place(sample)
            parts[shard][number].append(sample)
        return parts

    def epochs(self, total: int) -> list[int]:
        """Epochs of each stage, from those of a whole training; stage r runs over slices 0 to r.

        floor(2 E / (R + 1)) each, what is left over to the last: with equal slices about E whole
        epochs.

        Raises:
            InputError: more slices than epochs allow.
        """
        # an epoch of each stage: stage r sees (r + 1) / R of the data, in all (R + 1) / 2 epochs
        each = 2 * total // (self.slices + 1)
        if each < 1:
            why = f"{total} epochs are too few for them"
            raise InputError(f"slices={self.slices}", why, f"Use {2 * total - 1} slices or fewer")
        spare = math.floor(total - each * (self.slices + 1) / 2)
        return [each] * (self.slices - 1) + [each + spare]


class SisaEnsemble(nn.Module):
    """S networks trained apart; log of their mean softmax, and the mean of their expected ages.

    p(y | x) = 1/S sum_s softmax(z_s(x))_y. Shards without samples have no say.

    Args:
        members: one network a shard.
        output: name of the output with the logits.
        plan: how they were trained.
        parts: the sample ids in each slice of each shard.
        checkpoints: ``[shard][r]``, the weights after slice r, for all slices but the last (on the
            CPU).

    Reference:
        Bourtoule et al., Machine Unlearning, 2021, section IV.
    """

    def __init__(
        self,
        members: list[nn.Module],
        output: str,
        plan: ShardPlan,
        parts: list[list[list[str]]],
        checkpoints: list[list[State]],
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.output, self.plan, self.parts, self.checkpoints = output, plan, parts, checkpoints

    def forward(self, *inputs: Tensor) -> dict[str, Tensor]:
        """The logits (B, G) under the name that the members use; ``expected_age`` (B, 1) where they
        have one.
        """
        pairs = zip(self.members, self.parts, strict=True)
        answers = [member(*inputs) for member, slices in pairs if any(slices)]

        def stacked(name: str) -> Tensor:
            return torch.stack([outputs[name].float() for outputs in answers])

        # a mean of probabilities, taken in logarithms: exp would underflow
        log_SBG = stacked(self.output).log_softmax(dim=2)
        joint = {self.output: log_SBG.logsumexp(dim=0) - math.log(len(answers))}
        if "expected_age" in answers[0]:
            joint["expected_age"] = stacked("expected_age").mean(dim=0)
        return joint


def train_shard(
    task: Task,
    data: SampleSet,
    plan: ShardPlan,
    shard: int,
    parts: list[list[str]],
    first: int,
    start: State | None,
) -> tuple[nn.Module, list[State]]:
    """Trains one shard from slice `first` on.

    Args:
        task: the task of the member.
        data: holds every sample of the shard.
        plan, shard: decide the randomness.
        parts: ids of each slice.
        first: the first slice that is trained.
        start: the weights after slice ``first - 1``; None begins from the seed.

    Returns:
        The member in eval mode, and the weights after each trained slice but the last of all (on
        the CPU).

    Raises:
        TrainingError: the loss is not finite.
    """
    position = {sample: index for index, sample in enumerate(data.ids)}
    states: list[State] = []
    with seeded(plan.seed, shard, -1):
        # The first slice alone: what a task reads off its data must not tie the shard to samples of
        # others.
        model = task.build(data.subset([position[sample] for sample in parts[0]]))
    model = model.to(data.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if start is not None:
        model.load_state_dict(start)
    for number in range(first, plan.slices):
        seen = sorted(sample for ids in parts[: number + 1] for sample in ids)
        part = data.subset([position[sample] for sample in seen])
        model = train_stage(task, model, part, plan, shard, number)
        if number < plan.slices - 1:
            weights = model.state_dict().items()
            states.append({name: value.detach().cpu().clone() for name, value in weights})
    return model.eval(), states


def train_stage(
    task: Task, model: nn.Module, data: SampleSet, plan: ShardPlan, shard: int, number: int
) -> nn.Module:
    """The recipe on the slices so far, with fresh optimizer state; returns the averaged weights."""
    # from the slices so far alone: what later ones would add must not be in the weights after this
    if len(data):
        task.refresh(model, data)
    if len(data) < 2:  # batch norm; the weights stay as they are
        return model
    epochs, average = plan.epochs(task.recipe.epochs)[number], copy.deepcopy(model)
    optimizer = torch.optim.AdamW(decay_groups(model, task.recipe.weight_decay), lr=task.recipe.lr)
    for epoch in range(epochs):
        loss = fit_epoch(
            model, average, data, task, optimizer, (plan.seed, shard, number, epoch), epochs=epochs
        )
        if not math.isfinite(loss):
            why = f"the loss of shard {shard} is not a number"
            raise TrainingError("training", why, "Lower `lr` or check the data")
    return average.eval()


def stage_passes(plan: ShardPlan, recipe: Recipe, parts: list[list[str]], first: int) -> int:
    """Samples that a shard trains on from slice `first` to its end."""
    sizes = [sum(len(ids) for ids in parts[: number + 1]) for number in range(plan.slices)]
    epochs = plan.epochs(recipe.epochs)
    return sum(
        epochs[number] * sizes[number] for number in range(first, plan.slices) if sizes[number] >= 2
    )
