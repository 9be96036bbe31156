"""NegGrad: its step by hand, its ceiling, its effect."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.unlearning.methods.neggrad import NegGrad

from .conftest import PLAIN, Case, assert_weights, changed, losses, sgd_step, whole_batch


def test_one_step_is_the_formula(class_case: Case) -> None:
    forget = class_case.sets.forget
    batch = whole_batch(forget)

    def ascent(model: nn.Module) -> Tensor:
        return -F.cross_entropy(model.eval()(batch.image_BCHW)["logits"], batch.group_B)

    expected = sgd_step(class_case.original, ascent, 0.1)
    given = class_case.problem(recipe=PLAIN, compute=len(forget))
    model = NegGrad(lr=0.1, ceiling=math.inf, optimizer="sgd")(class_case.model(), given)
    assert_weights(model, expected, class_case.original)
    assert given.meter.spent.backward == len(forget)


def test_samples_at_the_ceiling_have_no_gradient(class_case: Case) -> None:
    """Only those below it pull; where none is below, nothing moves."""
    loss_N = losses(class_case.model(), class_case.sets.forget)
    ceiling = float(loss_N.median() + 1e-6) / math.log(4)
    batch = whole_batch(class_case.sets.forget)
    below = loss_N < ceiling * math.log(4)
    assert 0 < int(below.sum()) < len(below)

    def ascent(model: nn.Module) -> Tensor:
        loss_B = F.cross_entropy(model.eval()(batch.image_BCHW)["logits"], batch.group_B, reduction="none")
        return -loss_B[below].sum() / len(below)

    given = class_case.problem(recipe=PLAIN, compute=len(below))
    model = NegGrad(lr=0.1, ceiling=ceiling, optimizer="sgd")(class_case.model(), given)
    assert_weights(model, sgd_step(class_case.original, ascent, 0.1), class_case.original)
    still = class_case.sets.forget.subset((~below).nonzero()[:, 0])
    given = class_case.problem(recipe=PLAIN, forget=still, compute=len(still))
    assert not changed(class_case.original, NegGrad(ceiling=ceiling, optimizer="sgd")(class_case.model(), given))


def test_it_raises_the_forget_loss_and_leaves_batch_norm_alone(case: Case) -> None:
    model = NegGrad()(case.model(), case.problem())
    assert losses(model, case.sets.forget).mean() > losses(case.model(), case.sets.forget).mean()
    assert changed(case.original, model) <= {name for name, _ in model.named_parameters()}


def test_a_long_ascent_ends_near_the_ceiling(class_case: Case) -> None:
    """Momentum carries it past, but not away as it does the published one."""
    compute = 70 * len(class_case.sets.forget)
    held = NegGrad(lr=1e-4)(class_case.model(), class_case.problem(compute=compute))
    free = NegGrad(lr=1e-4, ceiling=math.inf)(class_case.model(), class_case.problem(compute=compute))
    bounded, unbounded = (float(losses(model, class_case.sets.forget).mean()) for model in (held, free))
    assert math.log(4) < bounded < 2 * math.log(4)
    assert unbounded > 4 * math.log(4)
