"""What each protocol fixes: split, forget set, settings, task; and the jobs that are planned for
it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from benchmarks.studies.leaderboard import (
    METRICS,
    PROTOCOLS,
    BenchmarkProtocol,
    entry,
    unlearned_names,
    unlearning_jobs,
    unlearning_seeds,
)
from benchmarks.studies.leaderboard.plan import original_seeds, retrained_seeds, training_jobs
from benchmarks.studies.leaderboard.protocols import listed

from unplug.core import DataError, InputError
from unplug.plugins import Adopted
from unplug.sdk.forgetting.tasks import AgeTask, ClassTask
from unplug.sdk.forgetting.unlearning import PLANNED
from unplug.sdk.learning.data import Dataset, load_dataset

from . import folders
from .conftest import SPEC

PEOPLE = PROTOCOLS.get("people")


def load(spec: str, size: int = 32) -> Dataset:
    return load_dataset(spec, size, show=False)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load(SPEC)


def subjects(dataset: Dataset, ids: tuple[str, ...]) -> set[str | None]:
    return {dataset.samples[int(index)].subject for index in dataset.indices(ids)}


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_every_protocol_says_what_it_is(name: str) -> None:
    protocol: BenchmarkProtocol = PROTOCOLS.get(name)
    assert protocol.name == name and len(protocol.summary) > 80
    assert all(item.metric in METRICS for item in protocol.published)
    if protocol.default_data is None:
        with pytest.raises(
            InputError, match=rf"--data {name if name != 'starting-kit' else 'cifar10'}:DIR"
        ):
            protocol.data(None)
    assert protocol.data("csv:x") == "csv:x"


def test_people_forgets_whole_people(dataset: Dataset) -> None:
    split = PEOPLE.forget_split(dataset, 0)
    assert split.subject_disjoint
    assert subjects(dataset, split.forget).isdisjoint(subjects(dataset, split.retain))
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


def test_challenge_forgets_whole_children(dataset: Dataset) -> None:
    protocol = PROTOCOLS.get("challenge")
    assert protocol.data(None) == "synth:n=2000,subjects=1000,seed=0"
    split = protocol.forget_split(dataset, 0)
    ages = dataset.ages[dataset.indices(split.forget)]
    assert len(split.forget) >= 1 and ages.max() < 13 and split.subject_disjoint
    assert subjects(dataset, split.forget).isdisjoint(subjects(dataset, split.retain))
    wanted = round(0.03 * len(split.train))
    assert wanted <= len(split.forget) <= wanted + 1
    assert len({protocol.forget_split(dataset, seed).forget for seed in range(5)}) > 1


def test_challenge_needs_children(tmp_path: Path) -> None:
    rows = [f"{number}.png,{40 + number}" for number in range(20)]
    for number in range(20):
        folders.picture(tmp_path / f"{number}.png", 5 * number)
    (tmp_path / "labels.csv").write_text("\n".join(["path,age", *rows]))
    with pytest.raises(DataError, match="nobody in its training set is under 13"):
        PROTOCOLS.get("challenge").forget_split(load(f"csv:{tmp_path / 'labels.csv'}"), 0)


def test_utkface_forgets_of_all_ages(tmp_path: Path) -> None:
    protocol = PROTOCOLS.get("utkface")
    dataset = load(folders.utkface(tmp_path), 48)
    split = protocol.forget_split(dataset, 0)
    assert (len(split.train), len(split.validation), len(split.test)) == (70, 10, 20)
    assert len(split.forget) == 1 and set(split.forget) < set(split.train)
    assert isinstance(protocol.task(dataset), AgeTask) and protocol.recipe.image_size == 48


def test_starting_kit_halves_the_test_set(tmp_path: Path) -> None:
    protocol = PROTOCOLS.get("starting-kit")
    dataset = load(folders.cifar10(tmp_path))
    split = protocol.forget_split(dataset, 0)
    assert (len(split.train), len(split.forget), len(split.validation), len(split.test)) == (
        60,
        6,
        10,
        11,
    )
    assert all(name.startswith("train/") for name in split.train)
    assert all(name.startswith("test/") for name in (*split.validation, *split.test))
    assert not set(split.validation) & set(split.test)
    task = protocol.task(dataset)
    assert isinstance(task, ClassTask) and len(task.edges) == 11 and task.width == 64


def test_starting_kit_needs_official_sets(dataset: Dataset) -> None:
    with pytest.raises(DataError, match="no official train and test sets"):
        PROTOCOLS.get("starting-kit").forget_split(dataset, 0)


@pytest.mark.parametrize("name", ["finetune", "noise"])
def test_starting_kit_repairs_as_the_kit_does(name: str) -> None:
    protocol = PROTOCOLS.get("starting-kit")
    repair = entry(protocol, name, {})
    assert {"lr": 0.1, "optimizer": "sgd", "batch_size": 128}.items() <= repair.settings.items()
    # Methods plan to spend PLANNED of their budget: five epochs of the twelve that retraining
    # takes.
    assert repair.budget * PLANNED * protocol.recipe.epochs == pytest.approx(5.0)
    assert entry(protocol, "msg", {}).budget == protocol.budget == 0.05
    longer = protocol.with_(recipe={"epochs": 24})
    assert entry(longer, name, {}).budget * PLANNED * 24 == pytest.approx(5.0)


def test_mufac_forgets_its_first_rows(tmp_path: Path) -> None:
    protocol = PROTOCOLS.get("mufac")
    dataset = load(folders.mufac(tmp_path))
    split = protocol.forget_split(dataset, 0)
    assert (len(split.train), len(split.validation), len(split.test)) == (120, 12, 36)
    assert split.forget == split.train[:12] == dataset.ids[:12]
    assert protocol.task(dataset).edges == tuple(map(float, range(9)))


def test_mucac_forgets_whole_people(tmp_path: Path) -> None:
    protocol = PROTOCOLS.get("mucac")
    dataset = load(folders.mucac(tmp_path))
    split = protocol.forget_split(dataset, 0)
    gone = subjects(dataset, split.forget)
    assert (
        len(split.forget) == 4 * len(gone)
        and gone.isdisjoint(subjects(dataset, split.retain))
        and split.subject_disjoint
    )
    assert len(split.forget) >= 0.1 * len(split.train)
    assert protocol.task(dataset).edges == tuple(map(float, range(9)))


def test_class_protocols_refuse_data_without_classes(dataset: Dataset) -> None:
    with pytest.raises(InputError, match="it has no classes"):
        PROTOCOLS.get("mucac").task(dataset)


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
