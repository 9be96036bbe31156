"""What reference models said, read back: the evidence that an audit, a certification and the method
`folds` use.

Shapes: M models, T training samples, N samples of train, validation and test in this order, R
    models that never saw a person.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import STRICT, InputError, OperatorKey, operator_key, read_dataclass, sha256_file
from unplug.plugins import Checkpoint
from unplug.sdk.forgetting.tasks import StoredTask
from unplug.sdk.forgetting.unlearning import OutOfFold, design_of, own_split, request_split
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import ClassPredictions, LossPredictions, Predictions

from .backend import revive
from .result import Result, read_result, result_path

FILE = "references.json"
PARTS = ("train", "validation", "test")
KEPT: dict[str, type[ClassPredictions] | type[LossPredictions]] = {
    "ClassPredictions": ClassPredictions,
    "LossPredictions": LossPredictions,
}
"""What models may say that can be kept: dataclasses of arrays, a row a sample."""
MOST = 4096
"""Models in all."""
MAX_BYTES = 2**28
AGAIN = "Remove the folder and run `unplug references` again"
AGAIN_TRAIN = "Remove it and train references again"


@dataclass(frozen=True, kw_only=True)
class ReferenceCost:
    """What training all models took, once for all requests.

    Args:
        forward, backward: sample passes.
        wall_s: seconds, summed over the models.
        device: the device that they were trained on.
    """

    forward: int
    backward: int
    wall_s: float
    device: str


@dataclass(frozen=True, kw_only=True)
class ReferenceRecord:
    """``unplug-references/1``: what a folder of references is of.

    Args:
        model_type, recipe, task: the facts about each model, as the original's record has them.
        data: facts of the data, with their digest.
        key: id of the operator's key that `rows` are digests under; no id of a sample is written
            down.
        rows: a digest a sample (N,), those of the training set first.
        trained: T, how many of them are of the training set.
        models, folds: every person was left out by models / folds of them.
        files: SHA-256 of what each model says.
        seed: the seed of the folds and of all trainings.
        cost: once, for all requests to come.
        versions: the versions of the software that trained them.
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
class References:
    """What M models say of N samples, and which of them saw which.

    Args:
        record: the facts that they hold for.
        sha256: the SHA-256 of the record's file.
        seen_MN: True where a model was trained on a sample; never on validation and test.
        person_N: the person in each sample, as an integer that is the same in all sets; one of its
            own where the person is not known.
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
        places = [place.get(self._key.digest(name, digest)) for name in ids]
        if any(row is None for row in places):
            why = (
                f"{places.count(None)} of {len(places)} samples were not there when the references "
                "were trained"
            )
            raise InputError(
                "references", why, "Train references of this original again: `unplug references`"
            )
        return np.array(places, np.int64)

    def never_saw(self, row_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """The models (R,) that were trained on none of some samples; `InputError` where there is
        none.
        """
        models = np.flatnonzero(~self.seen_MN[:, row_N].any(axis=1))
        if not len(models):
            why = "every model saw some of these samples"
            raise InputError("references", why, "Train references of this original again")
        return models

    def apart(self, sha256s: Collection[str]) -> References:
        """These without some models, by the SHA-256 of their files: models whose answers were
        targets are not strangers any more.
        """
        known_M = np.array([sha256 in sha256s for sha256 in self.record.files])
        return replace(self, seen_MN=self.seen_MN | known_M[:, None]) if known_M.any() else self

    def out_of_fold(self, ids: Sequence[str], seed: int) -> OutOfFold:
        """What the models of one round, drawn by a seed, say of some training samples: each of
        those whom it left out.

        Raises:
            InputError: samples that the references do not know, or models without classes.
        """
        if self._kind is not ClassPredictions:
            why = "they are of models without classes"
            raise InputError("references", why, "Choose a method that needs none of them")
        folds, row_N = self.record.folds, self.rows(ids)
        # A round that the request's seed draws, so that a killed forget step is given the same answers again.
        drawn = int(np.random.default_rng([seed, 43]).integers(self.record.models // folds))
        models = np.arange(drawn * folds, (drawn + 1) * folds)
        model_N = models[(~self.seen_MN[np.ix_(models, row_N)]).argmax(axis=0)]
        if self.seen_MN[model_N, row_N].any():
            why = "every model of a round saw some of these samples"
            raise InputError("references", why, "Train references again")
        logits_FG = np.asarray(self._arrays_MN["logits_NG"][model_N, row_N], np.float32)
        files = [self.record.files[number] for number in np.unique(model_N)]
        return OutOfFold(
            ids=tuple(ids),
            logits_FG=torch.from_numpy(logits_FG),
            facts={"round": drawn, "models": files},
        )

    def said(self, model_N: NDArray[np.int64], row_N: NDArray[np.int64]) -> Predictions:
        """What model `model_N[i]` says of sample `row_N[i]`."""
        picked: dict[str, Any] = {
            name: _wide(array[model_N, row_N]) for name, array in self._arrays_MN.items()
        }
        return self._kind(**picked)


def load_references(
    folder: Path, original: Checkpoint, task: StoredTask, dataset: Dataset
) -> References:
    """Reads what `train_references` wrote.

    Args:
        folder: the folder of the references.
        original: the model that a request is about.
        task: the task of the original.
        dataset: the data that the original was trained on.

    Raises:
        InputError: no references, not all of them, of another recipe or other data, or written
            under another key.
    """
    check_ordinary(original)
    path = folder / FILE
    if not path.is_file():
        why = f"there is no {FILE} in it"
        fix = "Make it with `unplug references`; a killed one goes on"
        raise InputError(str(folder), why, fix)
    record = read_dataclass(ReferenceRecord, path, InputError, max_bytes=MAX_BYTES)
    _check_record(record, path)
    _check_origin(record, original, task, dataset, path)
    key = operator_key(record.key)
    _check_split(record, own_split(original, dataset).there(dataset), key, path)
    results = [
        reference_result(folder, f"model-{number:04d}", sha256)
        for number, sha256 in enumerate(record.files)
    ]
    kind = KEPT.get(str(results[0].facts.get("kind")))
    if kind is None:
        raise InputError(str(folder), "its answers are of an unknown kind", AGAIN_TRAIN)
    # Validation and test samples stay False: no model was trained on them.
    seen_MN = np.zeros((record.models, len(record.rows)), bool)
    by_model = []
    for number, result in enumerate(results):
        arrays, seen_T = _answers(result, kind, record, f"{folder}/model-{number:04d}")
        seen_MN[number, : record.trained] = seen_T
        by_model.append(arrays)
    shapes = [{name: array.shape for name, array in arrays.items()} for arrays in by_model]
    if any(shape != shapes[0] for shape in shapes):
        raise InputError(str(folder), "its models answer in different shapes", AGAIN_TRAIN)
    return References(
        record=record,
        sha256=sha256_file(path),
        seen_MN=seen_MN,
        person_N=_people(record, dataset, key),
        _kind=kind,
        _key=key,
        _arrays_MN={name: np.stack([arrays[name] for arrays in by_model]) for name in by_model[0]},
    )


def out_of_fold(
    folder: Path,
    original: Checkpoint,
    task: StoredTask,
    dataset: Dataset,
    forget_ids: Sequence[str],
    seed: int,
) -> OutOfFold:
    """What a forget step is given of a folder of references: see `load_references` and
    `References.out_of_fold`.
    """
    names = request_split(original, dataset, forget_ids).there(dataset).forget
    return load_references(folder, original, task, dataset).out_of_fold(names, seed)


def check_ordinary(original: Checkpoint) -> None:
    """Refuses a model that is made to forget."""
    if design := design_of(original):
        why = f"a {design} model is made to forget, which an equality shows: it needs no references"
        raise InputError(str(original.path), why, "Forget, audit and release it as it is")


def _check_origin(
    record: ReferenceRecord, original: Checkpoint, task: StoredTask, dataset: Dataset, path: Path
) -> None:
    """Refuses references of another recipe than the original's, or of other data."""
    theirs = record.model_type, record.recipe, record.task
    if theirs != (original.model_type, _plain(task.recipe.to_dict()), _plain(task.facts())):
        why = "its models have another recipe than the original"
        raise InputError(str(path), why, "Train references of this original")
    if record.data.get("digest") != dataset.digest:
        why = "its models were trained on other data (digest differs)"
        fix = "Give the data of the original's training, or train references of it"
        raise InputError(str(path), why, fix)


