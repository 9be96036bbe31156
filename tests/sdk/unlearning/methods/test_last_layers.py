"""CF-k and EU-k: exactly the last layers change; all layers are fine-tuning, and new ones start from nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unplug.core import InputError
from unplug.sdk.unlearning.anatomy import layers
from unplug.sdk.unlearning.distil import random_network
from unplug.sdk.unlearning.methods.cf_k import CFk, last
from unplug.sdk.unlearning.methods.eu_k import EUk, draw_anew

from .conftest import Case, changed

LAST_THREE = ("blocks.7.conv1", "blocks.7.norm1", "blocks.7.conv2", "blocks.7.norm2", "classifier")


def test_the_last_three_layers_change_and_nothing_else(class_case: Case) -> None:
    """Running statistics count: those of the trained norms move, all others stay."""
    model = CFk()(class_case.model(), class_case.problem())
    moved = changed(class_case.original, model)
    expected = {name for name in model.state_dict() if name.startswith(LAST_THREE)}
    assert moved == expected
    assert "blocks.7.norm1.running_var" in moved


def test_one_layer_is_the_classifier(case: Case) -> None:
    model = CFk(k=1)(case.model(), case.problem())
    assert changed(case.original, model) == {"classifier.weight", "classifier.bias"}


def test_more_layers_than_there_are_is_refused(case: Case) -> None:
    with pytest.raises(InputError, match="layers"):
        CFk(k=len(layers(case.original)) + 1)(case.model(), case.problem())


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


def test_the_call_draws_anew(class_case: Case) -> None:
    """With steps too small to see, what is left is the untrained end."""
    problem = class_case.problem(recipe={"weight_decay": 0.0})
    model = EUk(lr=1e-9)(class_case.model(), problem)
    fresh = random_network(problem).state_dict()
    for name in names_of(class_case.original, 3) & {name for name, _ in model.named_parameters()}:
        assert torch.allclose(model.state_dict()[name], fresh[name], atol=1e-6), name
