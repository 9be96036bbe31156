"""The training loop: epochs of shuffled batches, an averaged copy, a state after every epoch."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import TrainingError, counted, progress, settled

from .device import autocast, synchronize
from .images import predict
from .predictions import summarize
from .recipe import learning_rate
from .samples import SampleSet, steps_per_epoch
from .state import StateFile
from .task import Fit, Task


@contextmanager
def seeded(*key: int) -> Iterator[torch.Generator]:
    """A CPU generator that follows from integers, with torch's global one (dropout, initial
    weights) set to match.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        seed = 0
        # Places count: (0, 1) and (1, 0) are other runs, and so are (0,) and (0, 0).
        for part in key:
            seed = (seed * 1_000_003 + part + 1) % 2**63
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)


def decay_groups(
    model: nn.Module, weight_decay: float, *, zero_rate: float = 1.0
) -> list[dict[str, Any]]:
    """Parameter groups: decay on kernels and matrices, none on norms and biases.

    Args:
        model: the model to train.
        weight_decay: the weight decay of the kernels and matrices.
        zero_rate: factor on the learning rate of kernels that are all zero now ("factor" of their
            group, which the training loop multiplies); 1 puts them with the others.
    """
    kernels = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [
        {"params": kernels, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    if zero_rate == 1.0:
        return groups
    zero = [
        parameter for parameter in kernels if parameter.requires_grad and not bool(parameter.any())
    ]
    behind = {id(parameter) for parameter in zero}
    groups[0]["params"] = [parameter for parameter in kernels if id(parameter) not in behind]
    return [*groups, {"params": zero, "weight_decay": weight_decay, "factor": zero_rate}]


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float, step: int) -> None:
    """average <- d average + (1 - d) model, with d = min(decay, (1 + step) / (10 + step)); integers
    are copied.
    """
    # At d from the start, 1 / (1 - d) steps long the average would be mostly the first weights.
    keep = min(decay, (1 + step) / (10 + step))
    ours, theirs = average.state_dict(), model.state_dict()
    floats = [name for name in ours if ours[name].is_floating_point()]
    torch._foreach_lerp_(
        [ours[name] for name in floats], [theirs[name] for name in floats], 1.0 - keep
    )
    for name in ours.keys() - set(floats):
        ours[name].copy_(theirs[name])


def new_model(task: Task, train: SampleSet, seed: int) -> nn.Module:
    """A freshly initialized model on the device of `train`; the weights follow from `seed`."""
    with seeded(seed, -1):
        model = task.build(train)
    return model.to(train.device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def fit_new(
    task: Task, train: SampleSet, validation: SampleSet, *, seed: int, **options: Any
) -> Fit:
    """Trains a model of a task from scratch in epochs, with the options of `fit` (no files but
    `state`).
    """
    return fit(new_model(task, train, seed), train, validation, task, seed=seed, **options)


@settled
def fit(
    model: nn.Module,
    train: SampleSet,
    validation: SampleSet,
    task: Task,
    *,
    seed: int,
    state: StateFile | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    show: bool = False,
    label: str = "train",
) -> Fit:
    """Trains a model from where it stands.

    Args:
        model: a model on the device of `train`, changed in place.
        train, validation: data; validation is only measured.
        task: the loss, and in its recipe everything else that decides the weights.
        seed: the seed of order, augmentation and dropout; epoch e uses (seed, e), so a resumed run
            draws the same.
        state: the file for the run's state; an unfinished run there is continued.
        on_epoch: called with the row of each finished epoch.
        show: progress bar.
        label: the text in front of the bar.

    Returns:
        The averaged model and the history.

    Raises:
        TrainingError: the loss is NaN or infinite.
    """
    if len(train) < 2:
        raise TrainingError(
            "training", f"{counted(len(train), 'sample')}: too few", "Batch norm needs at least 2"
        )
    recipe, average = task.recipe, copy.deepcopy(model)
    optimizer = torch.optim.AdamW(decay_groups(model, recipe.weight_decay), lr=recipe.lr)
    history: list[dict[str, Any]] = []
    if state is not None and (kept := state.load(model, average, optimizer)) is not None:
        history = kept["history"]
    spent = history[-1]["wall_s"] if history else 0.0
    done = len(history) * len(train)
    bar = progress(total=recipe.epochs * len(train), done=done, label=label, show=show)
    with bar:
        for epoch in range(len(history), recipe.epochs):
            started = time.perf_counter()
            loss = fit_epoch(
                model, average, train, task, optimizer, (seed, epoch), epochs=recipe.epochs, bar=bar
            )
            _check_finite("loss", loss, epoch)
            metrics = summarize(predict(average, validation), task.edges)
            # weights can break in an epoch's last step
            _check_finite("validation loss", metrics["loss"], epoch)
            spent += time.perf_counter() - started
            row = {
                "epoch": epoch + 1,
                "train_loss": loss,
                **{
                    f"validation_{name}": metrics[name]
                    for name in ("loss", "accuracy", "mae")
                    if name in metrics
                },
                "lr": optimizer.param_groups[0]["lr"],
                "wall_s": round(spent, 3),
            }
            history.append(row)
            bar.set_postfix(loss=f"{loss:.3f}", validation=f"{metrics['loss']:.3f}", refresh=False)
            if state is not None:
                state.save(model, average, optimizer, {"history": history})
            if on_epoch is not None:
                on_epoch(row)
    return Fit(
        model=average.eval(),
        history=tuple(history),
        passes=recipe.epochs * len(train),
        wall_s=spent,
    )


def fit_epoch(
    model: nn.Module,
    average: nn.Module,
    train: SampleSet,
    task: Task,
    optimizer: torch.optim.Optimizer,
    key: tuple[int, ...],
    *,
    epochs: int,
    bar: Any = None,
) -> float:
    """One pass over a training set; returns the mean training loss, which may be no number.

    Args:
        model, average: changed in place.
        train: the data.
        task: the loss and the recipe.
        optimizer: the optimizer of `model`; its learning rate follows the recipe's schedule.
        key: the key of all that is random; its last part is the epoch, from 0.
        epochs: the number of epochs of the whole schedule.
        bar: told of the pictures of each step, or None.
    """
    recipe, device, epoch = task.recipe, train.device, key[-1]
    steps = steps_per_epoch(len(train), recipe.batch_size)
    total = torch.zeros((), device=device)
    model.train()
    with seeded(*key) as generator:
        for number, index_B in enumerate(
            train.shuffled(recipe.batch_size, generator), start=epoch * steps
        ):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(number, epochs * steps, recipe.lr, recipe.schedule)
            loss = training_step(model, train, index_B, task, optimizer, generator)
            update_average(average, model, recipe.ema, number)
            total += loss * len(index_B)
            if bar is not None:
                bar.update(len(index_B))
    synchronize(device)
    return float(total) / len(train)


def _check_finite(name: str, value: float, epoch: int) -> None:
    if not math.isfinite(value):
        raise TrainingError(
            "training",
            f"the {name} is {value} in epoch {epoch + 1}",
            "Lower `lr` or check the data",
        )


def training_step(
    model: nn.Module,
    train: SampleSet,
    index_B: Tensor,
    task: Task,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> Tensor:
    """One step on the samples at `index_B`; returns the mean loss, detached."""
    batch = train.view(train.batch(index_B), task.recipe.augment, generator)
    with autocast(batch.device):
        outputs = model(*batch.inputs)
    loss = task.loss(model, outputs, batch).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()
