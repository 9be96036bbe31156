"""L1-sparse: two steps by hand with the falling weight of the norm, fine-tuning as its limit, small weights as its effect."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from unplug.sdk.unlearning.methods.l1_sparse import L1Sparse, absolute_sum

from .conftest import PLAIN, Case, assert_weights, whole_batch

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


@pytest.mark.long
def test_it_makes_more_weights_tiny(class_case: Case) -> None:
    def tiny(gamma: float) -> float:
        model = L1Sparse(gamma=gamma)(class_case.model(), class_case.problem(compute=800))
        flat = torch.cat([value.detach().reshape(-1) for value in model.parameters()])
        return float((flat.abs() < 2e-3).float().mean())

    assert tiny(0.01) > 1.5 * tiny(0.0)


def test_absolute_sum_counts_every_parameter() -> None:
    layer = torch.nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-1.5, 2.0]]))
        layer.bias.fill_(-0.25)
    assert float(absolute_sum(layer).detach()) == 3.75
