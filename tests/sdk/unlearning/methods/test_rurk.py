"""RURK: where the neighbours lie, NegGrad+ as its limit, and that neighbours are unlearned."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.unlearning.methods.neggrad_plus import NegGradPlus
from unplug.sdk.unlearning.methods.rurk import RURK, neighbourhood

from .conftest import PLAIN, Case, assert_weights, losses, sgd_step, whole_batch


def test_neighbours_lie_in_the_cube_and_among_the_images() -> None:
    image = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    near = neighbourhood(image, 0.1, 3, torch.Generator().manual_seed(1))
    assert near.shape == (20, 3, 8, 8)
    assert torch.equal(near[:5], image)
    away = near[5:] - image.repeat(3, 1, 1, 1)
    assert float(away.abs().max()) <= 0.1 + 1e-6
    assert float(away.abs().mean()) == pytest.approx(0.05, rel=0.1)  # of a uniform draw; the edges of [0, 1] cut a little
    assert float(near.min()) >= 0.0 and float(near.max()) <= 1.0
    assert not torch.equal(near[5:10], near[10:15])
    assert torch.equal(near, neighbourhood(image, 0.1, 3, torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(("epsilon", "copies"), [(0.0, 1), (0.05, 2)])
def test_one_step_is_the_formula(class_case: Case, epsilon: float, copies: int) -> None:
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
    method = RURK(epsilon=epsilon, copies=copies, alpha=0.7, lr=0.1, ceiling=math.inf, optimizer="sgd")
    model = method(class_case.model(), class_case.problem(recipe=PLAIN, retain=retain, compute=compute))
    assert_weights(model, sgd_step(class_case.original, loss, 0.1), class_case.original)
    if epsilon == 0.0:  # the copies are the sample itself
        plain = NegGradPlus(alpha=0.7, lr=0.1, ceiling=math.inf, optimizer="sgd")
        given = class_case.problem(recipe=PLAIN, retain=retain, compute=len(retain) + len(forget))
        assert_weights(model, dict(plain(class_case.model(), given).named_parameters()), class_case.original)


def test_neighbours_are_unlearned(class_case: Case) -> None:
    forget = class_case.sets.forget
    noise = torch.randint(-12, 13, forget.image_NCHW.shape, generator=torch.Generator().manual_seed(9))
    beside = replace(forget, image_NCHW=(forget.image_NCHW.int() + noise).clamp(0, 255).to(torch.uint8))
    model = RURK(alpha=0.8, epsilon=0.05)(class_case.model(), class_case.problem(compute=1200))
    assert losses(model, beside).mean() > 1.2 * losses(class_case.model(), beside).mean()
