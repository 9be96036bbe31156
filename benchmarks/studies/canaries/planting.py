"""Planting canary people in data, and reading a bound on epsilon off models that were trained on
them.

Shapes: N pictures of canaries, M canaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import CheckpointError, DataError, InputError, OutputError, versions, write_json
from unplug.plugins import Checkpoint
from unplug.sdk.evidence.auditing.attacks.task_loss import strongest
from unplug.sdk.forgetting.tasks import task_of
from unplug.sdk.learning.data import (
    CanariesSource,
    Dataset,
    OnBad,
    Split,
    load_dataset,
    load_split,
    make_split,
    parse_spec,
    save_split,
    whole_spec,
)
from unplug.sdk.learning.training import predict, split_of, to_tensors

from .bound import (
    CONFIDENCE,
    DELTA,
    LEAST,
    LEAST_YEARS,
    CanaryReport,
    CanaryRow,
    canary_bound,
    check_canaries,
    choose_included,
    person_scores,
    wrong_ages,
)

PLANTED, SPLIT, FORGET = "planted.json", "split.json", "forget.json"
PEOPLE = 160
"""Canaries that are planted by default: if all guesses are right they show an epsilon of 3 to 4."""
ROUNDING = 0.02
"""Years; wrong ages are written in hundredths."""


@dataclass(frozen=True, kw_only=True)
class PlantingPlan:
    """What was planted.

    Args:
        people, pictures, included: canaries, their pictures, and how many of the people the split
            trains on.
        train: pictures that the split trains on.
        split: as it was written.
    """

    people: int
    pictures: int
    included: int
    train: int
    split: Split


def plant(
    spec: str,
    out: Path,
    *,
    people: int,
    size: int,
    seed: int,
    on_bad: OnBad = "error",
    show: bool = True,
) -> PlantingPlan:
    """Gives some people of the training set wrong ages, and keeps half of them, by a coin each, out
    of it.

    Writes to a folder of its own ``planted.json`` (the wrong ages: it is the data spec
    ``canaries:DIR``), ``split.json`` and ``forget.json`` (who was included). The last two hold the
    coins and are for whoever plants alone: the folder is private.

    Args:
        spec: the data; its ages are taken for true.
        out: a folder that does not exist, or is empty, or what a killed call left.
        people: M, at most half of the people in the training set.
        size: side in pixels to decode to.
        seed: of the split, of the draw, of the wrong ages and of the coins.
        on_bad, show: see `load_dataset`.

    Raises:
        InputError: too few canaries or too many, ages of too narrow a range.
        DataError: data without ages.
        OutputError: the folder holds something else, or canaries already.
    """
    _check_free(out)
    if people < LEAST:
        choose_included(people, seed)  # refuses them, and says how many it takes
    dataset = load_dataset(spec, size, on_bad=on_bad, show=show)
    split = make_split(dataset, seed=seed)
    chosen = _choose(dataset, split, people, seed)
    ids = [name for own in chosen for name in own]
    known_N = dataset.ages.astype(np.float64)
    true_N = known_N[dataset.indices(ids)]
    low, high = float(np.nanmin(known_N)), float(np.nanmax(known_N))
    given_N = np.round(wrong_ages(true_N, seed, low=low, high=high), 2)
    coin_M = choose_included(people, seed)
    out.mkdir(parents=True, exist_ok=True)
    out.chmod(0o700)
    ages = {name: float(age) for name, age in zip(ids, given_N, strict=True)}
    write_json(
        out / PLANTED,
        {"schema": "unplug-planted/1", "data": whole_spec(spec), "ages": ages, "seed": seed},
        private=True,
    )
    planted = load_dataset(f"canaries:{out}", size, on_bad=on_bad, show=show)
    left_out = {name for own, coin in zip(chosen, coin_M, strict=True) if not coin for name in own}
    mine = {name for own, coin in zip(chosen, coin_M, strict=True) if coin for name in own}
    train = tuple(name for name in split.train if name not in left_out)
    split = replace(
        split, data_digest=planted.digest, train=train, rows=tuple(sorted(planted.marks))
    )
    save_split(split, out / SPLIT)
    write_json(
        out / FORGET,
        {"samples": [name for name in train if name in mine], "subjects": []},
        private=True,
    )
    return PlantingPlan(
        people=people, pictures=len(ids), included=int(coin_M.sum()), train=len(train), split=split
    )


def canary_report(
    checkpoints: Sequence[Checkpoint],
    folder: Path,
    *,
    delta: float = DELTA,
    device: torch.device,
    on_bad: OnBad = "error",
    show: bool = True,
) -> CanaryReport:
    """The bound for every checkpoint that was trained on the canaries of a folder.

    Args:
        checkpoints: the original, and models that forgot those of its canaries who were trained on.
        folder: of `plant`.
        delta: of the promise, 0 to 1.
        device: that models are asked on.
        on_bad, show: see `load_dataset`.

    Raises:
        InputError: no checkpoints, one that is no age model, canaries whose ages are true, delta
            out of range.
        DataError: the folder is not whole, or was edited.
        CheckpointError: a model that was not trained on these canaries, or that forgot somebody
            else.
    """
    if not checkpoints:
        raise InputError(
            "canaries", "no model was given", "Give the folders of models that were trained on them"
        )
    for item in checkpoints:
        if item.model_type != "age":
            why = f"a {item.model_type} model says no age"
            raise InputError(str(item.path), why, "Canaries have wrong ages: give an age model")
    size = task_of(checkpoints[0], device=device, base=None).image_size
    dataset = load_dataset(f"canaries:{folder}", size, on_bad=on_bad, show=show)
    ids = _canaries(dataset)
    split = _split(folder, dataset)
    person_N, included_M = _people(ids, dataset, split)
    rows = [
        _row(item, dataset, split, ids, person_N, included_M, delta, device) for item in checkpoints
    ]
    return CanaryReport(
        data={"spec": dataset.spec, "digest": dataset.digest},
        canaries=len(included_M),
        pictures=len(ids),
        included=int(included_M.sum()),
        confidence=CONFIDENCE,
        delta=delta,
        models=tuple(rows),
        versions=versions(),
    )


def _check_free(out: Path) -> None:
    """Planting anew where models were trained on the old coins would leave these without any."""
    if (out / FORGET).exists():
        raise OutputError(
            str(out),
            "canaries are planted there already",
            "Give another `out`: models need the old coins",
        )
    if out.exists() and (
        not out.is_dir() or {item.name for item in out.iterdir()} - {PLANTED, SPLIT}
    ):
        raise OutputError(
            str(out), "it is there and not empty", "Give a folder of its own as `out`"
        )


def _choose(dataset: Dataset, split: Split, people: int, seed: int) -> list[list[str]]:
    """The pictures of each canary: whole people of the training set whose ages are all known."""
    by_id = {sample.id: sample for sample in dataset.samples}
    pictures: dict[str, list[str]] = {}
    for name in split.train:
        pictures.setdefault(by_id[name].person, []).append(name)
    able = sorted(
        person
        for person, own in pictures.items()
        if all(by_id[name].age is not None for name in own)
    )
    if not able:
        raise DataError(
            f"data {dataset.spec}",
            "it has no ages, and canaries have wrong ones",
            "Give faces with ages",
        )
    most = min(len(able), len(pictures) // 2)
    if people > most:
        why = (
            f"{len(pictures)} people are trained on, and at most half of them, here {most}, may "
            "have wrong ages"
        )
        fix = (
            f"Plant {LEAST} to {most}"
            if most >= LEAST
            else f"Give data with {2 * LEAST} people or more to train on"
        )
        raise InputError(f"{people} canaries", why, fix)
    drawn = np.random.default_rng([seed, 100]).permutation(len(able))[:people]
    return [pictures[able[index]] for index in drawn]


def _split(folder: Path, dataset: Dataset) -> Split:
    """The coins of a folder."""
    if not (folder / FORGET).is_file():
        raise DataError(
            str(folder),
            "planting was not finished there",
            "Plant them again: python -m benchmarks.studies canaries plant",
        )
    split = load_split(folder / SPLIT)
    if split.data_digest != dataset.digest:
        why = "its split is of other data than those that its canaries are planted in now"
        raise DataError(
            str(folder), why, "Restore the data and the folder, or plant and train again"
        )
    return split


def _canaries(dataset: Dataset) -> list[str]:
    """The pictures of canaries, in the data's order; refuses those whose age is the one that the
    data give them.
    """
    source = parse_spec(dataset.spec)
    assert isinstance(source, CanariesSource)
    ids = [name for name in dataset.ids if name in source.planted.ages]
    known = {sample.id: sample.age for sample in source.pictures_of.listing().samples}
    true_N = np.array([np.nan if (age := known[name]) is None else age for name in ids], np.float64)
    given_N = dataset.ages.astype(np.float64)[dataset.indices(ids)]
    check_canaries(true_N, given_N, least=LEAST_YEARS - ROUNDING)
    return ids


def _people(
    ids: Sequence[str], dataset: Dataset, split: Split
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Who is in each picture of a canary (N,), and whose coin says that she is trained on (M,)."""
    trained = set(split.train)
    owner = [dataset.samples[int(index)].person for index in dataset.indices(ids)]
    names, person_N = np.unique(owner, return_inverse=True)
    in_N = np.array([name in trained for name in ids])
    included_M = np.array([in_N[person_N == number].all() for number in range(len(names))])
    if (included_M[person_N] != in_N).any():
        why = "its split trains on some pictures of a canary and not on others"
        raise DataError("canaries", why, "Each has one coin: plant and train again")
    return person_N.astype(np.int64), included_M


