"""Distil to delete: one step by hand on responses and features, and what is kept and deleted."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.unlearning.anatomy import embeddings
from unplug.sdk.unlearning.methods.distil_to_delete import DistilToDelete

from .conftest import PLAIN, Case, assert_weights, sgd_step, whole_batch


def run(model: nn.Module, image: Tensor) -> tuple[Tensor, Tensor]:
    with embeddings(model) as seen:
        logits = model(image)["logits"]
    return logits, seen[0]


@pytest.mark.parametrize("features", [0.0, 2.0])
def test_one_step_is_the_formula(class_case: Case, features: float) -> None:
    retain, forget = class_case.sets.train.subset(range(24)), class_case.sets.forget.subset(range(8))
    draw = torch.Generator().manual_seed(0)
    kept = retain.batch(torch.randperm(24, generator=draw)).image_BCHW
    gone = forget.batch(torch.randperm(8, generator=draw)).image_BCHW
    teacher = class_case.model()
    with torch.no_grad():
        taught = run(teacher, kept)

    def distance(student: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]) -> Tensor:
        response = F.kl_div(student[0].log_softmax(dim=1), target[0].softmax(dim=1), reduction="batchmean")
        return response + features * F.mse_loss(student[1], target[1])

    def loss(model: nn.Module) -> Tensor:
        here = distance(run(model.train(), kept), taught)
        there = distance(run(model.eval(), gone), (taught[0][:8], taught[1][:8]))
        return 0.6 * here + 0.4 * there

    given = class_case.problem(recipe=PLAIN, retain=retain, forget=forget, compute=40)  # 120 of 4 * 24 + 3 * 8
    method = DistilToDelete(alpha=0.6, features=features, lr=0.1, optimizer="sgd")
    model = method(class_case.model(), given)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (24 + 24 + 8, 24 + 8)
    assert_weights(model, sgd_step(class_case.original, loss, 0.1), class_case.original)


def test_retained_outputs_stay_closer_than_deleted_ones(class_case: Case) -> None:
    """All deleted samples become one blur: the mean of what the original says of random others."""
    model = DistilToDelete(lr=1e-3)(class_case.model(), class_case.problem(compute=1600))

    def apart(image: Tensor) -> float:
        with torch.no_grad():
            student, teacher = model(image)["logits"].softmax(1), class_case.original.eval()(image)["logits"].softmax(1)
        return float((student - teacher).abs().sum(dim=1).mean())

    gone, kept = (apart(whole_batch(data).image_BCHW) for data in (class_case.sets.forget, class_case.sets.train))
    assert gone > 1.1 * kept
