"""The registry's contract, and the forget step from a request to a checkpoint."""

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
from unplug.sdk.tasks import NEEDS, kind_of
from unplug.sdk.training import AgeFamily, train_age
from unplug.sdk.unlearning import (
    METHODS,
    Cost,
    RetrainCost,
    apply_method,
    build_method,
    check_oracle,
    forget,
    request_split,
    retrain_cost,
)

from ..conftest import CPU, RECIPE, World

FAMILY = AgeFamily(recipe=RECIPE, edges=tuple(map(float, AGE_EDGES)))
BUDGET = 0.6


def step(world: World, out: Path, method: str = "finetune", **options: Any) -> Checkpoint:
    options = {"budget": BUDGET, "seed": 0, **options}
    ids = options.pop("ids", world.forget_ids)
    original = options.pop("original", world.original)
    dataset = options.pop("dataset", world.dataset)
    return forget(original, dataset, ids, method, out, device=CPU, show=False, **options)


def run(world: World, method: str, seed: int = 0, budget: float | None = BUDGET) -> tuple[dict[str, torch.Tensor], Cost]:
    passes = RECIPE.epochs * len(world.sets.train)
    whole = RetrainCost(cost=Cost(forward=passes, backward=passes, wall_s=1e6), source="test")
    # So few samples that no weight matters as much more as the defaults of these ask for.
    options = {"alpha": "1.4"} if method.startswith("ssd") else {}
    model, cost = apply_method(
        build_method(method, options), world.original.model, world.sets, FAMILY, whole,
        None if method == "retrain" else budget, seed=seed,
    )  # fmt: skip
    assert model.iospec == world.original.model.iospec
    assert not model.training
    return model.state_dict(), cost


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


CLOSED_FORM = {"acu", "ssd", "ssd-label-free", "iau"}
"""Nothing to repeat until the budget is gone, so they may spend less of it."""


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"sisa"}))  # sisa needs an original of its own: test_sisa.py
def test_method_contract(world: World, name: str) -> None:
    method = build_method(name)
    assert set(method.needs) <= set(NEEDS)
    assert method.default_budget is None if name == "retrain" else 0 < method.default_budget <= 0.05
    before = copy.deepcopy(world.original.model.state_dict())
    first, cost = run(world, name)
    assert all(bool(torch.isfinite(value).all()) for value in first.values())
    limit = 1.0 if name == "retrain" else BUDGET
    whole = 3.0 * RECIPE.epochs * len(world.sets.train)
    least = 0.0 if name in CLOSED_FORM else 0.3 * limit
    assert least < cost.compute / whole <= limit  # within the budget, and the budget is used
    assert same(world.original.model.state_dict(), before), "the original was changed"
    assert not same(first, before)
    again, _ = run(world, name)
    assert same(first, again), "the same seed gave other weights"
    if name not in CLOSED_FORM:  # whose only chance is which part of the retain set a small budget covers
        other, _ = run(world, name, seed=1)
        assert not same(first, other), "the seed does nothing"


@pytest.mark.long
@pytest.mark.parametrize("name", ["finetune", "msg"])
def test_saved_record_is_complete(world: World, tmp_path: Path, name: str) -> None:
    done = step(world, tmp_path / "out", name, options={"lr": "0.001"})
    record = json.loads((tmp_path / "out" / "unplug.json").read_text())
    assert record == done.record
    assert (record["schema"], record["role"], record["seed"]) == ("unplug-checkpoint/1", "unlearned", 0)
    facts = record["forget"]
    assert (facts["method"], facts["samples"], facts["settings"]["lr"]) == (name, len(world.forget_ids), 0.001)
    assert facts["cost"]["compute_fraction"] <= facts["cost"]["budget"] == BUDGET
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


def test_retrain_does_not_fit_into_a_twentieth(world: World, tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded, match=r"over 0\.05 of retraining"):
        step(world, tmp_path / "out", "retrain", budget=0.05)
    assert list(tmp_path.iterdir()) == []


def test_a_method_over_its_budget_leaves_nothing(world: World, tmp_path: Path) -> None:
    class Spender:
        needs = ("retain data",)
        default_budget = 0.05

        def __call__(self, model: Any, problem: Any) -> Any:
            problem.meter.charge(forward=10**6, backward=0)
            raise AssertionError("it was let past its budget")

    with pytest.raises(BudgetExceeded, match="compute cost"):
        apply_method(
            Spender(), world.original.model, world.sets, FAMILY,
            RetrainCost(cost=Cost(forward=100, backward=100, wall_s=1e6), source="test"), 0.05, seed=0,
        )  # fmt: skip
    with pytest.raises(BudgetExceeded, match="does not cover one step"):
        step(world, tmp_path / "out", budget=0.01)
    assert list(tmp_path.iterdir()) == []


def test_wall_time_over_the_budget_leaves_nothing(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unplug.sdk.unlearning.budget.WALL_GRACE_S", -1e9)
    with pytest.raises(BudgetExceeded, match="wall cost"):
        step(world, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 3])
def test_small_forget_sets(world: World, tmp_path: Path, count: int) -> None:
    """One sample, and all three pictures of one subject."""
    person = world.dataset.samples[int(world.dataset.indices(world.split.train[:1])[0])].subject
    ids = [sample.id for sample in world.dataset.samples if sample.subject == person][:count]
    done = step(world, tmp_path / "out", "msg", ids=ids)
    assert done.record["forget"]["samples"] == count
    assert done.record["metrics"]["retain"]["n"] == len(world.split.train) - count


def test_forget_sets_that_cannot_be_forgotten(world: World, tmp_path: Path) -> None:
    cases = {
        "it is empty": (),
        "were not trained on": (world.split.test[0],),
        "the whole train set": world.split.train,
    }
    for message, ids in cases.items():
        with pytest.raises(DataError, match=message):
            step(world, tmp_path / "out", ids=ids)
    assert list(tmp_path.iterdir()) == []


def test_other_data_is_refused(world: World, tmp_path: Path) -> None:
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


def test_an_output_place_that_is_taken_is_refused_before_the_work(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