def _row(
    checkpoint: Checkpoint,
    dataset: Dataset,
    split: Split,
    ids: Sequence[str],
    person_N: NDArray[np.int64],
    included_M: NDArray[np.bool_],
    delta: float,
    device: torch.device,
) -> CanaryRow:
    where, record = str(checkpoint.path), checkpoint.record
    signals = record.get("split") or {}
    if signals.get("data_digest") != dataset.digest:
        raise CheckpointError(
            where,
            "it was not trained on these canaries",
            f"Train it with `unplug train age --data {dataset.spec} --split SPLIT`",
        )
    trained = split_of(checkpoint, dataset)
    if set(trained.train) != set(split.train):
        why = "it was trained on the data of these canaries, but by other coins"
        raise CheckpointError(where, why, "Train with the `split` that lies in their folder")
    mine = {name for name, person in zip(ids, person_N.tolist(), strict=True) if included_M[person]}
    if trained.forget and set(trained.forget) != mine:
        both = set(trained.forget) & mine
        why = (
            f"it forgot {len(both)} of the {len(mine)} pictures of canaries, and "
            f"{len(trained.forget) - len(both)} others"
        )
        raise CheckpointError(where, why, f"Forget exactly those of {FORGET} in their folder")
    task = task_of(checkpoint, device=device, base=None)
    answers = predict(
        task.network(checkpoint.model).to(device), to_tensors(dataset, ids, task.edges, device)
    )
    score_N = strongest(answers)
    bound = canary_bound(
        person_scores(score_N, person_N, range(len(included_M))), included_M, delta=delta
    )
    step = record.get("forget") or {}
    return CanaryRow(
        name=checkpoint.path.name,
        role=record.get("role", "original"),
        sha256=checkpoint.sha256,
        method=step.get("method"),
        budget=(step.get("cost") or {}).get("budget"),
        bound=bound,
    )
