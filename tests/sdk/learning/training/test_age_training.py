"""`train_age` end to end: the record, the metrics, resuming, and refusals before any work."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.core import CheckpointError, DataError, OutputError
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.forgetting.tasks import age_training as run_module
from unplug.sdk.forgetting.tasks import train_age
from unplug.sdk.learning.data import Dataset, Split, make_split
from unplug.sdk.learning.training import (
    Recipe,
    predict,
    recipe_of,
    split_of,
    summarize,
    to_tensors,
    training_dir,
)

CPU = torch.device("cpu")


@pytest.fixture
def short(recipe: Recipe) -> Recipe:
    return replace(recipe, epochs=2)


def train(
    dataset: Dataset, recipe: Recipe, out: Path, split: Split | None = None, **options: Any
) -> Checkpoint:
    options = {"seed": 0, **options}
    return train_age(
        dataset, split or make_split(dataset), recipe, out, device=CPU, show=False, **options
    )


def test_a_checkpoint_tells_where_it_comes_from(
    make_dataset: Callable[..., Dataset], short: Recipe, tmp_path: Path
) -> None:
    dataset = make_dataset()
    split = make_split(dataset)
    done = train(dataset, short, tmp_path / "out", split, seed=7)
    record = load_checkpoint(tmp_path / "out").record
    assert (
        record == done.record
        and record["schema"] == "unplug-checkpoint/1"
        and record["role"] == "original"
    )
    assert record["data"] == {
        "spec": "hand:",
        "digest": dataset.digest,
        "samples": 30,
        "unusable": 0,
    }
    assert recipe_of(done) == short and split_of(done) == split and record["seed"] == 7
    assert (
        record["cost"]["forward"] == record["cost"]["backward"] == 2 * len(split.train)
        and record["cost"]["wall_s"] > 0
    )
    assert {part: row["n"] for part, row in record["metrics"].items()} == {
        "train": 21,
        "validation": 3,
        "test": 6,
    }
    assert record["versions"]["torch"] == version("torch")
    rows = [
        json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    ]
    assert [row["epoch"] for row in rows] == [1, 2] and rows == record["history"]
    assert not training_dir(tmp_path / "out").exists()
    card = (tmp_path / "out" / "README.md").read_text()
    assert (
        "# Face-age predictor, nano, 32 px (original)" in card
        and f"`{dataset.digest[:16]}`" in card
    )
    assert (
        f"| test | 6 | {100 * record['metrics']['test']['accuracy']:.1f} % |" in card
        and "Forgotten" not in card
    )


def test_recorded_metrics_are_those_of_the_saved_weights(
    make_dataset: Callable[..., Dataset], short: Recipe, tmp_path: Path
) -> None:
    dataset = make_dataset()
    done = train(dataset, short, tmp_path / "out")
    test_set = to_tensors(dataset, split_of(done).test, done.model.age_edges, CPU)
    again = summarize(predict(done.model, test_set), done.model.age_edges)
    assert again["mae"] == pytest.approx(done.record["metrics"]["test"]["mae"], rel=1e-5)
    assert again["n"] == 6


@pytest.mark.long
def test_same_seed_same_file_another_seed_another(
    make_dataset: Callable[..., Dataset], short: Recipe, tmp_path: Path
) -> None:
    hashes = [
        train(make_dataset(), short, tmp_path / str(number), seed=number // 2).sha256
        for number in range(3)
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_with_a_forget_set_the_retain_set_is_trained_on(
    make_dataset: Callable[..., Dataset], short: Recipe, tmp_path: Path
) -> None:
    dataset = make_dataset()
    split = make_split(dataset)
    gone = split.with_forget(split.train[:5])
    oracle = train(dataset, short, tmp_path / "oracle", gone, role="retrained")
    assert (
        oracle.record["role"] == "retrained"
        and oracle.record["metrics"]["train"]["n"] == len(split.train) - 5
    )
    altered = make_dataset()
    altered.images[dataset.rows[dataset.indices(gone.forget)]] = (
        0  # what was forgotten must not matter
    )
    altered = replace(altered, digest=dataset.digest)
    assert (
        train(altered, short, tmp_path / "altered", gone, role="retrained").sha256 == oracle.sha256
    )


@pytest.mark.long
def test_a_killed_training_continues_and_gives_the_same_checkpoint(
    make_dataset: Callable[..., Dataset],
    recipe: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    straight = train(make_dataset(), recipe, tmp_path / "straight")
    real = run_module.append_metrics

    def dies(path: Path, row: dict[str, Any]) -> None:
        if row["epoch"] == 2:
            raise KeyboardInterrupt
        real(path, row)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "append_metrics", dies)
        with pytest.raises(KeyboardInterrupt):
            train(make_dataset(), recipe, tmp_path / "out")
    assert training_dir(tmp_path / "out").is_dir() and not (tmp_path / "out").exists()
    with pytest.raises(CheckpointError, match="another recipe, data or seed"):
        train(make_dataset(), replace(recipe, lr=1e-3), tmp_path / "out")
    with pytest.raises(CheckpointError, match="another recipe, data or seed"):
        train(make_dataset(), recipe, tmp_path / "out", seed=1)
    resumed = train(make_dataset(), recipe, tmp_path / "out")
    assert resumed.sha256 == straight.sha256
    rows = [
        json.loads(line)["epoch"]
        for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    ]
    assert rows == [1, 2, 3, 4]


def test_restart_drops_an_unfinished_run(
    make_dataset: Callable[..., Dataset],
    short: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "append_metrics", dies)
        with pytest.raises(KeyboardInterrupt):
            train(make_dataset(), short, tmp_path / "out")
    other = replace(short, lr=1e-3)
    assert recipe_of(train(make_dataset(), other, tmp_path / "out", restart=True)) == other


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test that uses this may get as far as training."""
    monkeypatch.setattr(run_module, "fit_new", lambda *_, **__: pytest.fail("it trained"))


