"""Bad teacher and distil to delete: one step by hand, and whom the forget set comes to resemble."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.unlearning.anatomy import embeddings
from unplug.sdk.unlearning.distil import random_network
from unplug.sdk.unlearning.methods.bad_teacher import BadTeacher
from unplug.sdk.unlearning.methods.distil_to_delete import DistilToDelete

from .conftest import PLAIN, Case, assert_weights, changed, sgd_step, whole_batch


def apart(one: nn.Module, other: nn.Module, image: Tensor) -> float:
    """Mean distance of what two networks say."""
    with torch.no_grad():
        said = [item.eval()(image)["logits"].softmax(dim=1) for item in (one, other)]
    return float((said[0] - said[1]).abs().sum(dim=1).mean())


def test_mixture_golden() -> None:
    """20 : 294 of 32, at least one and at least two, and no more than there are."""
    golden = {(980, 20): (30, 2), (85, 15): (20, 12), (1000, 1): (31, 1), (10, 90): (2, 30), (5, 3): (5, 3)}
    assert {sizes: BadTeacher().mixture(*sizes) for sizes in golden} == golden


def test_bad_teacher_one_step_is_the_formula(class_case: Case) -> None:
    retain, forget = class_case.sets.train.subset(range(24)), class_case.sets.forget.subset(range(8))
    kept, gone = whole_batch(retain).image_BCHW, whole_batch(forget).image_BCHW
    given = class_case.problem(recipe=PLAIN, retain=retain, forget=forget, compute=2 * 32)
    good, bad = class_case.model(), random_network(given)

    def divergence(student: Tensor, teacher: Tensor) -> Tensor:
        target = (teacher / 2.0).softmax(dim=1)
        return 4.0 * F.kl_div((student / 2.0).log_softmax(dim=1), target, reduction="none").sum(dim=1)

    def loss(model: nn.Module) -> Tensor:
        with torch.no_grad():
            taught = good(kept)["logits"], bad(gone)["logits"]
        here = divergence(model.train()(kept)["logits"], taught[0])
        there = divergence(model.eval()(gone)["logits"], taught[1])
        return torch.cat([here, there]).mean()

    method = BadTeacher(retain_share=1.0, temperature=2.0, lr=0.1, optimizer="sgd")
    assert method.mixture(24, 8) == (24, 8)
    model = method(class_case.model(), given)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (64, 32)
    assert_weights(model, sgd_step(class_case.original, loss, 0.1), class_case.original)


@pytest.mark.long
def test_the_forget_set_comes_to_resemble_the_random_network(class_case: Case) -> None:
    given = class_case.problem(compute=1600)
    bad = random_network(given)
    model = BadTeacher(lr=1e-3)(class_case.model(), given)
    gone, kept = (whole_batch(data).image_BCHW for data in (class_case.sets.forget, class_case.sets.train))
    assert apart(model, bad, gone) < 0.8 * apart(class_case.original, bad, gone)
    assert apart(model, class_case.original, kept) < apart(model, class_case.original, gone)


def test_the_random_network_follows_from_the_seed(case: Case) -> None:
    one, again, other = (random_network(case.problem(seed=seed)) for seed in (0, 0, 1))
    assert not changed(one, again)
    assert changed(one, other)
    before = torch.random.get_rng_state()
    random_network(case.problem())
    assert torch.equal(before, torch.random.get_rng_state())


def run(model: nn.Module, image: Tensor) -> tuple[Tensor, Tensor]:
    with embeddings(model) as seen:
        logits = model(image)["logits"]
    return logits, seen[0]


@pytest.mark.parametrize("features", [0.0, 2.0])
def test_distil_one_step_is_the_formula(class_case: Case, features: float) -> None:
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


@pytest.mark.long
def test_retained_outputs_stay_closer_than_deleted_ones(class_case: Case) -> None:
    """All deleted samples become one blur: the mean of what the original says of random others."""
    model = DistilToDelete(lr=1e-3)(class_case.model(), class_case.problem(compute=1600))
    gone, kept = (
        apart(model, class_case.original, whole_batch(data).image_BCHW)
        for data in (class_case.sets.forget, class_case.sets.train)
    )
    assert gone > 1.1 * kept
