"""``unplug train age``: from a data set and a recipe to a checkpoint folder with its record."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unplug.core import CheckpointError, DataError, OutputError, atomic_path, check_replaceable, versions
from unplug.plugins import AGE_EDGES, CHECKPOINT_FILES, Checkpoint, load_checkpoint, save_checkpoint
from unplug.sdk.data import Dataset, Split

from .card import model_card
from .device import describe_device
from .evaluate import predict, summarize
from .family import AgeFamily, fit_new
from .images import ImageSet, to_class_tensors, to_tensors
from .recipe import Recipe
from .samples import SampleSet
from .state import StateFile, fingerprint

RECORD_SCHEMA = "unplug-checkpoint/1"


@dataclass(frozen=True, kw_only=True)
class Sets:
    """The sets of a split on the device: `train` is what is trained on, `forget` what a request takes out of it."""

    train: SampleSet
    forget: SampleSet
    validation: SampleSet
    test: SampleSet


def load_sets(dataset: Dataset, split: Split, edges: tuple[float, ...] | None, device: torch.device) -> Sets:
    """The retain (as `train`), forget, validation and test sets of a split as tensors; `edges` None takes class labels."""

    def load(ids: Sequence[str]) -> ImageSet:
        if edges is None:
            return to_class_tensors(dataset, ids, device)
        return to_tensors(dataset, ids, edges, device)

    return Sets(train=load(split.retain), forget=load(split.forget), validation=load(split.validation), test=load(split.test))


def edges_of(dataset: Dataset) -> tuple[float, ...]:
    """The data set's own age groups where it has some, else the default ones."""
    return tuple(dataset.age_edges or (float(edge) for edge in AGE_EDGES))


def train_age(
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
) -> Checkpoint:
    """Trains, measures and saves an age predictor; an unfinished run of the same kind at `out` is continued.

    Args:
        dataset: data with ages at ``recipe.image_size``.
        split: with an empty forget set for an original; with one, the retain set is trained on (the oracle).
        recipe: how to train.
        out: checkpoint folder; ``.NAME.training`` beside it holds the state until the end.
        seed: of weights, order and augmentation.
        device: where to compute.
        restart: drop an unfinished run instead of continuing it.
        show: progress bar.
        label: in front of the bar.
        role: "original" or "retrained", for the record.

    Returns:
        The saved checkpoint.

    Raises:
        DataError, TrainingError, OutputError: see `to_tensors`, `fit`, `save_checkpoint`.
    """
    _check_data(dataset, split, recipe)
    edges = edges_of(dataset)
    facts = {"recipe": recipe.to_dict(), "split": split.sha256, "seed": seed, "torch": torch.__version__, "device": device.type}
    work = training_dir(out)
    if restart:
        shutil.rmtree(work, ignore_errors=True)
    check_place(out)
    sets = load_sets(dataset, split, edges, device)
    state = StateFile(path=work / "state.safetensors", fingerprint=fingerprint(**facts))
    done = fit_new(
        AgeFamily(recipe=recipe, edges=edges), sets.train, sets.validation, seed=seed, state=state, show=show, label=label,
        on_epoch=lambda row: append_metrics(work / "metrics.jsonl", row),
    )  # fmt: skip
    record = {
        "schema": RECORD_SCHEMA,
        "role": role,
        "data": {"spec": dataset.spec, "digest": dataset.digest, "samples": len(dataset), "unusable": len(dataset.problems)},
        "split": split.to_dict(),
        "recipe": recipe.to_dict(),
        "seed": seed,
        "cost": {"forward": done.passes, "backward": done.passes, "wall_s": done.wall_s, "device": describe_device(device)},
        "history": list(done.history),
        "metrics": {
            "train": summarize(predict(done.model, sets.train), edges),
            "validation": summarize(predict(done.model, sets.validation), edges),
            "test": summarize(predict(done.model, sets.test), edges),
        },
        "versions": versions(),
    }
    save_checkpoint(done.model.cpu(), out, record=record, card=model_card(record))
    write_metrics(out / "metrics.jsonl", done.history)
    shutil.rmtree(work, ignore_errors=True)
    return load_checkpoint(out, expect="age")


def training_dir(out: Path) -> Path:
    """Where an unfinished training of `out` keeps its state."""
    return out.parent / f".{out.name}.training"


def _check_data(dataset: Dataset, split: Split, recipe: Recipe) -> None:
    if split.data_digest != dataset.digest:
        raise DataError(f"data {dataset.spec}", "the split was made from other data (digest differs)", "Make the split again")
    if dataset.size != recipe.image_size:
        why = f"its images have {dataset.size} pixels where the recipe says {recipe.image_size}"
        raise DataError(f"data {dataset.spec}", why, "Load it at the recipe's size")


def check_place(out: Path) -> None:
    """Finds out before hours of training, not after them, that the result could not be written."""
    check_replaceable(out, "config.json", CHECKPOINT_FILES)
    work = training_dir(out)
    with atomic_path(work / "probe") as temporary:
        temporary.write_text("can this be written?\n", encoding="utf-8")
    (work / "probe").unlink()
    if not any(work.iterdir()):
        work.rmdir()


def append_metrics(path: Path, row: dict[str, Any]) -> None:
    """Adds one row to a ``metrics.jsonl`` that others may be watching."""
    try:
        with path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(row, sort_keys=True) + "\n")
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error), "Free some space and run the same command again") from error


def write_metrics(path: Path, history: tuple[dict[str, Any], ...]) -> None:
    """Writes the whole ``metrics.jsonl`` of a finished training (an interrupted one may have repeated a row)."""
    with atomic_path(path) as temporary:
        temporary.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in history), encoding="utf-8")


def recipe_of(checkpoint: Checkpoint) -> Recipe:
    """The recipe that a checkpoint was trained with.

    Raises:
        CheckpointError: it has no record of one (weights from elsewhere).
    """
    if "recipe" not in checkpoint.record:
        raise CheckpointError(
            str(checkpoint.path), "its unplug.json names no recipe, so no budget can be compared with retraining",
            "Use a checkpoint that `unplug train` wrote",
        )  # fmt: skip
    return Recipe.from_dict(checkpoint.record["recipe"])


def split_of(checkpoint: Checkpoint) -> Split:
    """The split that a checkpoint was trained on; `CheckpointError` where none is recorded."""
    if "split" not in checkpoint.record:
        raise CheckpointError(
            str(checkpoint.path), "its unplug.json names no split", "Use a checkpoint that `unplug train` wrote"
        )
    return Split.from_dict(checkpoint.record["split"], f"{checkpoint.path}/unplug.json")
