"""Every registered method on a plugin: it works, or it is refused before anything is computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from unplug.core import InputError
from unplug.plugins import load_checkpoint, save_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.drawing.diffusion import base_digest
from unplug.sdk.forgetting.tasks.plugin import PluginTask
from unplug.sdk.forgetting.unlearning import (
    METHODS,
    Cost,
    RetrainCost,
    apply_method,
    build_method,
)

from .conftest import PluginWorld

LACKED = {"ages", "class logits", "training-time hooks"}
WORKING = sorted(name for name in METHODS if not LACKED & set(METHODS.get(name).needs))
REFUSED = sorted(set(METHODS) - set(WORKING))
BUDGET = 0.9
NO_BATCH = {"retrain", "ssd", "iau"}
EXACT = {"iau", "ssd"}
"""One pass over a set: they may spend less than the budget, and their seed decides nothing once a
set is read whole.
"""


Applied = tuple[nn.Module, Cost, RetrainCost]


def apply(
    world: PluginWorld, name: str, *, budget: float | None = BUDGET, seed: int = 0
) -> Applied:
    """The method as `unplug forget` runs it, with a wall time that stops nobody."""
    passes = world.task.recipe.passes(len(world.sets.train))
    whole = RetrainCost(cost=Cost(forward=passes, backward=passes, wall_s=1e6), source="test")
    options = {} if name in NO_BATCH else {"batch_size": "4"}
    if name == "ssd":  # so few samples that no weight matters as much more as its default asks for
        options = {"alpha": "1.2"}
    model, cost = apply_method(
        build_method(name, options),
        world.task.network(world.original.model),
        world.sets,
        world.task,
        whole,
        None if name == "retrain" else budget,
        seed=seed,
    )
    return model, cost, whole


def same(one: nn.Module, other: nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


def test_which_methods_work_is_what_list_and_the_docs_say() -> None:
    documented = (
        "cf-k ct eu-k finetune iau l1-sparse msg neggrad neggrad+ noise retrain short-retrain ssd"
    )
    assert documented.split() == WORKING
    done = CliRunner().invoke(main, ["list", "methods", "--without", "class logits", "--json"])
    assert done.exit_code == 0, done.stderr
    assert sorted(row["name"] for row in json.loads(done.stdout)) == WORKING


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.parametrize("name", WORKING)
def test_contract(plugin_world: PluginWorld, tmp_path: Path, name: str) -> None:
    world, base = plugin_world, base_digest(plugin_world.pipe)
    before = {key: value.clone() for key, value in world.original.model.state_dict().items()}
    model, cost, whole = apply(world, name)
    assert not model.training and all(parameter.requires_grad for parameter in model.parameters())
    assert base_digest(world.pipe) == base, "the frozen base was changed"
    untouched = world.original.model.state_dict()
    assert all(torch.equal(value, before[key]) for key, value in untouched.items())
    stored = world.task.stored(model)
    assert any(not torch.equal(value, before[key]) for key, value in stored.state_dict().items())
    spent = cost.compute / whole.cost.compute
    assert (spent == 1.0) if name == "retrain" else (0 < spent <= BUDGET)
    if name not in EXACT | {"retrain"}:
        assert spent > 0.3 * BUDGET, "the budget is not used"
    assert same(model, apply(world, name)[0]), "the same seed gave other weights"
    if name not in EXACT:
        assert not same(model, apply(world, name, seed=1)[0]), "the seed does nothing"
    save_checkpoint(stored, tmp_path / "out", record={}, card="card")
    assert same(stored, load_checkpoint(tmp_path / "out", expect="plugin").model)


@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_computed(
    plugin_world: PluginWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("data was read")

    monkeypatch.setattr(PluginTask, "sets", never)
    monkeypatch.setattr(PluginTask, "footprint", never)
    with pytest.raises(
        InputError,
        match=r"it needs (.*--without 'ages' --without 'class logits'|training-time hooks)",
    ):
        plugin_world.without(name, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
