"""What each protocol fixes: split, forget set, settings; and the jobs that are planned for it."""

from __future__ import annotations

from collections import Counter

import pytest
from benchmarks.studies.leaderboard import (
    PROTOCOLS,
    entry,
    unlearned_names,
    unlearning_jobs,
    unlearning_seeds,
)
from benchmarks.studies.leaderboard.plan import original_seeds, retrained_seeds, training_jobs
from benchmarks.studies.leaderboard.protocols import listed

from unplug.core import DataError, InputError
from unplug.plugins import Adopted
from unplug.sdk.learning.data import Dataset, load_dataset

from .conftest import SPEC

PEOPLE = PROTOCOLS.get("people")


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset(SPEC, 32, show=False)


def test_people_forgets_whole_people(dataset: Dataset) -> None:
    split = PEOPLE.forget_split(dataset, 0)
    person = {sample.id: sample.subject for sample in dataset.samples}
    gone, stay = ({person[name] for name in part} for part in (split.forget, split.retain))
    assert split.subject_disjoint and not gone & stay
    wanted = round(0.08 * len(split.train))
    assert wanted <= len(split.forget) <= wanted + 1
    assert split.forget == PEOPLE.forget_split(dataset, 0).forget
    assert len({PEOPLE.forget_split(dataset, seed).forget for seed in range(5)}) > 1
    assert PEOPLE.task(dataset).edges[:3] == (0, 5, 13)


def test_a_forget_set_may_be_listed_if_all_of_it_was_learned(dataset: Dataset) -> None:
    split = PEOPLE.split(dataset, 0)
    person = {sample.id: sample.subject for sample in dataset.samples}
    asked = person[split.train[3]]
    chosen = listed([f"subject:{asked}", split.train[0]])(dataset, split, 0)
    theirs = {name for name in split.train if person[name] == asked}
    assert set(chosen) == {split.train[0], *theirs}
    assert list(chosen) == sorted(chosen, key=split.train.index)
    with pytest.raises(DataError, match="2 of its 3 samples are not in the training set"):
        listed([*split.test[:2], split.train[0]])(dataset, split, 0)
    with pytest.raises(DataError, match="nobody"):
        listed(["nobody"])(dataset, split, 0)


def test_the_wider_network_differs_in_nothing_else() -> None:
    wide = PROTOCOLS.get("people-wide")
    for fact in ("recipe", "default_data", "budget"):
        assert getattr(PEOPLE, fact) == getattr(wide, fact)
    narrow, large = (
        sum(value.numel() for value in Adopted.from_dict(one.network).build(10).parameters())
        for one in (PEOPLE, wide)
    )
    assert 3 < large / narrow < 4 and f"{round(large, -3):,}" in wide.summary


@pytest.mark.parametrize(
    "changes", [{"models": 3}, {"originals": 0}, {"originals": 9, "models": 8}]
)
def test_numbers_out_of_range_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InputError, match="out of range"):
        PEOPLE.with_(**changes)


def test_models_are_spread_over_originals_and_seeds_never_meet() -> None:
    pairs = unlearning_seeds(0, 4, 64)
    assert len(set(pairs)) == 64
    assert Counter(original for original, _ in pairs) == dict.fromkeys(range(4), 16)
    originals, retrained = set(original_seeds(0, 4)), set(retrained_seeds(0, 64))
    unlearned = {seed for _, seed in pairs}
    assert len(originals | retrained | unlearned) == 4 + 64 + 64


def test_more_models_keep_those_that_are_there() -> None:
    method = entry(PEOPLE, "neggrad+", {})
    few, many = (set(unlearned_names(method, 0, 4, count)) for count in (8, 64))
    assert few < many
    few, many = ({job.name for job in training_jobs(0, 4, count)} for count in (8, 64))
    assert few < many
    jobs = unlearning_jobs([method], 0, 4, 8)
    assert {job.name for job in jobs} == {name for name, _ in unlearned_names(method, 0, 4, 8)}
    assert {(job.arguments["budget"], job.arguments["method"]) for job in jobs} == {
        (0.05, "neggrad+")
    }


def test_other_settings_or_budgets_are_other_results() -> None:
    plain, lr, budget = (
        entry(PEOPLE, "msg", given) for given in ({}, {"lr": "0.5"}, {"budget": "0.1"})
    )
    assert len({plain.key, lr.key, budget.key, entry(PEOPLE, "ct", {}).key}) == 4
    assert lr.settings["lr"] == 0.5 and budget.budget == 0.1 and budget.given == plain.given
    assert entry(PEOPLE, "msg", {"lr": str(plain.settings["lr"])}).key == plain.key


@pytest.mark.parametrize(
    "given", [{"budget": "x"}, {"budget": "0"}, {"budget": "nan"}, {"nothing": "1"}, {"lr": "x"}]
)
def test_wrong_settings_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(InputError):
        entry(PEOPLE, "msg", given)