def _check_record(record: ReferenceRecord, path: Path) -> None:
    sound = 0 < record.trained <= len(record.rows) and 2 <= record.folds <= record.models <= MOST
    counts = record.models % record.folds == 0 and len(record.files) == record.models
    if not sound or not counts or len(set(record.rows)) < len(record.rows):
        raise InputError(
            str(path), "its counts do not fit together", "Restore it or train the references again"
        )


def _answers(
    item: Result,
    kind: type[ClassPredictions] | type[LossPredictions],
    record: ReferenceRecord,
    where: str,
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """What one model says of all N samples, and which of the T it saw; refuses what would come out
    as a number of an audit.
    """
    names = [field.name for field in fields(kind) if f"{PARTS[0]}/{field.name}" in item.tensors]
    try:
        arrays = {
            name: np.concatenate([item.tensors[f"{part}/{name}"] for part in PARTS])
            for name in names
        }
        wide: dict[str, Any] = {name: _wide(array) for name, array in arrays.items()}
        answers = kind(**wide)
        sound = answers.finite and all(len(array) == len(record.rows) for array in arrays.values())
        sound = sound and all(array.dtype in (np.float32, np.int64) for array in arrays.values())
        if isinstance(answers, ClassPredictions):
            groups = answers.logits_NG.shape[1]
            sound = (
                sound
                and answers.true_group_N.dtype.kind == "i"
                and bool(np.isin(answers.true_group_N, range(groups)).all())
            )
        seen_T = item.tensors["seen_T"]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(where, f"these are not a model's answers ({error})", AGAIN) from error
    if not sound or seen_T.shape != (record.trained,) or seen_T.dtype != bool:
        raise InputError(
            where, "its answers are of another run, or no numbers of the model's classes", AGAIN
        )
    return arrays, seen_T


def _people(record: ReferenceRecord, dataset: Dataset, key: OperatorKey) -> NDArray[np.int64]:
    owner = {
        key.digest(sample.id, dataset.digest): sample.subject
        for sample in dataset.samples
        if sample.subject is not None
    }
    numbers: dict[str, int] = {}
    names = (owner.get(row) or f"sample {row}" for row in record.rows)
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _check_split(record: ReferenceRecord, split: Split, key: OperatorKey, path: Path) -> None:
    """Refuses references of another split: people whom the original never saw may be people whom
    they saw.

    Whom the original has forgotten since may be among those that they were trained on.
    """
    trained, unseen = set(record.rows[: record.trained]), set(record.rows[record.trained :])
    digest = str(record.data["digest"])
    for names, known in ((split.retain, trained), ((*split.validation, *split.test), unseen)):
        if not {key.digest(name, digest) for name in names} <= known:
            why = "its models were trained on another split of the data than the original's"
            raise InputError(str(path), why, "Train references of this original")


def reference_result(folder: Path, name: str, sha256: str | None = None) -> Result:
    """What one model said; refuses a file that is not the one recorded, and raises what its job
    raised.
    """
    path = result_path(folder, name)
    if sha256 is not None and path.is_file() and sha256_file(path) != sha256:
        raise InputError(str(path), "it is not what the record names (SHA-256 differs)", AGAIN)
    result = read_result(folder, name)
    if result.refused is not None:
        raise revive(result.refused)
    return result


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
