"""References that left people out: who saw whom, what is kept, and whatever else may lie in their
folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load, load_file, save_file

from unplug.core import DataError, InputError, OutputError, TrainingError, sha256_file
from unplug.sdk.evidence.fleet import ReferenceRecord, References, load_references, train_references
from unplug.sdk.evidence.fleet import references as module
from unplug.sdk.evidence.fleet.references import left_out
from unplug.sdk.forgetting.tasks import AgeTask, task_of
from unplug.sdk.learning.data import load_dataset
from unplug.sdk.learning.training import predict

from ...conftest import CPU, World
from ..small_fleet import FOLDS, HERE, MODELS, small_references


@pytest.fixture(scope="module")
def folder(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_references(world, tmp_path_factory)


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "references"))


def read(world: World, folder: Path, **changes: Any) -> References:
    given: dict[str, Any] = {"original": world.original, "dataset": world.dataset} | changes
    return load_references(
        folder, given["original"], task_of(given["original"], device=CPU), given["dataset"]
    )


def train(world: World, out: Path, **changes: Any) -> ReferenceRecord:
    options = {"models": MODELS, "folds": FOLDS, "dataset": world.dataset, **HERE, **changes}
    return train_references(options.pop("original", world.original), out=out, **options)


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    record = json.loads((folder / "references.json").read_text())
    change(record)
    (folder / "references.json").write_text(json.dumps(record))


def named(folder: Path) -> None:
    """Puts the hashes of the models' files into the record, as somebody who edits both would."""
    hashes = [sha256_file(path) for path in sorted(folder.glob("model-*.safetensors"))]
    edit(folder, lambda record: record.update(files=hashes))


