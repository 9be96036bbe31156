"""One training of a search, in a process of its own: a size, epochs and a seed in; weights and the
error on validation people out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unplug.core import json_sha256
from unplug.sdk.evidence.fleet import Context, FleetJob, Result
from unplug.sdk.forgetting.tasks import TASKS, GroupTask
from unplug.sdk.learning.data import Dataset, OnBad, Split, fitting, load_dataset, load_split
from unplug.sdk.learning.training import (
    ClassPredictions,
    Predictions,
    Recipe,
    Sets,
    StateFile,
    fingerprint,
    predict,
)

JOB = "unplug.sdk.searching.trials:trial"
CONTEXT = "unplug.sdk.searching.trials:world"


@dataclass(frozen=True, kw_only=True)
class World:
    """What trainings share.

    Args:
        task: the task; each training replaces the size and the epochs of its recipe.
        dataset, split, sets: the data, who is in which part, and the parts in memory.
        states: folder of the states of trainings that a killed search left.
    """

    task: GroupTask
    dataset: Dataset
    split: Split
    sets: Sets
    states: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A training to make.

    Args:
        size: see `unplug.plugins.size_of`.
        epochs: passes over the training set.
        seed: the seed of weights, order and augmentation.
    """

    size: str
    epochs: int
    seed: int

    @property
    def job(self) -> FleetJob:
        """The training as a job, named by its content."""
        facts = {"size": self.size, "epochs": self.epochs, "seed": self.seed}
        return FleetJob(name=json_sha256(facts)[:24], target=JOB, arguments=facts)


def opened(
    dataset: Dataset, split: Split, kind: type[GroupTask], recipe: Recipe, device: torch.device
) -> World:
    """The data on a device."""
    task = kind.of_data(recipe, dataset, split)
    return World(
        task=task,
        dataset=dataset,
        split=split,
        sets=task.sets(dataset, split, device),
    )


def context(world: World, split: Path, on_bad: OnBad) -> Context:
    """The same world, for another process; states of trainings lie next to the split."""
    facts: dict[str, Any] = {
        "spec": world.dataset.spec,
        "split": str(split),
        "task": world.task.model_type,
        "recipe": world.task.recipe.to_dict(),
        "on_bad": on_bad,
        "device": str(world.sets.train.device),
    }
    return Context(target=CONTEXT, arguments=facts)


def world(
    spec: str, split: str, task: str, recipe: dict[str, Any], on_bad: OnBad, device: str
) -> World:
    """What `context` names."""
    made, kind = Recipe.from_dict(recipe), TASKS.get(task)
    assert issubclass(kind, GroupTask)
    labels: Sequence[str] | None = () if task == "classes" else None
    dataset = load_dataset(spec, made.image_size, on_bad=on_bad, show=False, labelled=labels)
    place = Path(split)
    known = opened(dataset, fitting(load_split(place), dataset), kind, made, torch.device(device))
    return replace(known, states=place.parent / "states")


def trial(shared: World, size: str, epochs: int, seed: int) -> Result:
    """Trains a size, and keeps the weights of a full training; one whose loss is not a number is a
    refusal, which is a result.
    """
    task = sized(shared.task, size, epochs)
    sets = shared.sets
    state = _state(shared, Trial(size=size, epochs=epochs, seed=seed))
    done = task.fit(sets.train, sets.validation, seed=seed, state=state, show=False, label="")
    error = float(errors(predict(done.model, sets.validation)).mean())
    full = epochs == shared.task.recipe.epochs
    kept = done.model.state_dict() if full else {}
    tensors = {name: value.detach().cpu().numpy() for name, value in kept.items()}
    facts = {"error": error, "passes": done.passes, "seconds": round(done.wall_s, 3)}
    if state is not None:
        state.path.unlink(missing_ok=True)
    return Result(tensors=tensors, facts=facts)


def _state(shared: World, asked: Trial) -> StateFile | None:
    """Where a training keeps its state after each epoch, for a search that is killed meanwhile."""
    if shared.states is None:
        return None
    facts = {
        "split": shared.split.sha256,
        "data": shared.dataset.digest,
        "torch": torch.__version__,
    }
    mark = fingerprint(**facts, recipe=shared.task.recipe.to_dict(), trial=asdict(asked))
    return StateFile(path=shared.states / f"{mark[:24]}.safetensors", fingerprint=mark)


def sized(task: GroupTask, size: str, epochs: int) -> GroupTask:
    """The task with another size and another number of epochs."""
    return replace(task, recipe=replace(task.recipe, size=size, epochs=epochs))


def errors(said: Predictions) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The error of each sample (N,): years, or 1 where the label is wrong."""
    assert isinstance(said, ClassPredictions)
    if said.classes:
        return 1.0 - said.correct_N.astype(np.float64)
    return said.error_N
