"""Reference models that each left out a fold of people: trained once, evidence for every later request.

A request about any person then has models that never saw her, and none is trained for it. What is kept is what each model says
of every sample, not the model: attacks read nothing else.

Shapes: M models, T training samples, N samples of train, validation and test in this order, R models that never saw a person.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import (
    STRICT,
    DataError,
    InputError,
    OperatorKey,
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
from unplug.sdk.data import Dataset, OnBad, Split, load_dataset
from unplug.sdk.tasks import StoredTask, task_of
from unplug.sdk.training import (
    ClassPredictions,
    LossPredictions,
    Predictions,
    Sets,
    describe_device,
    predict,
)
from unplug.sdk.unlearning import OutOfFold, design_of, own_split, request_split

from .backend import revive
from .job import Context, Job
from .result import Result, has_result, read_result, result_path
from .run import run_jobs

FILE, PLAN = "references.json", "plan.json"
JOB = "unplug.sdk.fleet.references:reference_job"
CONTEXT = "unplug.sdk.fleet.references:reference_context"
PARTS = ("train", "validation", "test")
KEPT: dict[str, type[ClassPredictions] | type[LossPredictions]] = {
    "ClassPredictions": ClassPredictions,
    "LossPredictions": LossPredictions,
}
"""What models may say that can be kept: dataclasses of arrays, a row a sample."""
FIRST_SEED = 1_000_000
"""Of the first model, far from the seeds of originals, oracles and references of a request."""
LEAST, MOST = 4, 4096
"""Models that never saw a person, and models in all."""
MAX_BYTES = 2**28
AGAIN = "Remove the folder and run `unplug references` again"


@dataclass(frozen=True, kw_only=True)
class ReferenceCost:
    """What training all models took, once for all requests.

    Args:
        forward, backward: sample passes.
        wall_s: seconds, summed over the models.
        device: that they were trained on.
    """

    forward: int
    backward: int
    wall_s: float
    device: str


@dataclass(frozen=True, kw_only=True)
class ReferenceRecord:
    """``unplug-references/1``: what a folder of references is of.

    Args:
        model_type, recipe, task: what each model is, as the original's record says.
        data: facts of the data, with their digest.
        key: id of the operator's key that `rows` are digests under; no id of a sample is written down.
        rows: a digest a sample (N,), those of the training set first.
        trained: T, how many of them are of the training set.
        models, folds: every person was left out by models / folds of them.
        files: SHA-256 of what each model says.
        seed: of the folds and of all trainings.
        cost: once, for all requests to come.
        versions: of what trained them.
    """

    __pydantic_config__: ClassVar = STRICT

    model_type: str
    recipe: dict[str, Any]
    task: dict[str, Any]
    data: dict[str, Any]
    key: str
    rows: tuple[str, ...]
    trained: int
    models: int
    folds: int
    files: tuple[str, ...]
    seed: int
    cost: ReferenceCost
    versions: dict[str, str | None]
    schema: Literal["unplug-references/1"] = "unplug-references/1"


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
    """Trains models of person folds by the original's recipe and keeps what each says of every sample.

    Models are trained in rounds of `folds`. A round deals the people of the training set into that many folds at random, and
    each of its models leaves out one of them. So every person is left out by models / folds models, whoever asks later.

    Args:
        original: whose recipe and split the models have; people whom it forgot are left out of all of them.
        dataset: what it was trained on.
        out: folder; a run that was killed goes on where it stood and loses the models in flight alone.
        models: a multiple of `folds`.
        folds: 2 or more. Few leave many models that never saw a person, each trained on fewer people than the original.
        seed: of the folds and the trainings.
        base: of a plugin: the diffusion base beside it.
        task: of the original, where the caller has opened it already.
        on_bad: how the data were loaded.
        device: where to compute.
        backend: of `BACKENDS`; None takes processes on the CPU, and one model after the other on CUDA.
        workers: of processes: models at once; None is one a core.
        show: progress bar.

    Raises:
        InputError: models that are no multiple of folds, too few or too many, fewer than are there already, or an original
            that is made to forget.
        DataError: other data than the original's, or fewer people than folds.
        OutputError: references of something else are at `out`.
        TrainingError: a training failed; the others are kept.
    """
    task = task or task_of(original, device=device, base=base)
    split, key = own_split(original, dataset), operator_key()
    _check_wanted(original, dataset, split, models, folds)
    given = json_sha256(
        {
            "recipe": task.recipe.to_dict(), "task": task.facts(), "split": split.sha256, "folds": folds, "seed": seed,
            "torch": torch.__version__, "device": device.type,
        }
    )  # fmt: skip
    _check_place(out, given, models)
    jobs = [
        Job(name=f"model-{number:04d}", target=JOB, arguments={"number": number, "folds": folds, "seed": seed})
        for number in range(models)
    ]
    place = {"original": str(original.path.resolve()), "base": base, "device": str(device)}
    context = Context(target=CONTEXT, arguments={**place, "spec": dataset.spec, "on_bad": on_bad})
    missing = [job for job in jobs if not has_result(out, job.name, given)]
    backend = backend or ("processes" if device.type == "cpu" else "loop")
    failed = run_jobs(missing, context, out, backend=backend, workers=workers, show=show, fingerprint=given).failed
    if failed:
        name, note = next(iter(failed.items()))
        raise TrainingError(f"{len(failed)} of {models} reference models", f"{name} failed:\n{note}\n", "Run it again")
    cost = _cost([_result(out, job.name) for job in jobs], device)
    record = ReferenceRecord(
        model_type=original.model_type, recipe=task.recipe.to_dict(), task=task.facts(), data=dataset.facts, key=key.id,
        rows=tuple(key.digest(name, dataset.digest) for name in (*split.retain, *split.validation, *split.test)),
        trained=len(split.retain), models=models, folds=folds, seed=seed, cost=cost, versions=versions(),
        files=tuple(sha256_file(result_path(out, job.name)) for job in jobs),
    )  # fmt: skip
    write_json(out / FILE, asdict(record))
    return record


def _check_wanted(original: Checkpoint, dataset: Dataset, split: Split, models: int, folds: int) -> None:
    if folds < 2 or models % folds:
        why = f"{folds} folds and {models} models leave out some people more often than others"
        raise InputError("references", why, "Use 2 folds or more, and a multiple of that many models")
    if not LEAST * folds <= models <= MOST:
        why = f"of {models} models in {folds} folds {models // folds} never see a person"
        raise InputError("references", why, f"{LEAST} are the least that rank anybody: use {LEAST * folds} to {MOST} models")
    _check_ordinary(original)
    inside = set(split.retain)
    people = {sample.person for sample in dataset.samples if sample.id in inside}
    if len(people) < folds:
        raise DataError(f"data {dataset.spec}", f"{len(people)} people make no {folds} folds", "Use fewer folds")


def _check_ordinary(original: Checkpoint) -> None:
    if design := design_of(original):
        why = f"a {design} model is made to forget, which an equality shows: it needs no references"
        raise InputError(str(original.path), why, "Forget, audit and release it as it is")


def _cost(results: Sequence[Result], device: torch.device) -> ReferenceCost:
    passes = sum(int(item.facts["passes"]) for item in results)
    seconds = sum(float(item.facts["seconds"]) for item in results)
    return ReferenceCost(forward=passes, backward=passes, wall_s=round(seconds, 3), device=describe_device(device))


def reference_context(original: str, spec: str, on_bad: OnBad, base: str | None, device: str) -> _World:
    """Task and sets on the device."""
    where = torch.device(device)
    checkpoint = load_checkpoint(Path(original))
    task = task_of(checkpoint, device=where, base=base)
    dataset = load_dataset(spec, task.image_size, on_bad=on_bad, show=False)
    return _World(task=task, sets=task.sets(dataset, own_split(checkpoint, dataset), where))


def reference_job(world: _World, number: int, folds: int, seed: int) -> Result:
    """Trains one model without its fold and keeps what it says of every sample."""
    start = time.monotonic()
    task, sets = world.task, world.sets
    seen_T = ~left_out(sets.train.subject_N, number, folds, seed)
    own = sets.train.subset(np.flatnonzero(seen_T).tolist())
    done = task.fit(own, sets.validation, seed=FIRST_SEED + 10_000 * seed + number, state=None, show=False, label="")
    tensors: dict[str, NDArray[Any]] = {"seen_T": seen_T}
    kind = ""
    for part in PARTS:
        said = predict(done.model, getattr(sets, part))
        kind = type(said).__name__
        if kind not in KEPT or not said.finite:
            why = f"it answers with {kind}" if said.finite else "some of its outputs are not numbers"
            raise TrainingError(f"reference model {number}", why, f"Only numbers of {' or '.join(KEPT)} can be kept")
        tensors |= {f"{part}/{name}": array for name, array in _arrays(said).items()}
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
    fold_P = np.random.default_rng([seed, number // folds, 41]).permutation(len(people)) % folds
    return np.asarray(fold_P[person_T] == number % folds)


@dataclass(frozen=True, kw_only=True)
class References:
    """What M models say of N samples, and which of them saw which.

    Args:
        record: what they are of.
        sha256: of the record's file.
        seen_MN: True where a model was trained on a sample; never on validation and test.
        person_N: who is in a sample, as an integer that is the same in all sets; one of its own where that is not known.
    """

    record: ReferenceRecord
    sha256: str
    seen_MN: NDArray[np.bool_]
    person_N: NDArray[np.int64]
    _kind: type[ClassPredictions] | type[LossPredictions]
    _arrays_MN: dict[str, NDArray[Any]]
    _key: OperatorKey

    def rows(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Where samples stand (N,) by their ids; `InputError` where one is not among them."""
        place = {name: row for row, name in enumerate(self.record.rows)}
        digest = str(self.record.data["digest"])
        found = [place.get(self._key.digest(name, digest)) for name in ids]
        if any(row is None for row in found):
            why = f"{found.count(None)} of {len(found)} samples were not there when the references were trained"
            raise InputError("references", why, "Train references of this original again: `unplug references`")
        return np.array(found, np.int64)

    def never_saw(self, row_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """The models (R,) that were trained on none of some samples; `InputError` where there is none."""
        found = np.flatnonzero(~self.seen_MN[:, row_N].any(axis=1))
        if not len(found):
            raise InputError("references", "every model saw some of these samples", "Train references of this original again")
        return found

    def apart(self, sha256s: Collection[str]) -> References:
        """These without some models, by the SHA-256 of their files: whose answers were targets is no stranger any more."""
        known_M = np.array([sha256 in sha256s for sha256 in self.record.files])
        return replace(self, seen_MN=self.seen_MN | known_M[:, None]) if known_M.any() else self

    def out_of_fold(self, ids: Sequence[str], seed: int) -> OutOfFold:
        """What the models of one round, drawn by a seed, say of some training samples: each of those whom it left out.

        Raises:
            InputError: samples that the references do not know, or models without classes.
        """
        if self._kind is not ClassPredictions:
            raise InputError("references", "they are of models without classes", "Choose a method that needs none of them")
        folds, row_N = self.record.folds, self.rows(ids)
        drawn = int(np.random.default_rng([seed, 43]).integers(self.record.models // folds))
        models = np.arange(drawn * folds, (drawn + 1) * folds)
        model_N = models[(~self.seen_MN[np.ix_(models, row_N)]).argmax(axis=0)]
        if self.seen_MN[model_N, row_N].any():
            raise InputError("references", "every model of a round saw some of these samples", "Train references again")
        logits_FG = torch.from_numpy(np.asarray(self._arrays_MN["logits_NG"][model_N, row_N], np.float32))
        facts = {"round": drawn, "models": [self.record.files[number] for number in sorted(set(model_N.tolist()))]}
        return OutOfFold(ids=tuple(ids), logits_FG=logits_FG, facts=facts)

    def said(self, model_N: NDArray[np.int64], row_N: NDArray[np.int64]) -> Predictions:
        """What model `model_N[i]` says of sample `row_N[i]`."""
        picked = {name: array[model_N, row_N] for name, array in self._arrays_MN.items()}
        return self._kind(**{name: _wide(array) for name, array in picked.items()})


def load_references(folder: Path, original: Checkpoint, task: StoredTask, dataset: Dataset) -> References:
    """Reads what `train_references` wrote.

    Args:
        folder: of the references.
        original: the model that a request is about.
        task: of the original.
        dataset: what the original was trained on.

    Raises:
        InputError: no references, not all of them, of another recipe or other data, or written under another key.
    """
    _check_ordinary(original)
    path = folder / FILE
    if not path.is_file():
        raise InputError(str(folder), f"there is no {FILE} in it", "Make it with `unplug references`; a killed one goes on")
    record = read_dataclass(ReferenceRecord, path, InputError, max_bytes=MAX_BYTES)
    _check_record(record, path)
    task_facts = (record.model_type, record.recipe, record.task)
    if task_facts != (original.model_type, _plain(task.recipe.to_dict()), _plain(task.facts())):
        raise InputError(str(path), "its models have another recipe than the original", "Train references of this original")
    if record.data.get("digest") != dataset.digest:
        why = "its models were trained on other data (digest differs)"
        raise InputError(str(path), why, "Give the data of the original's training, or train references of it")
    key = operator_key(record.key)
    _check_split(record, own_split(original, dataset), key, path)
    results = [_result(folder, f"model-{number:04d}", sha256) for number, sha256 in enumerate(record.files)]
    kind = KEPT.get(str(results[0].facts.get("kind")))
    if kind is None:
        raise InputError(str(folder), "its answers are of an unknown kind", "Remove it and train references again")
    seen_MN = np.zeros((record.models, len(record.rows)), bool)
    stacked: dict[str, list[NDArray[Any]]] = {}
    for number, item in enumerate(results):
        arrays, seen_T = _answers(item, kind, record, f"{folder}/model-{number:04d}")
        seen_MN[number, : record.trained] = seen_T
        for name, array in arrays.items():
            stacked.setdefault(name, []).append(array)
    if any(len({array.shape for array in arrays}) > 1 or len(arrays) < record.models for arrays in stacked.values()):
        raise InputError(str(folder), "its models answer in different shapes", "Remove it and train references again")
    return References(
        record=record, sha256=sha256_file(path), seen_MN=seen_MN, person_N=_people(record, dataset, key), _kind=kind, _key=key,
        _arrays_MN={name: np.stack(arrays) for name, arrays in stacked.items()},
    )  # fmt: skip


def out_of_fold(
    folder: Path, original: Checkpoint, task: StoredTask, dataset: Dataset, forget_ids: Sequence[str], seed: int
) -> OutOfFold:
    """What a forget step is given of a folder of references: see `load_references` and `References.out_of_fold`."""
    names = request_split(original, dataset, forget_ids).forget
    return load_references(folder, original, task, dataset).out_of_fold(names, seed)


def _check_place(out: Path, given: str, models: int) -> None:
    """Refuses a folder of something else before anything in it is replaced, and notes what it will be of."""
    plan = {"schema": "unplug-references-plan/1", "made_from": given}
    if out.exists() and not out.is_dir():
        raise OutputError(str(out), "it is no folder", "Choose another --out")
    if (out / PLAN).is_file():
        if read_json(out / PLAN) != plan:
            why = "it holds references of another recipe, split, folds, seed, device or version of torch"
            raise OutputError(str(out), why, "Choose another --out")
    elif out.is_dir() and any(out.iterdir()):
        raise OutputError(str(out), "it holds files that are no references", "Choose another --out")
    else:
        write_json(out / PLAN, plan)
    if (out / FILE).is_file():
        found = read_dataclass(ReferenceRecord, out / FILE, InputError, max_bytes=MAX_BYTES).models
        if found > models:
            raise InputError(f"--models {models}", f"{out} holds {found}, and all of them count", f"Ask for {found} or more")


def _check_record(record: ReferenceRecord, path: Path) -> None:
    sound = 0 < record.trained <= len(record.rows) and 2 <= record.folds <= record.models <= MOST
    counts = record.models % record.folds == 0 and len(record.files) == record.models
    if not sound or not counts or len(set(record.rows)) < len(record.rows):
        raise InputError(str(path), "its counts do not fit together", "Restore it or train the references again")


def _answers(
    item: Result, kind: type[ClassPredictions] | type[LossPredictions], record: ReferenceRecord, where: str
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """What one model says of all N samples, and which of the T it saw; refuses what would come out as a number of an audit."""
    names = [field.name for field in fields(kind) if f"{PARTS[0]}/{field.name}" in item.tensors]
    try:
        arrays = {name: np.concatenate([item.tensors[f"{part}/{name}"] for part in PARTS]) for name in names}
        said = kind(**{name: _wide(array) for name, array in arrays.items()})
        sound = said.finite and all(len(array) == len(record.rows) for array in arrays.values())
        sound = sound and all(array.dtype in (np.float32, np.int64) for array in arrays.values())
        if isinstance(said, ClassPredictions):
            groups = said.logits_NG.shape[1]
            sound = sound and said.true_group_N.dtype.kind == "i" and bool(np.isin(said.true_group_N, range(groups)).all())
        seen_T = item.tensors["seen_T"]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(where, f"it is no model's answers ({error})", AGAIN) from error
    if not sound or seen_T.shape != (record.trained,) or seen_T.dtype != bool:
        raise InputError(where, "its answers are of another run, or no numbers of the model's classes", AGAIN)
    return arrays, seen_T


def _people(record: ReferenceRecord, dataset: Dataset, key: OperatorKey) -> NDArray[np.int64]:
    owner = {key.digest(sample.id, dataset.digest): sample.subject for sample in dataset.samples if sample.subject is not None}
    numbers: dict[str, int] = {}
    names = (owner.get(row) or f"sample {row}" for row in record.rows)
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _check_split(record: ReferenceRecord, split: Split, key: OperatorKey, path: Path) -> None:
    """Refuses references of another split: people whom the original never saw may be people whom they saw.

    Whom the original has forgotten since may be among those that they were trained on.
    """
    trained, unseen = set(record.rows[: record.trained]), set(record.rows[record.trained :])
    digest = str(record.data["digest"])
    for names, known in ((split.retain, trained), ((*split.validation, *split.test), unseen)):
        if not {key.digest(name, digest) for name in names} <= known:
            why = "its models were trained on another split of the data than the original's"
            raise InputError(str(path), why, "Train references of this original")


def _result(folder: Path, name: str, sha256: str | None = None) -> Result:
    path = result_path(folder, name)
    if sha256 is not None and path.is_file() and sha256_file(path) != sha256:
        raise InputError(str(path), "it is not what the record names (SHA-256 differs)", AGAIN)
    result = read_result(folder, name)
    if result.refused is not None:
        raise revive(result.refused)
    return result


def _arrays(said: Predictions) -> dict[str, NDArray[Any]]:
    """The arrays of an answer, in half of their size: models compute in float32."""
    found = {field.name: getattr(said, field.name) for field in fields(said)}  # type: ignore[arg-type]
    return {
        name: np.asarray(array, np.float32) if array.dtype.kind == "f" else array
        for name, array in found.items()
        if array is not None
    }


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
