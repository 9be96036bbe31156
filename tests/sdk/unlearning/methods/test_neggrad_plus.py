"""NegGrad+: its step by hand, fine-tuning as its limit, its effect beside fine-tuning."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.unlearning.methods.finetune import Finetune
from unplug.sdk.unlearning.methods.neggrad_plus import NegGradPlus

from .conftest import PLAIN, Case, assert_weights, changed, losses, poisoned, sgd_step, whole_batch


@pytest.mark.parametrize("alpha", [0.0, 0.7, 0.95])
def test_one_step_is_the_formula(class_case: Case, alpha: float) -> None:
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
    assert all(torch.allclose(model.state_dict()[name], alone.state_dict()[name], atol=1e-6) for name in statistics)


def test_alpha_one_is_finetuning_bit_for_bit(case: Case) -> None:
    given = case.problem(forget=poisoned(case.sets.forget))
    one = NegGradPlus(alpha=1.0, lr=1e-3)(case.model(), given)
    other = Finetune(lr=1e-3)(case.model(), case.problem())
    assert not changed(one, other)


def test_it_forgets_more_than_finetuning(class_case: Case) -> None:
    compute = 20 * (32 + 16)
    forgetting = NegGradPlus(alpha=0.8)(class_case.model(), class_case.problem(compute=compute))
    tuned = Finetune()(class_case.model(), class_case.problem(compute=compute))
    gone = [float(losses(model, class_case.sets.forget).mean()) for model in (forgetting, tuned)]
    assert gone[0] > 1.2 * gone[1]
