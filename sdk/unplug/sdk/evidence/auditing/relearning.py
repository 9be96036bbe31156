"""Relearn time: how soon fine-tuning on the forget set brings the original's loss on it back.

Shapes: B batch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import t as student
from torch import nn

from unplug.core import InputError, TrainingError
from unplug.sdk.evidence.statistics import CONFIDENCE, Estimate
from unplug.sdk.learning.training import SampleSet, Task, seeded, steps_per_epoch

CHECKS = 4  # an epoch; each costs a forward pass over the forget set


@dataclass(frozen=True, kw_only=True)
class Censored:
    """At least one run did not get there: a mean over the others would be too low, so there is
    none.

    Args:
        passes: the passes of each run; None for those that were stopped.
        cap: sample passes after which a run was stopped.
        reason: one sentence.
    """

    passes: tuple[int | None, ...]
    cap: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class RelearnTime:
    """Sample passes until the loss is back.

    Args:
        mean: the mean over runs, with Student's t interval (cut at 0); without one for a single
            run.
        passes: the passes of each run, models in the order given, seeds within each; multiples of a
            quarter epoch.
        target_loss: the loss to reach.
    """

    mean: Estimate
    passes: tuple[int, ...]
    target_loss: float


@torch.no_grad()
def forget_loss(model: nn.Module, forget: SampleSet, task: Task) -> float:
    """Mean training loss in eval mode; the original's is the target of `relearn`. The mode is put
    back.
    """
    was_training, total = model.training, 0.0
    model.eval()
    for batch in forget.in_order(forget.eval_batch):
        total += float(task.loss(model, model(*batch.inputs), batch).double().sum())
    model.train(was_training)
    return total / len(forget)


def relearn(
    models: Sequence[nn.Module],
    forget: SampleSet,
    task: Task,
    *,
    target_loss: float,
    seeds: Sequence[int] = (0, 1, 2),
    lr: float = 1e-3,
    batch_size: int = 32,
    max_epochs: int = 50,
    tell: Callable[[int], object] = lambda _: None,
) -> RelearnTime | Censored:
    """Fine-tunes a copy of each model with each seed on the forget set until the loss on it is at
    most `target_loss`.

    A model that had truly forgotten needs as long as a retrained one; less means that traces were
    left. Call it for both with the same settings.

    Args:
        models: unlearned ones, or retrained ones; left as they are.
        forget: the forget set, at least 2 samples (batch norm).
        task: the loss.
        target_loss: the original's `forget_loss`.
        seeds: the seeds of order and dropout.
        lr: the learning rate of AdamW without weight decay.
        batch_size: the batch size, at least 2.
        max_epochs: the most epochs over the forget set, at least 1; a run that needs more is
            censored.
        tell: called with the samples of each step.

    Raises:
        InputError: no model or seed, a setting out of range, fewer than two samples, or a target
            that is not a number.
        TrainingError: the loss became NaN.

    Reference:
        Golatkar et al., Eternal Sunshine of the Spotless Net, 2020, section 6 (relearn time).
    """
    if not models or not seeds:
        raise InputError("relearn", "there is no model or no seed", "Give at least one of each")
    if (
        len(forget) < 2
        or batch_size < 2
        or max_epochs < 1
        or not lr > 0
        or not math.isfinite(target_loss)
    ):
        raise InputError(
            "relearn",
            f"{len(forget)} samples, batch_size {batch_size}, max_epochs {max_epochs}, lr {lr:g}, "
            f"target_loss {target_loss:g}",
            "Give at least 2, 2 and 1, an lr above 0 and a finite target",
        )
    passes = [
        _run(
            copy.deepcopy(model), forget, task, target_loss, seed, lr, batch_size, max_epochs, tell
        )
        for model in models
        for seed in seeds
    ]
    done = [item for item in passes if item is not None]
    if len(done) < len(passes):
        cap = max_epochs * len(forget)
        stopped = len(passes) - len(done)
        reason = (
            f"relearn: {stopped} of {len(passes)} runs did not reach loss {target_loss:.4g} within "
            f"{cap} sample passes"
        )
        return Censored(passes=tuple(passes), cap=cap, reason=reason)
    return RelearnTime(mean=_mean(done), passes=tuple(done), target_loss=target_loss)


def _mean(passes: Sequence[int]) -> Estimate:
    value = float(np.mean(passes))
    if len(passes) < 2:
        return Estimate(value=value)
    error = (
        float(np.std(passes, ddof=1))
        / math.sqrt(len(passes))
        * float(student.ppf((1 + CONFIDENCE) / 2, len(passes) - 1))
    )
    return Estimate(value=value, low=max(0.0, value - error), high=value + error)


def _run(
    model: nn.Module,
    forget: SampleSet,
    task: Task,
    target: float,
    seed: int,
    lr: float,
    batch_size: int,
    epochs: int,
    tell: Callable[[int], object],
) -> int | None:
    """Sample passes of one run; None where the cap was hit."""
    if forget_loss(model, forget, task) <= target:
        return 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    # Checked several times an epoch: a small forget set is learned again within one.
    every = max(1, steps_per_epoch(len(forget), batch_size) // CHECKS)
    passes = steps = 0
    with seeded(seed, 811) as generator:
        for _ in range(epochs):
            for index_B in forget.shuffled(batch_size, generator):
                model.train()
                batch = forget.batch(index_B)
                optimizer.zero_grad(set_to_none=True)
                loss = task.loss(model, model(*batch.inputs), batch).mean()
                if not math.isfinite(float(loss.detach())):
                    raise TrainingError("relearn", "the loss is not a number", "Lower lr")
                loss.backward()
                optimizer.step()
                passes, steps = passes + len(index_B), steps + 1
                tell(len(index_B))
                if steps % every == 0 and forget_loss(model, forget, task) <= target:
                    return passes
    return None
