"""CF-k, EU-k and L1-sparse, which train on what is kept: the layers that change, and two steps by hand."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unplug.core import InputError
from unplug.sdk.unlearning.anatomy import layers
from unplug.sdk.unlearning.distil import random_network
from unplug.sdk.unlearning.methods.cf_k import CFk, last
from unplug.sdk.unlearning.methods.eu_k import EUk, draw_anew
from unplug.sdk.unlearning.methods.l1_sparse import L1Sparse, absolute_sum

from .conftest import PLAIN, Case, assert_weights, changed, whole_batch

LAST_THREE = ("blocks.7.conv1", "blocks.7.norm1", "blocks.7.conv2", "blocks.7.norm2", "classifier")


def test_the_last_three_layers_change_and_nothing_else(class_case: Case) -> None:
    """Running statistics count: those of the trained norms move, all others stay."""
    model = CFk()(class_case.model(), class_case.problem())
    moved = changed(class_case.original, model)
    expected = {name for name in model.state_dict() if name.startswith(LAST_THREE)}
    assert moved == expected
    assert "blocks.7.norm1.running_var" in moved


def test_one_layer_is_the_classifier_and_more_than_all_are_refused(case: Case) -> None:
    model = CFk(k=1)(case.model(), case.problem())
    assert changed(case.original, model) == {"classifier.weight", "classifier.bias"}
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


GAMMA, LR = 0.02, 0.05


def test_two_steps_are_the_formula(class_case: Case) -> None:
    retain = class_case.sets.train.subset(range(24))
    batch = whole_batch(retain)
    slow = copy.deepcopy(class_case.original).train()
    velocity = [torch.zeros_like(value) for value in slow.parameters()]
    for weight, lr in ((GAMMA, LR), (GAMMA / 2, LR / 2)):  # linear, and a cosine of two steps
        loss = F.cross_entropy(slow(batch.image_BCHW)["logits"], batch.group_B)
        gradients = torch.autograd.grad(loss, list(slow.parameters()))
        with torch.no_grad():
            for value, gradient, speed in zip(slow.parameters(), gradients, velocity, strict=True):
                speed.mul_(0.9).add_(gradient + weight * value.sign())
                value -= lr * speed
    given = class_case.problem(recipe=PLAIN, retain=retain, compute=2 * len(retain))
    model = L1Sparse(gamma=GAMMA, lr=LR, optimizer="sgd")(class_case.model(), given)
    assert_weights(model, dict(slow.named_parameters()), class_case.original)
    layer = torch.nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-1.5, 2.0]]))
        layer.bias.fill_(-0.25)
    assert float(absolute_sum(layer).detach()) == 3.75


@pytest.mark.long
def test_it_makes_more_weights_tiny(class_case: Case) -> None:
    def tiny(gamma: float) -> float:
        model = L1Sparse(gamma=gamma)(class_case.model(), class_case.problem(compute=800))
        flat = torch.cat([value.detach().reshape(-1) for value in model.parameters()])
        return float((flat.abs() < 2e-3).float().mean())

    assert tiny(0.01) > 1.5 * tiny(0.0)
