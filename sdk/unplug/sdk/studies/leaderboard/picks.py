"""Splits and forget sets that protocols share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unplug.core import DataError
from unplug.sdk.data import Dataset, Split, make_split, pick_forget, resolve_names
from unplug.sdk.training import edges_of

Pick = Callable[[Dataset, Split, int], tuple[str, ...]]


def random_split(dataset: Dataset, seed: int) -> Split:
    """10 % validation, 20 % test, by subject where subjects are known, by the official partition where there is one."""
    return make_split(dataset, seed=seed)


def halved_test(dataset: Dataset, seed: int) -> Split:
    """Train is the official train set; a random half of the official test set is validation, the other half test.

    Raises:
        DataError: the data has no official train and test sets.
    """
    parts = {part: [sample.id for sample in dataset.samples if sample.partition == part] for part in ("train", "test")}
    if not parts["train"] or len(parts["test"]) < 2:
        raise DataError(
            f"data {dataset.spec}", "it has no official train and test sets", "Give data that has, such as cifar10:DIR"
        )
    held = parts["test"]
    validation = set(np.random.default_rng([seed, 51]).permutation(len(held))[: len(held) // 2].tolist())
    return Split(
        data_digest=dataset.digest,
        seed=seed,
        subject_disjoint=False,
        train=tuple(parts["train"]),
        validation=tuple(name for index, name in enumerate(held) if index in validation),
        test=tuple(name for index, name in enumerate(held) if index not in validation),
    )


def fraction(share: float) -> Pick:
    """Picks a random share of train: whole subjects where they are known."""

    def pick(dataset: Dataset, split: Split, seed: int) -> tuple[str, ...]:
        names = pick_forget(dataset, split, fraction=share, seed=seed)
        return resolve_names(names, dataset, "forget set")

    return pick


def first_rows(count: int) -> Pick:
    """Picks the first `count` samples of train, in the data's order; a tenth where train is smaller than twice that."""

    def pick(dataset: Dataset, split: Split, seed: int) -> tuple[str, ...]:
        return split.train[: count if len(split.train) >= 2 * count else max(1, len(split.train) // 10)]

    return pick


def youngest(share: float, groups: int) -> Pick:
    """Picks whole subjects, all of whose training pictures fall into the first `groups` age groups.

    Args:
        share: of train, reached or just exceeded.
        groups: how many age groups, from the youngest on.
    """

    def pick(dataset: Dataset, split: Split, seed: int) -> tuple[str, ...]:
        border = edges_of(dataset)[groups]
        by_id = {sample.id: sample for sample in dataset.samples}
        people: dict[str, list[str]] = {}
        for name in split.train:
            subject = by_id[name].subject
            people.setdefault(f"sample {name}" if subject is None else f"subject {subject}", []).append(name)
        young = [key for key, names in sorted(people.items()) if all(_age(by_id[name].age) < border for name in names)]
        if not young:
            raise DataError(
                f"data {dataset.spec}",
                f"nobody in its training set is under {border:g}",
                "Use data with children, or more of it",
            )
        return _take(people, young, max(1, round(share * len(split.train))), seed, split)

    return pick


def _age(age: float | None) -> float:
    return float("nan") if age is None else age


def _take(people: dict[str, list[str]], keys: Sequence[str], wanted: int, seed: int, split: Split) -> tuple[str, ...]:
    chosen: set[str] = set()
    for index in np.random.default_rng([seed, 78]).permutation(len(keys)):
        if len(chosen) >= wanted:
            break
        chosen |= set(people[keys[index]])
    return tuple(name for name in split.train if name in chosen)
