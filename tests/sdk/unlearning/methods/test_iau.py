"""IAU: the step against autograd on whole sets."""

from __future__ import annotations

import pytest
import torch

from unplug.sdk.unlearning.methods.iau import IAU

from .conftest import Case, changed, sgd_step, whole_batch

STEP_TOLERANCE = 1e-5  # float32 sums over several batches instead of one


def test_the_step_equals_autograd(case: Case) -> None:
    retain, forget = case.sets.train.subset(range(30)), case.sets.forget.subset(range(7))
    given = case.problem(retain=retain, forget=forget, budget=None, recipe={"batch_size": 8})
    unlearned = IAU(lr=0.05)(case.model(), given)

    def difference(model: torch.nn.Module) -> torch.Tensor:
        losses = [given.task.loss(model(batch.image_BCHW), batch).mean() for batch in map(whole_batch, (retain, forget))]
        return losses[0] - losses[1]

    expected = sgd_step(case.model(), difference, lr=0.05)
    moved = 0.0
    for name, value in unlearned.named_parameters():
        step = expected[name] - case.original.state_dict()[name]
        assert (value - expected[name]).abs().max() <= STEP_TOLERANCE * (1 + expected[name].abs().max()), name
        moved = max(moved, float(step.abs().max()))
    assert moved > 1e-3  # not a comparison of standing still
    assert (given.meter.spent.forward, given.meter.spent.backward) == (37, 37)


def test_buffers_stay_and_the_forget_loss_rises_more(case: Case) -> None:
    given = case.problem(budget=None)
    before, after = case.model(), IAU(lr=1e-3)(case.model(), given)
    assert changed(before, after) <= {name for name, _ in after.named_parameters()}

    def loss(model: torch.nn.Module, data: str) -> float:
        batch = whole_batch(getattr(given, data))
        with torch.no_grad():
            return float(given.task.loss(model(batch.image_BCHW), batch).mean())

    gap = [loss(model, "forget") - loss(model, "retain") for model in (before, after)]
    assert gap[1] > gap[0]


def test_a_short_budget_takes_part_of_both_sets(class_case: Case) -> None:
    given = class_case.problem(budget=0.1)  # 57.6 passes: 9 of 16 to forget at half of it, then 10 of 80 to keep
    IAU()(class_case.model(), given)
    assert given.meter.spent.forward == pytest.approx(19, abs=1)
