"""What an exported file's rounding costs in the task itself, besides its parity in decibels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.export import Artifact, TaskDelta
from unplug.plugins import Checkpoint
from unplug.sdk.evidence.statistics import mean_estimate
from unplug.sdk.forgetting.tasks import StoredTask, task_of
from unplug.sdk.learning.data import Dataset, opened
from unplug.sdk.learning.training import Predictions, SampleSet, predict, split_of

SEED = 0
CPU = torch.device("cpu")


def task_deltas(
    checkpoint: Checkpoint,
    dataset: Dataset,
    artifacts: Sequence[Artifact],
    *,
    most: int,
    base: str | None = None,
) -> tuple[TaskDelta, ...]:
    """Errors of files minus their checkpoint's, sample by sample on the test set, with an interval
    over people.

    delta = mean_n(e_file,n - e_checkpoint,n), with e the error in years, a classifier's cross
    entropy, or a plugin's loss at fixed noise.

    Args:
        checkpoint: a checkpoint with the record of its training.
        dataset: the data that it was trained on.
        artifacts: the files that run on this machine.
        most: test samples, at most, in the split's order, which is shuffled.
        base: the diffusion base of a plugin, see `task_of`.

    Raises:
        InputError: the data is not what the checkpoint was trained on, so that none of it is known
            to be unseen.
        CheckpointError: a record without what is needed.
    """
    task = task_of(checkpoint, device=CPU, base=base)
    part = _test_part(checkpoint, dataset, task, most)
    theirs_N = _errors(predict(task.network(checkpoint.model), part))
    rows = []
    for file in artifacts:
        ours_N = _errors(task.predict_artifact(file, [part])[0])
        delta = mean_estimate(ours_N - theirs_N, part.subject_N, SEED)
        rows.append(
            TaskDelta(
                file=file.path.name,
                unit=task.unit,
                samples=len(part),
                error=float(ours_N.mean()),
                checkpoint_error=float(theirs_N.mean()),
                delta=delta.value,
                low=delta.low,
                high=delta.high,
            )
        )
    return tuple(rows)


def _errors(said: Predictions) -> NDArray[np.float64]:
    return -said.log_prob_N if np.isnan(said.error_N).any() else said.error_N


def _test_part(checkpoint: Checkpoint, dataset: Dataset, task: StoredTask, most: int) -> SampleSet:
    """The first test samples of the split; of the other sets one each, for sets may not be empty."""
    split = split_of(checkpoint)
    if split.data_digest != dataset.digest:
        why = (
            "it is not what the model was trained on, so nothing says which samples it has not seen"
        )
        raise InputError(
            f"data {dataset.spec}", why, "Give the data of its training, or leave `task` out"
        )
    split = opened(split, dataset).there(dataset)
    few = replace(
        split,
        train=split.train[:1],
        forget=(),
        validation=split.validation[:1],
        test=split.test[:most],
    )
    return task.sets(dataset, few, CPU).test
