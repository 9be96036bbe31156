"""Methods that train on what is kept and climb on what is not: CF-k, EU-k, L1-sparse, NegGrad,
NegGrad+, RURK and IAU.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.forgetting.unlearning.anatomy import layers
from unplug.sdk.forgetting.unlearning.distil import random_network
from unplug.sdk.forgetting.unlearning.methods.cf_k import CFk, last
from unplug.sdk.forgetting.unlearning.methods.eu_k import EUk
from unplug.sdk.forgetting.unlearning.methods.iau import IAU
from unplug.sdk.forgetting.unlearning.methods.l1_sparse import L1Sparse
from unplug.sdk.forgetting.unlearning.methods.neggrad import NegGrad
from unplug.sdk.forgetting.unlearning.methods.neggrad_plus import NegGradPlus
from unplug.sdk.forgetting.unlearning.methods.rurk import RURK, neighbourhood

from .conftest import PLAIN, Case, assert_weights, changed, error, losses, whole_batch


def names_of(model: nn.Module, k: int) -> set[str]:
    """Weights and buffers of the last k layers."""
    kept = last(model, k)
    return {
        f"{name}.{key}"
        for name, module in model.named_modules()
        if any(module is layer for layer in kept)
        for key in module.state_dict()
    }


def test_the_last_layers_change_and_nothing_else(class_case: Case) -> None:
    """Running statistics count: those of the trained norms move, all others stay."""
    moved = changed(class_case.original, CFk()(class_case.model(), class_case.problem()))
    ends = ("blocks.7.conv1", "blocks.7.norm1", "blocks.7.conv2", "blocks.7.norm2", "classifier")
    assert moved == {name for name in class_case.original.state_dict() if name.startswith(ends)}
    assert "blocks.7.norm1.running_var" in moved


def test_one_layer_is_the_classifier_and_more_than_all_are_refused(case: Case) -> None:
    model = CFk(k=1)(case.model(), case.problem())
    assert changed(case.original, model) == {"classifier.weight", "classifier.bias"}
    with pytest.raises(InputError, match="layers"):
        CFk(k=len(layers(case.original)) + 1)(case.model(), case.problem())


def test_the_last_layers_are_drawn_as_those_of_an_untrained_network(case: Case) -> None:
    """With steps too small to see, what is left is the untrained end."""
    problem = case.problem(recipe={"weight_decay": 0.0})
    fresh = random_network(problem).state_dict()
    model, names = EUk(lr=1e-9, k=2)(case.model(), problem), names_of(case.original, 2)
    assert any("running_var" in name for name in names)
    assert changed(case.original, model) == names
    for name, value in model.named_parameters():
        assert name not in names or torch.allclose(value, fresh[name], atol=1e-6), name


def test_two_steps_of_l1_are_the_formula(class_case: Case) -> None:
    gamma, lr = 0.02, 0.05
    retain = class_case.sets.train.subset(range(24))
    slow = copy.deepcopy(class_case.original)
    velocity = [torch.zeros_like(value) for value in slow.parameters()]
    for share in (1.0, 0.5):  # linear, and a cosine of two steps
        loss = error(slow, whole_batch(retain), train=True)
        gradients = torch.autograd.grad(loss, list(slow.parameters()))
        with torch.no_grad():
            for value, gradient, speed in zip(slow.parameters(), gradients, velocity, strict=True):
                value -= share * lr * speed.mul_(0.9).add_(gradient + share * gamma * value.sign())
    given = class_case.problem(recipe=PLAIN, retain=retain, compute=2 * len(retain))
    model = L1Sparse(gamma=gamma, lr=lr, optimizer="sgd")(class_case.model(), given)
    assert_weights(model, dict(slow.named_parameters()), class_case.original)


@pytest.mark.parametrize("quantile", [1.0, 0.5])
def test_neggrad_one_step_is_the_formula(class_case: Case, quantile: float) -> None:
    """Only samples below the ceiling pull; where none is below, nothing moves."""
    forget = class_case.sets.forget
    loss_N = losses(class_case.model(), forget)
    below = loss_N <= loss_N.quantile(quantile)
    assert 0 < int(below.sum()) == pytest.approx(quantile * len(below), abs=1)
    pulling = whole_batch(forget.subset(below.nonzero()[:, 0]))
    ceiling = math.inf if quantile == 1.0 else float(loss_N.quantile(quantile) + 1e-6) / math.log(4)
    method = NegGrad(lr=0.1, ceiling=ceiling, optimizer="sgd")

    def ascent(model: nn.Module) -> Tensor:
        return -error(model, pulling) * below.sum() / len(below)

    given = class_case.step(method, ascent, compute=len(below))
    assert given.meter.spent.backward == len(below)
    if quantile < 1.0:
        still = forget.subset((~below).nonzero()[:, 0])
        given = class_case.problem(recipe=PLAIN, forget=still, compute=len(still))
        assert not changed(class_case.original, method(class_case.model(), given))


def test_it_raises_the_forget_loss_and_leaves_batch_norm_alone(case: Case) -> None:
    model = NegGrad()(case.model(), case.problem())
    assert losses(model, case.sets.forget).mean() > losses(case.model(), case.sets.forget).mean()
    assert changed(case.original, model) <= {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize("alpha", [0.0, 0.7, 0.95])
def test_neggrad_plus_one_step_is_the_formula(class_case: Case, alpha: float) -> None:
    """Running statistics: the retain batch has moved them by the time that the forget batch comes."""
    retain, forget = class_case.sets.train.subset(range(24)), class_case.sets.forget
    down, up = whole_batch(retain), whole_batch(forget)
    method = NegGradPlus(lr=0.1, alpha=alpha, ceiling=math.inf, optimizer="sgd")
    class_case.step(
        method,
        lambda model: alpha * error(model, down, train=True) - (1 - alpha) * error(model, up),
        retain=retain,
        compute=len(retain) + len(forget),
    )


@pytest.mark.parametrize(("epsilon", "copies"), [(0.0, 1), (0.05, 2)])
def test_rurk_one_step_is_the_formula(class_case: Case, epsilon: float, copies: int) -> None:
    retain, forget = class_case.sets.train.subset(range(24)), class_case.sets.forget
    down, draw = whole_batch(retain), torch.Generator().manual_seed(0)
    torch.randperm(len(retain), generator=draw)
    order = torch.randperm(len(forget), generator=draw)
    near = neighbourhood(forget.batch(order).image_BCHW, epsilon, copies, draw)
    group_B = forget.group_N[order].repeat(1 + copies)

    def loss(model: nn.Module) -> Tensor:
        kept = error(model, down, train=True)
        says_BG = model.eval()(near)["logits"]
        return 0.7 * kept - 0.3 * nn.functional.cross_entropy(says_BG, group_B)

    method = RURK(
        epsilon=epsilon, copies=copies, alpha=0.7, lr=0.1, ceiling=math.inf, optimizer="sgd"
    )
    compute = len(retain) + (1 + copies) * len(forget)
    class_case.step(method, loss, retain=retain, compute=compute)


def test_neighbours_lie_in_the_cube_and_among_the_images() -> None:
    image = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    near, again = (neighbourhood(image, 0.1, 3, torch.Generator().manual_seed(1)) for _ in range(2))
    assert near.shape == (20, 3, 8, 8) and torch.equal(near[:5], image)
    away = near[5:] - image.repeat(3, 1, 1, 1)
    assert float(away.abs().max()) <= 0.1 + 1e-6
    # of a uniform draw; the edges of [0, 1] cut a little
    assert float(away.abs().mean()) == pytest.approx(0.05, rel=0.1)
    assert float(near.min()) >= 0.0 and float(near.max()) <= 1.0
    assert not torch.equal(near[5:10], near[10:15]) and torch.equal(near, again)


def test_iau_is_one_step_of_the_difference_and_buffers_stay(case: Case, class_case: Case) -> None:
    retain, forget = case.sets.train.subset(range(30)), case.sets.forget.subset(range(7))

    def difference(model: nn.Module) -> Tensor:
        kept, gone = (
            case.task.loss(model, model.eval()(batch.image_BCHW), batch).mean()
            for batch in map(whole_batch, (retain, forget))
        )
        return kept - gone

    given = case.step(IAU(lr=0.05), difference, 0.05, retain=retain, forget=forget, budget=None)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (37, 37)
    after = IAU(lr=1e-3)(case.model(), case.problem(budget=None))
    assert changed(case.original, after) <= {name for name, _ in after.named_parameters()}
    # 57.6 passes: 9 of 16 to forget at half of it, then 10 of 80 to keep
    given = class_case.problem(budget=0.1)
    IAU()(class_case.model(), given)
    assert given.meter.spent.forward == pytest.approx(19, abs=1)
