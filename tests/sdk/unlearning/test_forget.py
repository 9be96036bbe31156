"""The forget step from a request to a checkpoint; what each method promises is in methods/test_contract.py."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.core import BudgetExceeded, CheckpointError, DataError, InputError, OutputError
from unplug.plugins import AGE_EDGES, Checkpoint
from unplug.sdk.data import load_dataset
from unplug.sdk.tasks import kind_of
from unplug.sdk.training import AgeFamily, train_age
from unplug.sdk.unlearning import build_method, check_oracle, forget, request_split, retrain_cost

from ..conftest import CPU, RECIPE, World

FAMILY = AgeFamily(recipe=RECIPE, edges=tuple(map(float, AGE_EDGES)))


def step(world: World, out: Path, method: str = "finetune", **options: Any) -> Checkpoint:
    options = {"budget": 0.6, "seed": 0, **options}
    ids = options.pop("ids", world.forget_ids)
    original = options.pop("original", world.original)
    dataset = options.pop("dataset", world.dataset)
    return forget(original, dataset, ids, method, out, device=CPU, show=False, **options)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.long
@pytest.mark.parametrize("name", ["finetune", "msg"])
def test_saved_record_is_complete(world: World, tmp_path: Path, name: str) -> None:
    done = step(world, tmp_path / "out", name, options={"lr": "0.001"})
    record = json.loads((tmp_path / "out" / "unplug.json").read_text())
    assert record == done.record
    assert (record["schema"], record["role"], record["seed"]) == ("unplug-checkpoint/1", "unlearned", 0)
    facts = record["forget"]
    assert (facts["method"], facts["samples"], facts["settings"]["lr"]) == (name, len(world.forget_ids), 0.001)
    assert facts["cost"]["compute_fraction"] <= facts["cost"]["budget"] == 0.6
    assert facts["cost"]["wall_s"] > 0 and "timed just before" in facts["cost"]["retrain"]["source"]
    assert record["lineage"] == {"original": str(world.original.path), "original_sha256": world.original.sha256}
    assert record["split"]["forget"] == [name for name in world.split.train if name in set(world.forget_ids)]
    assert set(record["metrics"]) == {"retain", "forget", "test"}
    assert record["metrics"]["forget"]["n"] == len(world.forget_ids)
    assert record["data"]["digest"] == world.dataset.digest
    assert done.model.iospec == world.original.model.iospec
    assert f"Forgotten: {len(world.forget_ids)} samples by `{name}`" in (tmp_path / "out" / "README.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.long
def test_retrain_is_training_from_scratch_on_the_retain_set(world: World, tmp_path: Path) -> None:
    """The oracle's slow oracle: `train_age` on a split without the forget set, same seed, bit for bit."""
    split = world.split.with_forget(world.forget_ids)
    scratch = train_age(world.dataset, split, RECIPE, tmp_path / "scratch", seed=5, device=CPU, show=False)
    assert same(scratch.model.state_dict(), world.oracle.model.state_dict())
    assert world.oracle.record["role"] == "retrained"
    assert world.oracle.record["forget"]["cost"]["compute_fraction"] == pytest.approx(1.0)


@pytest.mark.parametrize(("grace", "budget", "message"), [(5.0, 0.01, "does not cover one step"), (-1e9, 0.6, "wall cost")])
def test_a_budget_that_ends_leaves_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grace: float, budget: float, message: str
) -> None:
    monkeypatch.setattr("unplug.sdk.unlearning.budget.WALL_GRACE_S", grace)
    with pytest.raises(BudgetExceeded, match=message):
        step(world, tmp_path / "out", budget=budget)
    assert list(tmp_path.iterdir()) == []


def test_requests_that_cannot_be_forgotten_are_refused(world: World, tmp_path: Path) -> None:
    cases = {"it is empty": (), "were not trained on": (world.split.test[0],), "the whole train set": world.split.train}
    for message, ids in cases.items():
        with pytest.raises(DataError, match=message):
            step(world, tmp_path / "out", ids=ids)
    assert list(tmp_path.iterdir()) == []
    other = load_dataset("synth:n=12,subjects=6,seed=9", 32, show=False)
    with pytest.raises(DataError, match="digest differs"):
        step(world, tmp_path / "out", dataset=other)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("finetune", {"learning_rate": "1"}, "no setting 'learning_rate'. Known: lr, batch_size"),
        ("retrain", {"lr": "1"}, "Known: none"),
        ("finetune", {"lr": "fast"}, "not a value of type float"),
        ("finetune", {"batch_size": "1.5"}, "not a value of type int"),
    ],
)
def test_wrong_settings(method: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_method(method, options)


def test_unknown_method_suggests_near_ones() -> None:
    with pytest.raises(InputError, match="Did you mean finetune"):
        build_method("fintune")


def test_a_taken_place_is_refused_before_the_work(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unplug.sdk.unlearning.run.apply_method", lambda *_a, **_k: pytest.fail("the work was done first"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="Choose another --out"):
        step(world, tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"


# The oracle


@pytest.mark.long
def test_retrain_cost_is_timed_here_and_the_oracles_own_time_is_shown(world: World) -> None:
    split = request_split(world.original, world.dataset, world.forget_ids)
    passes = RECIPE.epochs * len(split.retain)
    before = copy.deepcopy(world.original.model.state_dict())
    model, kind = world.original.model, kind_of(world.original, device=CPU)
    cost = retrain_cost(model, split, kind, world.sets)
    assert (cost.cost.forward, cost.cost.backward, cost.recorded_wall_s) == (passes, passes, None)
    # The clock of a busy machine is not exact, but an estimate ten times off would make the budget meaningless.
    assert 0.1 < cost.cost.wall_s / world.oracle.record["cost"]["wall_s"] < 10.0
    assert same(world.original.model.state_dict(), before), "timing changed the model"
    assert not world.original.model.training
    shown = retrain_cost(model, split, kind, world.sets, world.oracle)
    assert shown.recorded_wall_s == world.oracle.record["cost"]["wall_s"]


def test_an_oracle_of_another_recipe_or_request_is_refused(world: World, tmp_path: Path) -> None:
    split = request_split(world.original, world.dataset, world.forget_ids)
    check_oracle(world.oracle, split, RECIPE)
    with pytest.raises(CheckpointError, match="another recipe"):
        check_oracle(world.oracle, split, replace(RECIPE, epochs=4))
    fewer = request_split(world.original, world.dataset, world.forget_ids[:-1])
    with pytest.raises(CheckpointError, match="retain set"):
        check_oracle(world.oracle, fewer, RECIPE)
    with pytest.raises(CheckpointError, match="retain set"):  # an unlearned model is no oracle, whatever its split says
        step(world, tmp_path / "out", oracle=world.unlearned)