@pytest.mark.usefixtures("untouched")
def test_a_foreign_folder_is_refused_before_training(
    make_dataset: Callable[..., Dataset], short: Recipe, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for name in ("photos", "file", "file/below"):
        with pytest.raises(OutputError, match=r"file|photos"):
            train(make_dataset(), short, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "photos"]


@pytest.mark.usefixtures("untouched")
def test_data_that_cannot_be_trained_on_is_refused_by_name(
    make_dataset: Callable[..., Dataset], short: Recipe, tmp_path: Path
) -> None:
    ages: list[float | None] = [20.0] * 30
    ages[11] = None
    with pytest.raises(DataError, match="sample s11 has no age"):
        train(
            make_dataset(ages=ages),
            short,
            tmp_path / "out",
            Split(
                data_digest=make_dataset(ages=ages).digest,
                seed=0,
                subject_disjoint=False,
                train=tuple(f"s{row}" for row in range(20)),
                validation=("s20",),
                test=("s21",),
            ),
        )


@pytest.mark.usefixtures("untouched")
def test_other_data_and_another_size_are_refused(
    make_dataset: Callable[..., Dataset], short: Recipe, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="the split was made from other data"):
        train(make_dataset(), short, tmp_path / "out", make_split(make_dataset(seed=1)))
    with pytest.raises(DataError, match="images have 32 pixels where the recipe says 64"):
        train(make_dataset(), replace(short, image_size=64), tmp_path / "out")


def test_weights_from_elsewhere_have_no_recipe_and_no_split(
    make_dataset: Callable[..., Dataset], short: Recipe, tmp_path: Path
) -> None:
    done = train(make_dataset(), short, tmp_path / "out")
    (tmp_path / "out" / "unplug.json").unlink()
    bare = load_checkpoint(done.path)
    with pytest.raises(CheckpointError, match="names no recipe"):
        recipe_of(bare)
    with pytest.raises(CheckpointError, match="names no split"):
        split_of(bare)
