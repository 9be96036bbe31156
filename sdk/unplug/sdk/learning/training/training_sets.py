"""What a training reads and leaves: the sets of a split on the device, the place of its state, and
its record.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from unplug.core import CheckpointError, InputError, atomic_path, check_replaceable, make_folder
from unplug.plugins import AGE_EDGES, CHECKPOINT_FILES, Checkpoint, check_edges
from unplug.sdk.learning.data import Dataset, Split, opened

from .images import ImageSet, to_class_tensors, to_tensors
from .recipe import Recipe
from .samples import SampleSet

RECORD_SCHEMA = "unplug-checkpoint/1"


@dataclass(frozen=True, kw_only=True)
class Sets:
    """The sets of a split on the device: `train` is what is trained on, `forget` what a request
    takes out of it.
    """

    train: SampleSet
    forget: SampleSet
    validation: SampleSet
    test: SampleSet


def load_sets(
    dataset: Dataset,
    split: Split,
    edges: tuple[float, ...] | None,
    device: torch.device,
    classes: Sequence[str] | None = None,
) -> Sets:
    """The retain (as `train`), forget, validation and test sets of a split as tensors, of what is
    there of them; `edges` None takes class labels, those of the data where no others are named.
    """
    split = split.there(dataset)

    def load(ids: Sequence[str]) -> ImageSet:
        if edges is None:
            return to_class_tensors(dataset, ids, classes or dataset.classes, device)
        return to_tensors(dataset, ids, edges, device)

    return Sets(
        train=load(split.retain),
        forget=load(split.forget),
        validation=load(split.validation),
        test=load(split.test),
    )


def edges_of(dataset: Dataset, chosen: Sequence[float] | None = None) -> tuple[float, ...]:
    """Borders of age groups: those that somebody chose, the data set's own, or the default ones.

    Raises:
        InputError: some were chosen, and the data know ages by their own groups only.
    """
    if chosen is not None and dataset.age_edges is not None:
        theirs = ", ".join(f"{edge:g}" for edge in dataset.age_edges)
        raise InputError(
            f"data {dataset.spec}",
            f"it knows ages only as groups with the borders {theirs}",
            "Leave out `edges`",
        )
    return tuple(map(float, chosen or dataset.age_edges or AGE_EDGES))


def parse_edges(text: str) -> tuple[float, ...]:
    """Borders as the command line has them: rising years with commas, or ``yearly``.

    Raises:
        InputError: no numbers, or numbers that are no borders.

    Example:
        >>> parse_edges("0,13,18,100"), len(parse_edges("yearly"))
        ((0.0, 13.0, 18.0, 100.0), 101)
    """
    if text.strip() == "yearly":
        return tuple(map(float, range(101)))
    try:
        edges = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"`edges={text[:60]}`",
            "it is not a list of years",
            "Write yearly, or for example 0,13,18,25,100",
        ) from error
    check_edges(edges)
    return edges


def training_dir(out: Path) -> Path:
    """Where an unfinished training of `out` keeps its state."""
    return out.parent / f".{out.name}.training"


@contextmanager
def training_place(
    out: Path,
    marker: str = "config.json",
    ours: Sequence[str] = CHECKPOINT_FILES,
    *,
    restart: bool = False,
) -> Iterator[Path]:
    """The folder that holds the state of a training until its result can be read.

    A run that breaks off leaves it, so that the same command goes on.

    Args:
        out: the folder that the training will write.
        marker: the file by which a folder of this kind is known.
        ours: all files that such a folder may hold.
        restart: drop an unfinished run.

    Raises:
        OutputError: `out` is something else, or nothing can be written next to it.
    """
    check_replaceable(out, marker, ours)
    work = training_dir(out)
    if restart:
        shutil.rmtree(work, ignore_errors=True)
    make_folder(work, 0o700)
    try:
        yield work
    except BaseException:
        with suppress(OSError):  # a state is kept, an empty folder is not
            work.rmdir()
        raise
    shutil.rmtree(work, ignore_errors=True)


def check_place(out: Path) -> None:
    """Finds out before hours of training, not after them, that the result could not be written."""
    check_replaceable(out, "config.json", CHECKPOINT_FILES)
    work = training_dir(out)
    with atomic_path(work / "probe", private=True) as temporary:
        temporary.write_text("can this be written?\n", encoding="utf-8")
    (work / "probe").unlink()
    if not any(work.iterdir()):
        work.rmdir()


def recipe_of(checkpoint: Checkpoint) -> Recipe:
    """The recipe that a checkpoint was trained with.

    Raises:
        CheckpointError: it has no record of one (weights from elsewhere).
    """
    if "recipe" not in checkpoint.record:
        raise CheckpointError(
            str(checkpoint.path),
            "its unplug.json names no recipe, so no budget can be compared with retraining",
            "Use a checkpoint that `unplug train` wrote",
        )
    return Recipe.from_dict(checkpoint.record["recipe"])


def split_of(checkpoint: Checkpoint, dataset: Dataset | None = None) -> Split:
    """The split that a checkpoint was trained on.

    Args:
        checkpoint: a checkpoint with its record.
        dataset: the data whose names replace the digests, which a record holds if somebody was
            forgotten; None leaves the digests.

    Raises:
        CheckpointError: no split is recorded.
        InputError: its names are digests under a key that is not here.
    """
    if "split" not in checkpoint.record:
        raise CheckpointError(
            str(checkpoint.path),
            "its unplug.json names no split",
            "Use a checkpoint that `unplug train` wrote",
        )
    split = Split.from_dict(checkpoint.record["split"], f"{checkpoint.path}/unplug.json")
    return split if dataset is None else opened(split, dataset)
