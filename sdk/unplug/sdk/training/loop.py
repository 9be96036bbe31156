"""The training loop: epochs of shuffled batches, an averaged copy, a state after every epoch."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from unplug.core import TrainingError

from .device import autocast, synchronize
from .evaluate import predict, summarize
from .recipe import Recipe, learning_rate
from .samples import SampleSet, steps_per_epoch
from .state import StateFile
from .task import Task


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A finished training.

    Args:
        model: the averaged weights, in eval mode.
        history: one row an epoch, as in ``metrics.jsonl``.
        passes: training samples seen, each forward and backward.
        wall_s: seconds over all parts of the run, also of those before a kill.
    """

    model: nn.Module
    history: tuple[dict[str, Any], ...]
    passes: int
    wall_s: float


@contextmanager
def seeded(*key: int) -> Iterator[torch.Generator]:
    """A CPU generator that follows from integers, with torch's global one (dropout, initial weights) set to match."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        seed = 0
        for part in key:
            seed = (seed * 1_000_003 + part + 1) % 2**63
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups: decay on kernels and matrices, none on norms and biases."""
    kernels = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    return [{"params": kernels, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float, step: int) -> None:
    """average <- d average + (1 - d) model, with d = min(decay, (1 + step) / (10 + step)); integers are copied."""
    keep = min(decay, (1 + step) / (10 + step))
    ours, theirs = average.state_dict(), model.state_dict()
    floats = [name for name in ours if ours[name].is_floating_point()]
    torch._foreach_lerp_([ours[name] for name in floats], [theirs[name] for name in floats], 1.0 - keep)
    for name in ours.keys() - set(floats):
        ours[name].copy_(theirs[name])


def fit(
    model: nn.Module,
    train: SampleSet,
    validation: SampleSet,
    task: Task,
    recipe: Recipe,
    *,
    seed: int,
    edges: tuple[float, ...],
    state: StateFile | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    show: bool = True,
    label: str = "train",
) -> Fit:
    """Trains a model from where it stands.

    Args:
        model: on the device of `train`, changed in place.
        train, validation: data; validation is only measured.
        task: the loss.
        recipe: everything else that decides the weights.
        seed: of order, augmentation and dropout; epoch e uses (seed, e), so a resumed run draws the same.
        edges: age-group borders, for the rows of the history.
        state: where to keep the state of the run; an unfinished one there is continued.
        on_epoch: called with the row of each finished epoch.
        show: progress bar.
        label: in front of the bar.

    Returns:
        The averaged model and the history.

    Raises:
        TrainingError: the loss is NaN or infinite.
    """
    if len(train) < 2:
        raise TrainingError("training", f"{len(train)} samples are too few", "Batch norm needs at least 2")
    average = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(decay_groups(model, recipe.weight_decay), lr=recipe.lr)
    history: list[dict[str, Any]] = []
    if state is not None and (progress := state.load(model, average, optimizer)) is not None:
        history = progress["history"]
    spent = history[-1]["wall_s"] if history else 0.0
    steps = steps_per_epoch(len(train), recipe.batch_size)
    bar = tqdm(
        total=recipe.epochs * steps, initial=len(history) * steps, desc=label, unit="step", disable=not show, leave=False
    )
    with bar:
        for epoch in range(len(history), recipe.epochs):
            started = time.perf_counter()
            loss = _epoch(model, average, train, task, recipe, optimizer, seed=seed, epoch=epoch, steps=steps, bar=bar)
            metrics = summarize(predict(average, validation), edges)
            _check_finite("validation loss", metrics["loss"], epoch)  # weights can break in an epoch's last step
            spent += time.perf_counter() - started
            row = {
                "epoch": epoch + 1,
                "train_loss": loss,
                "validation_loss": metrics["loss"],
                "validation_accuracy": metrics["accuracy"],
                "validation_mae": metrics["mae"],
                "lr": optimizer.param_groups[0]["lr"],
                "wall_s": round(spent, 3),
            }
            history.append(row)
            bar.set_postfix(loss=f"{loss:.3f}", validation=f"{metrics['loss']:.3f}")
            if state is not None:
                state.save(model, average, optimizer, {"history": history})
            if on_epoch is not None:
                on_epoch(row)
    return Fit(model=average.eval(), history=tuple(history), passes=recipe.epochs * len(train), wall_s=spent)


def _epoch(
    model: nn.Module,
    average: nn.Module,
    train: SampleSet,
    task: Task,
    recipe: Recipe,
    optimizer: torch.optim.Optimizer,
    *,
    seed: int,
    epoch: int,
    steps: int,
    bar: Any,
) -> float:
    """One pass over the training set; returns the mean training loss."""
    model.train()
    device = train.device
    total = torch.zeros((), device=device)
    with seeded(seed, epoch) as generator:
        for step, index_B in enumerate(train.shuffled(recipe.batch_size, generator)):
            number = epoch * steps + step
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(number, recipe.epochs * steps, recipe.lr, recipe.schedule)
            loss = training_step(model, train, index_B, task, recipe, optimizer, generator)
            update_average(average, model, recipe.ema, number)
            total += loss * len(index_B)
            bar.update(1)
    synchronize(device)
    mean = float(total) / len(train)
    _check_finite("loss", mean, epoch)
    return mean


def _check_finite(name: str, value: float, epoch: int) -> None:
    if not math.isfinite(value):
        raise TrainingError("training", f"the {name} is {value} in epoch {epoch + 1}", "Lower --lr or check the data")


def training_step(
    model: nn.Module,
    train: SampleSet,
    index_B: Tensor,
    task: Task,
    recipe: Recipe,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> Tensor:
    """One step on the samples at `index_B`; returns the mean loss, detached."""
    batch = train.view(train.batch(index_B), recipe.augment, generator)
    with autocast(batch.device):
        outputs = model(*batch.inputs)
    loss = task.loss(outputs, batch).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()