@given(
    st.lists(st.integers(0, 12), min_size=8, max_size=60),
    st.integers(2, 5),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_every_round_leaves_everybody_out_once_and_whole(
    subjects: list[int], folds: int, turn: int, seed: int
) -> None:
    subject_T = np.array(subjects)
    outside = np.stack(
        [left_out(subject_T, turn * folds + number, folds, seed) for number in range(folds)]
    )
    assert (outside.sum(axis=0) == 1).all()
    for person in set(subjects):
        assert (outside[:, subject_T == person] == outside[:, subject_T == person][:, :1]).all()
    sizes = [len(np.unique(subject_T[row])) for row in outside]
    assert max(sizes) - min(sizes) <= 1


def test_rounds_deal_anew() -> None:
    who = np.arange(40)
    assert not np.array_equal(left_out(who, 0, 2, 0), left_out(who, 2, 2, 0))
    assert not np.array_equal(left_out(who, 0, 2, 0), left_out(who, 0, 2, 1))


def test_what_is_kept_is_what_a_model_without_them_says(world: World, folder: Path) -> None:
    result = read(world, folder)
    assert result.seen_MN.shape == (MODELS, len(world.dataset))
    train = world.sets.train
    row_T = result.rows(train.ids)
    person = train.subject_N[0]
    mine = row_T[train.subject_N == person]
    never_R = result.never_saw(mine)
    assert len(never_R) == MODELS // FOLDS
    assert not result.seen_MN[:, result.rows(world.sets.test.ids)].any()

    number = int(never_R[0])
    context = module.reference_context(str(world.original.path), world.spec, "error", None, "cpu")
    sets = context.sets
    seen_T = ~left_out(sets.train.subject_N, number, FOLDS, 0)
    ours = sets.train.subset(np.flatnonzero(seen_T).tolist())
    hers = {name for name, who in zip(train.ids, train.subject_N, strict=True) if who == person}
    assert not hers & set(ours.ids)
    seed = module.FIRST_SEED + number
    alone = context.task.fit(ours, sets.validation, seed=seed, state=None, show=False, label="")
    answers, kept = predict(alone.model, train), result.said(np.full(len(row_T), number), row_T)
    np.testing.assert_allclose(kept.confidence_N, answers.confidence_N, atol=1e-5)
    np.testing.assert_allclose(kept.error_N, answers.error_N, atol=1e-4)


def test_no_id_and_no_model_is_kept(world: World, folder: Path) -> None:
    text = (folder / "references.json").read_text()
    assert not any(f'"{name}"' in text for name in world.dataset.ids)
    largest = max(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert largest < (world.original.path / "model.safetensors").stat().st_size
    for name in load_file(next(folder.glob("*.safetensors"))):
        assert name == "seen_T" or name.partition("/")[0] in module.PARTS


def test_a_killed_run_goes_on_and_more_may_be_added(
    world: World, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in copied.glob("model-*")}
    (copied / "references.json").unlink()
    (copied / "model-0003.safetensors").unlink()
    trained: list[int] = []
    job = module.reference_job
    monkeypatch.setattr(
        module,
        "reference_job",
        lambda *a, **named: trained.append(named["number"]) or job(*a, **named),
    )
    train(world, copied)
    assert trained == [3]
    mine = load_file(copied / "model-0003.safetensors")
    theirs = load(before.pop("model-0003.safetensors"))
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    assert all((copied / name).read_bytes() == raw for name, raw in before.items())
    train(world, copied, models=MODELS + FOLDS)
    with pytest.raises(InputError, match="holds 12, and all of them count"):
        train(world, copied)
    assert trained == [3, MODELS, MODELS + 1]
    assert read(world, copied).seen_MN.shape[0] == MODELS + FOLDS


@pytest.mark.parametrize(
    ("models", "folds", "error", "why"),
    [
        (7, 2, InputError, "more often"),
        (4, 1, InputError, "more often"),
        (2, 4, InputError, "more often"),
        (6, 2, InputError, "3 never see"),
        (8192, 2, InputError, "never see"),
        (2000, 500, DataError, "make no 500 folds"),
    ],
)
def test_people_left_out_unevenly_or_too_seldom(
    world: World, tmp_path: Path, models: int, folds: int, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        train(world, tmp_path / "r", models=models, folds=folds)


def test_a_folder_of_something_else(world: World, copied: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    for change in ({"models": 20, "folds": 4}, {"seed": 7}):
        with pytest.raises(OutputError, match="another recipe, split, folds, seed"):
            train(world, copied, **change)
        # of a run that was killed nothing is lost either
        (copied / "references.json").unlink(missing_ok=True)
    del before["references.json"]
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before
    (tmp_path / "mine").mkdir()
    for file, why in (("file", "not a folder"), ("mine/thesis.txt", "no references")):
        (tmp_path / file).write_text("years of work")
        with pytest.raises(OutputError, match=why):
            train(world, tmp_path / file.partition("/")[0])
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_other_data_and_another_recipe(world: World, copied: Path) -> None:
    other = load_dataset(world.spec.replace("seed=0", "seed=1"), 32, show=False)
    with pytest.raises(InputError, match="other data"):
        read(world, copied, dataset=other)
    with pytest.raises(DataError, match="digest differs"):
        train(world, copied, dataset=other)
    edit(copied, lambda record: record["recipe"].update(epochs=99))
    with pytest.raises(InputError, match="another recipe"):
        read(world, copied)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.update(models=12), "do not fit together"),
        (lambda record: record.update(files=record["files"][::-1]), "SHA-256 differs"),
        (lambda record: record.update(rows=record["rows"][::-1]), "another split"),
        (lambda record: record.update(models=7), "do not fit together"),
        (lambda record: record.update(trained=10**9), "do not fit together"),
        (
            lambda record: record.update(rows=record["rows"][:-1] + record["rows"][:1]),
            "do not fit together",
        ),
        (lambda record: record.update(rows=record["rows"][:-1]), "another split"),
        (lambda record: record.update(key="0" * 16), "under the key"),
        (lambda record: record.update(folds="2"), "schema"),
    ],
)
def test_an_edited_record(world: World, copied: Path, change: Any, message: str) -> None:
    edit(copied, change)
    with pytest.raises(InputError, match=message):
        read(world, copied)


def test_an_edited_model(world: World, copied: Path) -> None:
    path = copied / "model-0001.safetensors"

    def refused(why: str) -> None:
        with pytest.raises(InputError, match=why):
            read(world, copied)

    path.write_bytes(path.read_bytes()[:1000])
    refused("SHA-256 differs")
    named(copied)
    refused("not a whole result")
    save_file({"seen_T": np.ones(3, bool)}, path)
    named(copied)
    refused("not the result of a fleet's job")
    path.unlink()
    refused("model-0001")
    (copied / "references.json").unlink()
    refused("a killed one goes on")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("train/age_N", lambda array: array * np.nan),
        ("test/logits_NG", lambda array: array[:, :1]),
        ("train/true_group_N", lambda array: array + 1000),
        ("train/true_group_N", lambda array: array - 1000),
        ("test/logits_NG", lambda array: array[:-1]),
        ("seen_T", lambda array: array[:-1]),
        ("seen_T", lambda array: array.astype(np.float32)),
        ("test/age_N", lambda array: array.astype(np.float64)),
        ("validation/age_N", lambda array: np.zeros(())),
    ],
)
def test_answers_that_are_none(world: World, copied: Path, name: str, change: Any) -> None:
    path = copied / "model-0002.safetensors"
    with safe_open(path, framework="np") as handle:
        about = handle.metadata()
    tensors = load_file(path)
    tensors[name] = np.ascontiguousarray(change(tensors[name]))
    save_file(tensors, path, about)
    named(copied)
    with pytest.raises(InputError, match=r"model-0002.*answers"):
        read(world, copied)


def test_a_model_made_to_forget_needs_none(world: World, folder: Path, tmp_path: Path) -> None:
    record = {**world.original.record, "design": {"name": "closed-form"}}
    exact = replace(world.original, record=record)
    for call in (
        lambda: train(world, tmp_path / "r", original=exact),
        lambda: read(world, folder, original=exact),
    ):
        with pytest.raises(InputError, match="made to forget"):
            call()


def test_people_whom_nobody_left_out(world: World, folder: Path) -> None:
    result = read(world, folder)
    everybody = result.rows(world.sets.train.ids)
    with pytest.raises(InputError, match="every model saw"):
        result.never_saw(everybody)
    with pytest.raises(InputError, match="1 of 1 samples were not there"):
        result.rows(["nobody"])


def test_a_model_that_answers_with_no_numbers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = module.predict

    def broken(model: Any, data: Any) -> Any:
        answers = true(model, data)
        return replace(answers, age_N=np.full_like(answers.age_N, np.nan))

    monkeypatch.setattr(module, "predict", broken)
    monkeypatch.setattr(
        AgeTask, "fit", lambda *_, **__: SimpleNamespace(model=world.original.model)
    )
    context = module.reference_context(str(world.original.path), world.spec, "error", None, "cpu")
    with pytest.raises(TrainingError, match="not numbers"):
        module.reference_job(context, 0, FOLDS, 0)
