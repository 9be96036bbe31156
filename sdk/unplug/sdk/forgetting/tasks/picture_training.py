"""``unplug train age|classes``: from a data set and a recipe to a checkpoint folder with its record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unplug.core import DataError, OutputError, atomic_path, one_writer, versions
from unplug.plugins import Adopted, Checkpoint, load_checkpoint, save_checkpoint
from unplug.sdk.learning.data import Dataset, Split, fitting, keyed
from unplug.sdk.learning.training import (
    Recipe,
    Sets,
    StateFile,
    describe_device,
    fingerprint,
    fit_new,
    training_place,
)

from .age import AgeTask
from .first_check import check_network
from .groups import GroupTask


def train_age(dataset: Dataset, split: Split, recipe: Recipe, out: Path, **more: Any) -> Checkpoint:
    """`train_pictures` of a face-age predictor."""
    return train_pictures(AgeTask, dataset, split, recipe, out, **more)


@one_writer
def train_pictures(
    kind: type[GroupTask],
    dataset: Dataset,
    split: Split,
    recipe: Recipe,
    out: Path,
    *,
    seed: int,
    device: torch.device,
    restart: bool = False,
    show: bool = True,
    label: str = "train",
    role: str = "original",
    adopted: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Trains, measures and saves a predictor; an unfinished run of the same kind at `out` is
    continued.

    Args:
        kind: the task of the predictor.
        dataset: data with ages or labels at ``recipe.image_size``.
        split: the split: with an empty forget set for an original; with a full one, the retain set
            is trained on (the oracle).
        recipe: how to train.
        out: checkpoint folder; ``.NAME.training`` next to it holds the state until the end.
        seed: the seed of weights, order and augmentation.
        device: the device to compute on.
        restart: drop an unfinished run instead of continuing it.
        show: progress bar.
        label: the text in front of the bar.
        role: "original" or "retrained", for the record.
        adopted: how somebody else's network is built, see `unplug.plugins.Adopted`; None takes the
            recipe's size of ours.

    Returns:
        The saved checkpoint.

    Raises:
        DataError, TrainingError, OutputError: see `to_tensors`, `fit`, `save_checkpoint`.
        InputError: see `check_network`.
    """
    split = fitting(split, dataset, show=show)
    check_size(dataset, recipe)
    task = kind.of_data(recipe, dataset, split)
    notes: tuple[str, ...] = ()
    if adopted is not None:
        made, size = Adopted.from_dict(adopted), recipe.image_size
        checked = check_network(made, size, task.answers, device=device)
        assert checked.model.adopted is not None
        adopted, notes = checked.model.adopted.to_dict(), checked.notes
        task = replace(task, adopted=adopted)
    facts: dict[str, Any] = {
        "recipe": recipe.to_dict(),
        "edges": list(task.edges),
        "split": keyed(split).sha256,
        "seed": seed,
        "torch": torch.__version__,
        "device": device.type,
        **({} if adopted is None else {"adopted": dict(adopted)}),
    }
    with training_place(out, restart=restart) as work:
        sets = task.sets(dataset, split, device)
        state = StateFile(path=work / "state.safetensors", fingerprint=fingerprint(**facts))
        done = fit_new(
            task,
            sets.train,
            sets.validation,
            seed=seed,
            state=state,
            show=show,
            label=label,
            on_epoch=lambda row: append_metrics(work / "metrics.jsonl", row),
        )
        cost = {
            "forward": done.passes,
            "backward": done.passes,
            "wall_s": done.wall_s,
            "device": describe_device(device),
        }
        record = {
            **record_of(
                task, done.model, sets, dataset, split, seed=seed, role=role, cost=cost, show=show
            ),
            "history": list(done.history),
            **({} if adopted is None else {"adopted": {**adopted, "notes": list(notes)}}),
        }
        save_checkpoint(done.model.cpu(), out, record=record, card=task.card(record))
        write_metrics(out / "metrics.jsonl", done.history)
    return load_checkpoint(out, expect=task.model_type)


def record_of(
    task: GroupTask,
    model: nn.Module,
    sets: Sets,
    dataset: Dataset,
    split: Split,
    *,
    seed: int,
    role: str,
    cost: dict[str, Any],
    show: bool = False,
) -> dict[str, Any]:
    """What ``unplug.json`` says of a predictor: where it comes from, what it cost, and what it
    is worth on each set.
    """
    parts = {"train": sets.train, "validation": sets.validation, "test": sets.test}
    return task.facts() | {
        "schema": task.schema,
        "role": role,
        "data": dataset.facts,
        "split": keyed(split).to_dict(),
        "recipe": task.recipe.to_dict(),
        "seed": seed,
        "cost": cost,
        "metrics": task.measured(model, parts, show=show),
        "versions": versions(),
    }


def check_size(dataset: Dataset, recipe: Recipe) -> None:
    """`DataError` where the data are of another size than the recipe says."""
    if dataset.size != recipe.image_size:
        why = f"its images have {dataset.size} pixels where the recipe says {recipe.image_size}"
        raise DataError(f"data {dataset.spec}", why, "Load it at the recipe's size")


def append_metrics(path: Path, row: dict[str, Any]) -> None:
    """Adds one row to a ``metrics.jsonl`` that others may be watching."""
    try:
        with path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(row, sort_keys=True) + "\n")
    except OSError as error:
        fix = "Free some space and run the same command again"
        raise OutputError(str(path), error.strerror or str(error), fix) from error


def write_metrics(path: Path, history: tuple[dict[str, Any], ...]) -> None:
    """Writes the whole ``metrics.jsonl`` of a finished training (an interrupted one may have
    repeated a row).
    """
    with atomic_path(path, private=True) as temporary:
        temporary.write_text(
            "".join(json.dumps(row, sort_keys=True) + "\n" for row in history), encoding="utf-8"
        )
