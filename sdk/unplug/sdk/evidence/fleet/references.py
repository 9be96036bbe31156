"""Reference models that each left out a fold of people: trained once, evidence for every later
request.

A request about any person then has models that never saw her, and none is trained for it. What is
kept is what each model says of every sample, not the model: attacks read nothing else.

Shapes: M models, T training samples, N samples of train, validation and test in this order, R
    models that never saw a person.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import (
    DataError,
    InputError,
    OutputError,
    TrainingError,
    json_sha256,
    one_writer,
    operator_key,
    read_dataclass,
    read_json,
    sha256_file,
    versions,
    write_json,
)
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.forgetting.tasks import StoredTask, task_of
from unplug.sdk.forgetting.unlearning import own_split
from unplug.sdk.learning.data import Dataset, OnBad, Split, load_again
from unplug.sdk.learning.training import Predictions, Sets, describe_device, predict

from .job import Context, FleetJob
from .job_runs import backend_for, run_jobs
from .reference_answers import (
    FILE,
    KEPT,
    MAX_BYTES,
    MOST,
    PARTS,
    ReferenceCost,
    ReferenceRecord,
    check_ordinary,
    reference_result,
)
from .result import Result, has_result, result_path

PLAN = "plan.json"
JOB = "unplug.sdk.evidence.fleet.references:reference_job"
CONTEXT = "unplug.sdk.evidence.fleet.references:reference_context"
FIRST_SEED = 1_000_000
"""The seed of the first model, far from the seeds of originals, oracles and references of a
request.
"""
LEAST = 4
"""Models that never saw a person: the least that rank anybody."""


@dataclass(frozen=True, kw_only=True)
class _World:
    """What the jobs share: built anew in each worker."""

    task: StoredTask
    sets: Sets


@one_writer
def train_references(
    original: Checkpoint,
    dataset: Dataset,
    out: Path,
    *,
    models: int = 64,
    folds: int = 4,
    seed: int = 0,
    base: str | None = None,
    task: StoredTask | None = None,
    on_bad: OnBad = "error",
    device: torch.device,
    backend: str | None = None,
    workers: int | None = None,
    show: bool = True,
) -> ReferenceRecord:
    """Trains models of person folds by the original's recipe and keeps what each says of every
    sample.

    Models are trained in rounds of `folds`. A round deals the people of the training set into that
    many folds at random, and each of its models leaves out one of them. So every person is left out
    by models / folds models, whichever person asks later.

    Args:
        original: the original; the models have its recipe and split, and leave out people whom it
            forgot.
        dataset: the data that it was trained on.
        out: folder; a run that was killed goes on where it stood and loses the models in flight
            alone.
        models: a multiple of `folds`.
        folds: 2 or more. Few leave many models that never saw a person, each trained on fewer
            people than the original.
        seed: the seed of the folds and the trainings.
        base: the diffusion base of a plugin.
        task: the task of the original, if the caller has opened it already.
        on_bad: how the data were loaded.
        device: the device to compute on.
        backend: a backend of `BACKENDS`; None takes processes on the CPU, and one model after the
            other on CUDA.
        workers: the number of worker processes, and so of models at once; None is one per core.
        show: progress bar.

    Raises:
        InputError: models that are no multiple of folds, too few or too many, fewer than are there
            already, or an original that is made to forget.
        DataError: other data than the original's, or fewer people than folds.
        OutputError: references of something else are at `out`.
        TrainingError: a training failed; the others are kept.
    """
    task = task or task_of(original, device=device, base=base)
    split, key = own_split(original, dataset).there(dataset), operator_key()
    _check_wanted(original, dataset, split, models, folds)
    facts: dict[str, Any] = {"recipe": task.recipe.to_dict(), "task": task.facts()}
    step: dict[str, Any] = {"folds": folds, "seed": seed}
    platform = {"torch": torch.__version__, "device": device.type}
    given = json_sha256({**facts, **step, **platform, "split": split.sha256})
    _check_place(out, given, models)
    jobs = [
        FleetJob(name=f"model-{number:04d}", target=JOB, arguments={"number": number, **step})
        for number in range(models)
    ]
    place = {"original": str(original.path.resolve()), "base": base, "device": str(device)}
    context = Context(target=CONTEXT, arguments={**place, "spec": dataset.spec, "on_bad": on_bad})
    run_jobs(
        [job for job in jobs if not has_result(out, job.name, given)],
        context,
        out,
        backend=backend or backend_for(device),
        workers=workers,
        show=show,
        pictures=task.recipe.passes(len(split.retain) * (folds - 1) // folds),
        fingerprint=given,
    ).check("reference models", models)
    names = (*split.retain, *split.validation, *split.test)
    record = ReferenceRecord(
        model_type=original.model_type,
        **facts,
        **step,
        data=dataset.facts,
        key=key.id,
        rows=tuple(key.digest(name, dataset.digest) for name in names),
        trained=len(split.retain),
        models=models,
        cost=_cost([reference_result(out, job.name) for job in jobs], device),
        versions=versions(),
        files=tuple(sha256_file(result_path(out, job.name)) for job in jobs),
    )
    write_json(out / FILE, asdict(record), private=True)
    return record


def _check_wanted(
    original: Checkpoint, dataset: Dataset, split: Split, models: int, folds: int
) -> None:
    fix = "Use 2 folds or more, and a multiple of that many models"
    if folds < 2 or models % folds:
        why = f"{folds} folds and {models} models leave out some people more often than others"
        raise InputError("references", why, fix)
    if not LEAST * folds <= models <= MOST:
        why = f"of {models} models in {folds} folds {models // folds} never see a person"
        fix = f"{LEAST} are the least that rank anybody: use {LEAST * folds} to {MOST} models"
        raise InputError("references", why, fix)
    check_ordinary(original)
    inside = set(split.retain)
    people = {sample.person for sample in dataset.samples if sample.id in inside}
    if len(people) < folds:
        raise DataError(
            f"data {dataset.spec}", f"{len(people)} people make no {folds} folds", "Use fewer folds"
        )


def _cost(results: Sequence[Result], device: torch.device) -> ReferenceCost:
    passes = sum(int(item.facts["passes"]) for item in results)
    seconds = sum(float(item.facts["seconds"]) for item in results)
    return ReferenceCost(
        forward=passes, backward=passes, wall_s=round(seconds, 3), device=describe_device(device)
    )


def reference_context(
    original: str, spec: str, on_bad: OnBad, base: str | None, device: str
) -> _World:
    """Task and sets on the device."""
    where = torch.device(device)
    checkpoint = load_checkpoint(Path(original))
    task = task_of(checkpoint, device=where, base=base)
    size, record = task.image_size, checkpoint.record
    dataset = load_again(spec, size, record, on_bad=on_bad, show=False)
    return _World(task=task, sets=task.sets(dataset, own_split(checkpoint, dataset), where))


def reference_job(world: _World, number: int, folds: int, seed: int) -> Result:
    """Trains one model without its fold and keeps what it says of every sample."""
    start = time.monotonic()
    task, sets = world.task, world.sets
    seen_T = ~left_out(sets.train.subject_N, number, folds, seed)
    subset = sets.train.subset(np.flatnonzero(seen_T).tolist())
    done = task.fit(
        subset,
        sets.validation,
        # Rounds of another seed must not train the same models again.
        seed=FIRST_SEED + 10_000 * seed + number,
        state=None,
        show=False,
        label="",
    )
    tensors: dict[str, NDArray[Any]] = {"seen_T": seen_T}
    kind = ""
    for part in PARTS:
        answers = predict(done.model, getattr(sets, part))
        kind = type(answers).__name__
        if kind not in KEPT or not answers.finite:
            why = (
                f"it answers with {kind}"
                if answers.finite
                else "some of its outputs are not numbers"
            )
            raise TrainingError(
                f"reference model {number}", why, f"Only numbers of {' or '.join(KEPT)} can be kept"
            )
        tensors |= {f"{part}/{name}": array for name, array in _arrays(answers).items()}
    facts = {"kind": kind, "passes": done.passes, "seconds": round(time.monotonic() - start, 3)}
    return Result(tensors=tensors, facts=facts)


def left_out(subject_T: NDArray[np.int64], number: int, folds: int, seed: int) -> NDArray[np.bool_]:
    """Which training samples model `number` never sees (T,): one fold of the people of its round.

    Example:
        >>> who = np.array([0, 0, 1, 2, 3])
        >>> sum(left_out(who, number, 4, seed=0) for number in range(4)).tolist()
        [1, 1, 1, 1, 1]
    """
    people, person_T = np.unique(subject_T, return_inverse=True)
    # All models of a round share the permutation, so that their folds are disjoint and cover everybody.
    fold_P = np.random.default_rng([seed, number // folds, 41]).permutation(len(people)) % folds
    return np.asarray(fold_P[person_T] == number % folds)


def _check_place(out: Path, given: str, models: int) -> None:
    """Refuses a folder of something else before anything in it is replaced, and notes what it will
    be of.
    """
    plan = {"schema": "unplug-references-plan/1", "made_from": given}
    if out.exists() and not out.is_dir():
        raise OutputError(str(out), "it is not a folder", "Choose another `out`")
    if (out / PLAN).is_file():
        if read_json(out / PLAN) != plan:
            why = (
                "it holds references of another recipe, split, folds, seed, device or version of "
                "torch"
            )
            raise OutputError(str(out), why, "Choose another `out`")
    elif out.is_dir() and any(out.iterdir()):
        raise OutputError(str(out), "it holds files that are no references", "Choose another `out`")
    else:
        write_json(out / PLAN, plan, private=True)
    if (out / FILE).is_file():
        models_there = read_dataclass(
            ReferenceRecord, out / FILE, InputError, max_bytes=MAX_BYTES
        ).models
        if models_there > models:
            raise InputError(
                f"`models={models}`",
                f"{out} holds {models_there}, and all of them count",
                f"Ask for {models_there} or more",
            )


def _arrays(said: Predictions) -> dict[str, NDArray[Any]]:
    """The arrays of an answer, in half of their size: models compute in float32."""
    arrays = {field.name: getattr(said, field.name) for field in fields(said)}  # type: ignore[arg-type]
    return {
        name: np.asarray(array, np.float32) if array.dtype.kind == "f" else array
        for name, array in arrays.items()
        if isinstance(array, np.ndarray)
    }
