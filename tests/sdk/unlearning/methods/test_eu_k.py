"""EU-k: the last layers start from nothing, the others stay."""

from __future__ import annotations

import torch
from torch import nn

from unplug.sdk.unlearning.distil import random_network
from unplug.sdk.unlearning.methods.cf_k import last
from unplug.sdk.unlearning.methods.eu_k import EUk, draw_anew

from .conftest import Case, changed, losses


def names_of(model: nn.Module, k: int) -> set[str]:
    """Weights and buffers of the last k layers."""
    kept = last(model, k)
    named = [(name, module) for name, module in model.named_modules() if any(module is item for item in kept)]
    return {f"{name}.{key}" for name, module in named for key in module.state_dict()}


def test_the_last_layers_are_those_of_an_untrained_network(case: Case) -> None:
    model, problem = case.model(), case.problem()
    names = names_of(model, 3)
    draw_anew(last(model, 3), model, problem)
    fresh = random_network(problem).state_dict()
    assert all(torch.equal(model.state_dict()[name], fresh[name]) for name in names)
    moved = changed(case.original, model)
    assert moved <= names
    assert {name for name in names if name.endswith("weight")} <= moved


def test_the_rest_stays_bit_for_bit(case: Case) -> None:
    """Running statistics included: those of the last layers were counted anew, all others are the original's."""
    names = names_of(case.original, 2)
    assert any("running_var" in name for name in names)
    model = EUk(k=2)(case.model(), case.problem())
    assert changed(case.original, model) == names


def test_training_brings_the_retain_loss_back(class_case: Case) -> None:
    cut = class_case.model()
    draw_anew(last(cut, 3), cut, class_case.problem())
    before = losses(cut, class_case.sets.train).mean()
    model = EUk()(class_case.model(), class_case.problem(budget=1.0))
    assert losses(model, class_case.sets.train).mean() < 0.8 * before


def test_the_call_draws_anew(class_case: Case) -> None:
    """With steps too small to see, what is left is the untrained end."""
    problem = class_case.problem(recipe={"weight_decay": 0.0})
    model = EUk(lr=1e-9)(class_case.model(), problem)
    fresh = random_network(problem).state_dict()
    for name in names_of(class_case.original, 3) & {name for name, _ in model.named_parameters()}:
        assert torch.allclose(model.state_dict()[name], fresh[name], atol=1e-6), name
