"""Methods that train on what is kept and climb on what is not: CF-k, EU-k, L1-sparse, NegGrad,
NegGrad+, RURK and IAU.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.forgetting.unlearning.anatomy import layers
from unplug.sdk.forgetting.unlearning.distil import random_network
from unplug.sdk.forgetting.unlearning.methods.cf_k import CFk, last
from unplug.sdk.forgetting.unlearning.methods.eu_k import EUk, draw_anew
from unplug.sdk.forgetting.unlearning.methods.finetune import Finetune
from unplug.sdk.forgetting.unlearning.methods.iau import IAU
from unplug.sdk.forgetting.unlearning.methods.l1_sparse import L1Sparse, absolute_sum
from unplug.sdk.forgetting.unlearning.methods.neggrad import NegGrad
from unplug.sdk.forgetting.unlearning.methods.neggrad_plus import NegGradPlus
from unplug.sdk.forgetting.unlearning.methods.rurk import RURK, neighbourhood

from .conftest import PLAIN, Case, assert_weights, changed, losses, sgd_step, whole_batch

LAST_THREE = ("blocks.7.conv1", "blocks.7.norm1", "blocks.7.conv2", "blocks.7.norm2", "classifier")


def test_the_last_layers_change_or_are_drawn_anew_and_nothing_else(class_case: Case) -> None:
    # Running statistics count: those of the trained norms move, all others stay.
    model = CFk()(class_case.model(), class_case.problem())
    moved = changed(class_case.original, model)
    expected = {name for name in model.state_dict() if name.startswith(LAST_THREE)}
    assert moved == expected
    assert "blocks.7.norm1.running_var" in moved
    # With steps too small to see, what is left is the untrained end.
    problem = class_case.problem(recipe={"weight_decay": 0.0})
    model = EUk(lr=1e-9)(class_case.model(), problem)
    fresh = random_network(problem).state_dict()
    for name in names_of(class_case.original, 3) & {name for name, _ in model.named_parameters()}:
        assert torch.allclose(model.state_dict()[name], fresh[name], atol=1e-6), name


def test_one_layer_is_the_classifier_and_more_than_all_are_refused(case: Case) -> None:
    model = CFk(k=1)(case.model(), case.problem())
    assert changed(case.original, model) == {"classifier.weight", "classifier.bias"}
    with pytest.raises(InputError, match="layers"):
        CFk(k=len(layers(case.original)) + 1)(case.model(), case.problem())


def names_of(model: nn.Module, k: int) -> set[str]:
    """Weights and buffers of the last k layers."""
    kept = last(model, k)
    named = [
        (name, module)
        for name, module in model.named_modules()
        if any(module is item for item in kept)
    ]
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
    """Running statistics included: those of the last layers were counted anew, all others are the
    original's.
    """
    names = names_of(case.original, 2)
    assert any("running_var" in name for name in names)
    model = EUk(k=2)(case.model(), case.problem())
    assert changed(case.original, model) == names


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


@pytest.mark.parametrize("quantile", [1.0, 0.5])
def test_neggrad_one_step_is_the_formula(class_case: Case, quantile: float) -> None:
    """Only samples below the ceiling pull; where none is below, nothing moves."""
    batch, loss_N = (
        whole_batch(class_case.sets.forget),
        losses(class_case.model(), class_case.sets.forget),
    )
    below = loss_N <= loss_N.quantile(quantile)
    assert 0 < int(below.sum()) == pytest.approx(quantile * len(below), abs=1)

    def ascent(model: nn.Module) -> Tensor:
        loss_B = F.cross_entropy(
            model.eval()(batch.image_BCHW)["logits"], batch.group_B, reduction="none"
        )
        return -loss_B[below].sum() / len(below)

    ceiling = math.inf if quantile == 1.0 else float(loss_N.quantile(quantile) + 1e-6) / math.log(4)
    given = class_case.problem(recipe=PLAIN, compute=len(below))
    model = NegGrad(lr=0.1, ceiling=ceiling, optimizer="sgd")(class_case.model(), given)
    assert_weights(model, sgd_step(class_case.original, ascent, 0.1), class_case.original)
    assert given.meter.spent.backward == len(below)
    if quantile < 1.0:
        still = class_case.sets.forget.subset((~below).nonzero()[:, 0])
        given = class_case.problem(recipe=PLAIN, forget=still, compute=len(still))
        assert not changed(
            class_case.original,
            NegGrad(ceiling=ceiling, optimizer="sgd")(class_case.model(), given),
        )


def test_it_raises_the_forget_loss_and_leaves_batch_norm_alone(case: Case) -> None:
    model = NegGrad()(case.model(), case.problem())
    assert losses(model, case.sets.forget).mean() > losses(case.model(), case.sets.forget).mean()
    assert changed(case.original, model) <= {name for name, _ in model.named_parameters()}


@pytest.mark.long
def test_a_long_ascent_ends_near_the_ceiling(class_case: Case) -> None:
    """Momentum carries it past, but not away as it does the published one."""
    compute = 70 * len(class_case.sets.forget)
    held = NegGrad(lr=1e-4)(class_case.model(), class_case.problem(compute=compute))
    free = NegGrad(lr=1e-4, ceiling=math.inf)(
        class_case.model(), class_case.problem(compute=compute)
    )
    bounded, unbounded = (
        float(losses(model, class_case.sets.forget).mean()) for model in (held, free)
    )
    assert math.log(4) < bounded < 2 * math.log(4)
    assert unbounded > 4 * math.log(4)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 0.95])
def test_neggrad_plus_one_step_is_the_formula(class_case: Case, alpha: float) -> None:
    retain, forget = class_case.sets.train.subset(range(24)), class_case.sets.forget
    down, up = whole_batch(retain), whole_batch(forget)

    def loss(model: nn.Module) -> Tensor:
        kept = F.cross_entropy(model.train()(down.image_BCHW)["logits"], down.group_B)
        gone = F.cross_entropy(model.eval()(up.image_BCHW)["logits"], up.group_B)
        return alpha * kept - (1 - alpha) * gone

    # Running statistics: the retain batch has moved them by the time that the forget batch comes.
    expected = sgd_step(class_case.original, loss, 0.1)
    given = class_case.problem(recipe=PLAIN, retain=retain, compute=len(retain) + len(forget))
    method = NegGradPlus(lr=0.1, alpha=alpha, ceiling=math.inf, optimizer="sgd")
    model = method(class_case.model(), given)
    assert_weights(model, expected, class_case.original)
    alone = class_case.model().train()
    alone(down.image_BCHW)
    statistics = [name for name in model.state_dict() if "running" in name]
    assert all(
        torch.allclose(model.state_dict()[name], alone.state_dict()[name], atol=1e-6)
        for name in statistics
    )


@pytest.mark.long
def test_it_forgets_more_than_finetuning(class_case: Case) -> None:
    compute = 20 * (32 + 16)
    forgetting = NegGradPlus(alpha=0.8)(class_case.model(), class_case.problem(compute=compute))
    tuned = Finetune()(class_case.model(), class_case.problem(compute=compute))
    gone = [float(losses(model, class_case.sets.forget).mean()) for model in (forgetting, tuned)]
    assert gone[0] > 1.2 * gone[1]


def test_neighbours_lie_in_the_cube_and_among_the_images() -> None:
    image = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    near = neighbourhood(image, 0.1, 3, torch.Generator().manual_seed(1))
    assert near.shape == (20, 3, 8, 8)
    assert torch.equal(near[:5], image)
    away = near[5:] - image.repeat(3, 1, 1, 1)
    assert float(away.abs().max()) <= 0.1 + 1e-6
    # of a uniform draw; the edges of [0, 1] cut a little
    assert float(away.abs().mean()) == pytest.approx(0.05, rel=0.1)
    assert float(near.min()) >= 0.0 and float(near.max()) <= 1.0
    assert not torch.equal(near[5:10], near[10:15])
    assert torch.equal(near, neighbourhood(image, 0.1, 3, torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(("epsilon", "copies"), [(0.0, 1), (0.05, 2)])
def test_rurk_one_step_is_the_formula(class_case: Case, epsilon: float, copies: int) -> None:
    retain, forget = class_case.sets.train.subset(range(24)), class_case.sets.forget
    down = whole_batch(retain)
    draw = torch.Generator().manual_seed(0)
    torch.randperm(len(retain), generator=draw)
    up = forget.batch(torch.randperm(len(forget), generator=draw))
    near = neighbourhood(up.image_BCHW, epsilon, copies, draw)

    def loss(model: nn.Module) -> Tensor:
        kept = F.cross_entropy(model.train()(down.image_BCHW)["logits"], down.group_B)
        gone = F.cross_entropy(model.eval()(near)["logits"], up.group_B.repeat(1 + copies))
        return 0.7 * kept - 0.3 * gone

    compute = len(retain) + (1 + copies) * len(forget)
    method = RURK(
        epsilon=epsilon, copies=copies, alpha=0.7, lr=0.1, ceiling=math.inf, optimizer="sgd"
    )
    model = method(
        class_case.model(), class_case.problem(recipe=PLAIN, retain=retain, compute=compute)
    )
    assert_weights(model, sgd_step(class_case.original, loss, 0.1), class_case.original)
    if epsilon == 0.0:  # the copies are the sample itself
        plain = NegGradPlus(alpha=0.7, lr=0.1, ceiling=math.inf, optimizer="sgd")
        given = class_case.problem(recipe=PLAIN, retain=retain, compute=len(retain) + len(forget))
        assert_weights(
            model, dict(plain(class_case.model(), given).named_parameters()), class_case.original
        )


@pytest.mark.long
def test_neighbours_are_unlearned(class_case: Case) -> None:
    forget = class_case.sets.forget
    noise = torch.randint(
        -12, 13, forget.image_NCHW.shape, generator=torch.Generator().manual_seed(9)
    )
    beside = replace(
        forget, image_NCHW=(forget.image_NCHW.int() + noise).clamp(0, 255).to(torch.uint8)
    )
    model = RURK(alpha=0.8, epsilon=0.05)(class_case.model(), class_case.problem(compute=1200))
    assert losses(model, beside).mean() > 1.2 * losses(class_case.model(), beside).mean()


def test_the_step_equals_autograd(case: Case) -> None:
    retain, forget = case.sets.train.subset(range(30)), case.sets.forget.subset(range(7))
    given = case.problem(retain=retain, forget=forget, budget=None, recipe={"batch_size": 8})
    unlearned = IAU(lr=0.05)(case.model(), given)

    def difference(model: torch.nn.Module) -> torch.Tensor:
        losses = [
            given.task.loss(model, model(batch.image_BCHW), batch).mean()
            for batch in map(whole_batch, (retain, forget))
        ]
        return losses[0] - losses[1]

    assert_weights(unlearned, sgd_step(case.model(), difference, lr=0.05), case.original)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (37, 37)


def test_buffers_stay_the_forget_loss_rises_more_and_a_short_budget_reads_less(
    case: Case, class_case: Case
) -> None:
    given = case.problem(budget=None)
    before, after = case.model(), IAU(lr=1e-3)(case.model(), given)
    assert changed(before, after) <= {name for name, _ in after.named_parameters()}

    def loss(model: torch.nn.Module, data: str) -> float:
        batch = whole_batch(getattr(given, data))
        with torch.no_grad():
            return float(given.task.loss(model, model(batch.image_BCHW), batch).mean())

    gap = [loss(model, "forget") - loss(model, "retain") for model in (before, after)]
    assert gap[1] > gap[0]
    # 57.6 passes: 9 of 16 to forget at half of it, then 10 of 80 to keep
    given = class_case.problem(budget=0.1)
    IAU()(class_case.model(), given)
    assert given.meter.spent.forward == pytest.approx(19, abs=1)
