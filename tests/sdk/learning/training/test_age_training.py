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
from unplug.sdk.forgetting.tasks import picture_training as run_module
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
Make = Callable[..., Dataset]


@pytest.fixture
def short(recipe: Recipe) -> Recipe:
    return replace(recipe, epochs=2)


def train(
    dataset: Dataset, recipe: Recipe, out: Path, split: Split | None = None, **options: Any
) -> Checkpoint:
    split = split or make_split(dataset)
    return train_age(dataset, split, recipe, out, device=CPU, show=False, **{"seed": 0, **options})


def epochs_in(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_a_checkpoint_tells_where_it_comes_from(
    make_dataset: Make, short: Recipe, tmp_path: Path
) -> None:
    dataset, out = make_dataset(), tmp_path / "out"
    split = make_split(dataset)
    done = train(dataset, short, out, split, seed=7)
    bare = load_checkpoint(out)
    record, metrics = bare.record, bare.record["metrics"]
    assert record == done.record
    assert (record["schema"], record["role"]) == ("unplug-checkpoint/1", "original")
    facts = {"spec": "hand:", "digest": dataset.digest, "samples": 30, "unusable": 0}
    assert record["data"] == facts
    assert recipe_of(done) == short and split_of(done) == split and record["seed"] == 7
    cost = record["cost"]
    assert cost["forward"] == cost["backward"] == 2 * len(split.train) and cost["wall_s"] > 0
    sizes = {part: row["n"] for part, row in metrics.items()}
    assert sizes == {"train": 21, "validation": 3, "test": 6}
    assert record["versions"]["torch"] == version("torch")
    rows = epochs_in(out)
    assert [row["epoch"] for row in rows] == [1, 2] and rows == record["history"]
    assert not training_dir(out).exists()
    card = (out / "README.md").read_text()
    assert "# Face-age predictor, nano, 32 px (original)" in card and "Forgotten" not in card
    assert f"`{dataset.digest[:16]}`" in card
    assert f"| test | 6 | {100 * metrics['test']['accuracy']:.1f} % |" in card
    # its numbers are those of the saved weights
    test_set = to_tensors(dataset, split.test, bare.model.age_edges, CPU)
    again = summarize(predict(bare.model, test_set), bare.model.age_edges)
    assert again["mae"] == pytest.approx(metrics["test"]["mae"], rel=1e-5)
    # without its record it has neither recipe nor split
    (out / "unplug.json").unlink()
    for told, what in ((recipe_of, "recipe"), (split_of, "split")):
        with pytest.raises(CheckpointError, match=f"names no {what}"):
            told(load_checkpoint(out))


def test_with_a_forget_set_the_retain_set_is_trained_on(
    make_dataset: Make, short: Recipe, tmp_path: Path
) -> None:
    dataset, altered = make_dataset(), make_dataset()
    split = make_split(dataset)
    gone = split.with_forget(split.train[:5])
    # what was forgotten must not matter
    altered.images[dataset.rows[dataset.indices(gone.forget)]] = 0
    altered = replace(altered, digest=dataset.digest)
    oracle, other = (
        train(data, short, tmp_path / name, gone, role="retrained")
        for name, data in (("oracle", dataset), ("altered", altered))
    )
    assert oracle.record["role"] == "retrained"
    assert oracle.record["metrics"]["train"]["n"] == len(split.train) - 5
    assert other.sha256 == oracle.sha256


@pytest.mark.long
def test_a_killed_training_continues_and_gives_the_same_checkpoint(
    make_dataset: Make, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    straight, other = (
        train(make_dataset(), recipe, tmp_path / str(seed), seed=seed) for seed in (0, 1)
    )
    assert straight.sha256 != other.sha256
    append_metrics = run_module.append_metrics

    def dies(path: Path, row: dict[str, Any]) -> None:
        if row["epoch"] == 2:
            raise KeyboardInterrupt
        append_metrics(path, row)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "append_metrics", dies)
        with pytest.raises(KeyboardInterrupt):
            train(make_dataset(), recipe, out)
    assert training_dir(out).is_dir() and not out.exists()
    changed = replace(recipe, lr=1e-3)
    for asked, seed in ((changed, 0), (recipe, 1)):
        with pytest.raises(CheckpointError, match="another recipe, data or seed"):
            train(make_dataset(), asked, out, seed=seed)
    assert train(make_dataset(), recipe, out).sha256 == straight.sha256
    assert [row["epoch"] for row in epochs_in(out)] == [1, 2, 3, 4]


def test_restart_drops_an_unfinished_run(
    make_dataset: Make, short: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "append_metrics", dies)
        with pytest.raises(KeyboardInterrupt):
            train(make_dataset(), short, tmp_path / "out")
    other = replace(short, lr=1e-3)
    assert recipe_of(train(make_dataset(), other, tmp_path / "out", restart=True)) == other


def test_what_cannot_be_done_is_refused_before_training(
    make_dataset: Make, short: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "fit_new", lambda *_, **__: pytest.fail("it trained"))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("precious")
    (tmp_path / "file").write_text("precious")
    ageless = make_dataset(ages=[20.0] * 11 + [None] + [20.0] * 18)
    names = [f"s{row}" for row in range(22)]
    with_it = replace(
        make_split(ageless), train=tuple(names[:20]), validation=("s20",), test=("s21",)
    )
    data, out, large = make_dataset(), tmp_path / "out", replace(short, image_size=64)
    for args, error, why in (
        ((data, short, tmp_path / "photos"), OutputError, "photos"),
        ((data, short, tmp_path / "file"), OutputError, "file"),
        ((data, short, tmp_path / "file" / "below"), OutputError, "file"),
        ((ageless, short, out, with_it), DataError, "sample s11 has no age"),
        ((data, short, out, make_split(make_dataset(seed=1))), DataError, "made from other data"),
        ((data, large, out), DataError, "images have 32 pixels where the recipe says 64"),
    ):
        with pytest.raises(error, match=why):
            train(*args)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "photos"]
