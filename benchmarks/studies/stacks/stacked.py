"""Many models trained at once on one device; the slow oracle is a loop over `fit_new`.

Shapes: M models.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError, InsufficientMemoryError, TrainingError, counted, progress
from unplug.sdk.learning.training import (
    SampleSet,
    Task,
    decay_groups,
    learning_rate,
    new_model,
    predict,
    steps_per_epoch,
    summarize,
    synchronize,
    update_average,
)

from .draws import draw_steps, dropout_sites, step_losses
from .room import stack_width
from .stacking import CHECK_SAMPLES, check_stack, stack, unstack


def fit_stacked(
    task: Task,
    train: SampleSet,
    validation: SampleSet,
    *,
    seeds: Sequence[int],
    show: bool = False,
    width: int | None = None,
) -> list[nn.Module]:
    """Trains len(seeds) models from scratch, `width` at once; each as ``fit_new(task, ...,
    seed=seed).model`` would be.

    Order, augmentation, dropout and first weights are those of the loop; the arithmetic differs by
    the order of its sums.

    Args:
        task: of the models.
        train, validation: on the device; validation is only measured.
        seeds: one a model.
        show: progress bar.
        width: models at once; None is what fits the device's memory. Where a GPU's memory does not
            suffice after all it is halved, with a `RuntimeWarning`.

    Returns:
        The averaged models in eval mode, in the order of `seeds`.

    Raises:
        InputError: the architecture cannot be stacked, or `width` is below 1.
        TrainingError: a loss is NaN or infinite.
        InsufficientMemoryError: not even one model fits.
    """
    if len(train) < 2:
        raise TrainingError(
            "training", f"{counted(len(train), 'sample')}: too few", "Batch norm needs at least 2"
        )
    recipe = task.recipe
    total = recipe.epochs * steps_per_epoch(len(train), recipe.batch_size) * len(seeds)
    first = new_model(task, train, seeds[0]) if seeds else None
    with progress(total=total, label="fleet", unit="step", show=show) as bar:

        def fit_part(start: int, stop: int) -> list[nn.Module]:
            models = [new_model(task, train, seed) for seed in seeds[start:stop]]
            _fit(models, train, task, seeds[start:stop], bar)
            return models

        models = _in_parts(
            fit_part, len(seeds), width or stack_width(first, train, recipe.batch_size), width
        )
    for model, seed in zip(models, seeds, strict=True):
        loss = torch.tensor(summarize(predict(model, validation), task.edges)["loss"])
        _check_finite("validation loss", loss[None], [seed])
    return models


def _in_parts(
    run: Callable[[int, int], list[nn.Module]], count: int, width: int, asked: int | None
) -> list[nn.Module]:
    """Runs [0, count) in parts of `width`, halved where the device's memory does not suffice."""
    if asked is not None and asked < 1:
        raise InputError(f"width {asked}", "out of range", "Use 1 or more")
    done: list[nn.Module] = []
    while len(done) < count:
        stop = min(count, len(done) + width)
        try:
            done += run(len(done), stop)
        except torch.OutOfMemoryError as error:
            tried = stop - len(done)
            if tried == 1:
                raise InsufficientMemoryError(
                    "fleet", "the device's memory does not hold one model", "Use less data"
                ) from error
            width = tried // 2
            message = (
                f"fleet: {tried} models at once do not fit the device's memory, going on with "
                f"{width}"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=3)
            torch.cuda.empty_cache()
    return done


def _stacked(models: Sequence[nn.Module], data: SampleSet) -> nn.Module:
    device = data.device
    stacked = stack(models, matmul=device.type == "cuda")
    check_stack(
        stacked,
        models,
        data.batch(torch.arange(min(CHECK_SAMPLES, len(data)), device=device)).inputs,
    )
    return stacked


def _fit(
    models: list[nn.Module], train: SampleSet, task: Task, seeds: Sequence[int], bar: Any
) -> None:
    """`train.loop.fit` for a stack: the averaged weights take the place of `models`."""
    recipe, device = task.recipe, train.device
    sites, stacked = dropout_sites(models[0], train), _stacked(models, train)
    average = copy.deepcopy(stacked)
    optimizer = torch.optim.AdamW(decay_groups(stacked, recipe.weight_decay), lr=recipe.lr)
    steps = steps_per_epoch(len(train), recipe.batch_size)
    stacked.train()
    for epoch in range(recipe.epochs):
        total_M = torch.zeros(len(models), device=device)
        drawn = draw_steps(
            train,
            [(seed, epoch) for seed in seeds],
            recipe.batch_size,
            steps,
            recipe.augment,
            sites,
        )
        for number, step in enumerate(drawn, start=epoch * steps):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(
                    number, recipe.epochs * steps, recipe.lr, recipe.schedule
                )
            loss_M = step_losses(stacked, models, train, step, task, recipe.augment, sites)
            optimizer.zero_grad(set_to_none=True)
            loss_M.sum().backward()
            optimizer.step()
            update_average(average, stacked, recipe.ema, number)
            total_M += loss_M.detach()
            bar.update(len(models))
        synchronize(device)
        _check_finite(f"loss in epoch {epoch + 1}", total_M, seeds)
    unstack(average, models)
    for model in models:
        model.eval()


def _check_finite(what: str, value_M: Tensor, seeds: Sequence[int]) -> None:
    broken = [
        str(seed)
        for seed, fine in zip(seeds, torch.isfinite(value_M).tolist(), strict=True)
        if not fine
    ]
    if broken:
        raise TrainingError(
            "training",
            f"the {what} is not a number with seed {', '.join(broken)}",
            "Lower the learning rate",
        )
