"""SCRUB and SCRUB+R: schedules, steps by hand, and the round that is gone back to."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.forgetting.unlearning import build_method
from unplug.sdk.forgetting.unlearning.methods import scrub_r
from unplug.sdk.forgetting.unlearning.methods.scrub import SCRUB, longest, turns
from unplug.sdk.forgetting.unlearning.methods.scrub_r import SCRUBR, closest, matched_mean

from .conftest import PLAIN, Case, State, assert_weights, changed, says, snapshot, whole_batch
from .conftest import losses as slow_losses


@pytest.mark.parametrize(
    ("steps", "ratio", "rounds", "rising", "expected"),
    [
        (10, 0.5, 5, 3, "+-- +-- +-- -- --"),
        (7, 1.0, 3, 1, "++-- -- ---"),
        (2, 0.1, 5, 3, "+- -"),  # fewer rounds, in proportion
        (6, 0.0, 2, 2, "+--- +---"),  # a tiny forget set still has its turn
    ],
)
def test_turns_golden(steps: int, ratio: float, rounds: int, rising: int, expected: str) -> None:
    assert turns(steps, ratio, rounds, rising) == expected.split()


@pytest.mark.parametrize("left", [2, 3, 9, 10, 50])
@pytest.mark.parametrize("price", [0.1, 1.0])
def test_longest_fits_and_no_longer_one_does(left: int, price: float) -> None:
    def cost(kinds: list[str]) -> float:
        text = "".join(kinds)
        return text.count("-") + price * text.count("+")

    kinds = longest(left, 0.5, price, 5, 3)
    steps = "".join(kinds).count("-")
    assert cost(kinds) <= left
    assert all(cost(turns(more, 0.5, 5, 3)) > left for more in range(steps + 1, left + 1))


def test_max_then_min_step_are_the_formula(class_case: Case) -> None:
    """Student and teacher agree at first: the max step finds no gradient, and the min step is half
    a cosine on.
    """
    retain, teacher = class_case.sets.train.subset(range(24)), class_case.model()
    batch = whole_batch(retain)

    def down(model: nn.Module) -> Tensor:
        logits_BG = says(model, batch, train=True)
        taught_BG = (says(teacher, batch).detach() / 3.0).softmax(dim=1)
        log_BG = (logits_BG / 3.0).log_softmax(dim=1)
        kept = 9.0 * F.kl_div(log_BG, taught_BG, reduction="batchmean")
        return 0.3 * kept + 0.7 * F.cross_entropy(logits_BG, batch.group_B)

    method = SCRUB(alpha=0.3, gamma=0.7, temperature=3.0, lr=0.1, optimizer="sgd")
    given = class_case.step(method, down, 0.05, retain=retain, compute=2 * len(retain))
    spent = given.meter.spent
    assert (spent.forward, spent.backward) == (2 * (24 + 16), 24 + 16)


def test_min_then_max_step_is_the_formula(class_case: Case) -> None:
    """In a second round the student stands apart, and the max step climbs KL(teacher || student)."""
    retain = class_case.sets.train.subset(range(24))
    kept, gone = whole_batch(retain), whole_batch(class_case.sets.forget)
    teacher, slow = class_case.model(), copy.deepcopy(class_case.original)
    velocity = [torch.zeros_like(value) for value in slow.parameters()]
    for step, kind in enumerate("+-+-"):
        batch = gone if kind == "+" else kept
        student_BG = says(slow, batch, train=kind == "-")
        taught_BG = says(teacher, batch).detach().softmax(dim=1)
        apart = F.kl_div(student_BG.log_softmax(dim=1), taught_BG, reduction="batchmean")
        down = F.cross_entropy(student_BG, batch.group_B) + 0.5 * apart
        lr = 0.05 * 0.5 * (1 + math.cos(math.pi * step / 4))
        gradients = torch.autograd.grad(-apart if kind == "+" else down, list(slow.parameters()))
        with torch.no_grad():
            for value, gradient, speed in zip(slow.parameters(), gradients, velocity, strict=True):
                value -= lr * speed.mul_(0.9).add_(gradient)
    method = SCRUB(temperature=1.0, rounds=2, max_rounds=2, lr=0.05, optimizer="sgd")
    given = class_case.problem(recipe=PLAIN, retain=retain, compute=6 * len(retain))
    model = method(class_case.model(), given)
    assert given.meter.spent.backward == 2 * (24 + 16)
    assert_weights(model, dict(slow.named_parameters()), class_case.original)


def test_validation_samples_of_the_forgotten_classes_are_compared(class_case: Case) -> None:
    validation, forget = class_case.sets.validation, class_case.sets.forget
    alike = SCRUBR().some(validation, forget)
    assert alike.group_N.unique().tolist() == [0, 2]
    assert len(alike) == int((validation.group_N % 2 == 0).sum())
    assert 1 <= len(SCRUBR(samples=5).some(validation, forget)) <= 5
    other = validation.subset((validation.group_N == 1).nonzero()[:, 0])
    with pytest.raises(InputError, match="no validation sample"):
        SCRUBR()(class_case.model(), class_case.problem(validation=other))
    with pytest.raises(InputError, match="max_rounds=4"):
        build_method("scrub", {"rounds": "3", "max_rounds": "4"})


def test_losses_are_measured_in_eval_mode_and_charged(class_case: Case) -> None:
    problem, model = class_case.problem(), class_case.model().train()
    loss_N = scrub_r.losses(model, problem, class_case.sets.validation)
    expected = slow_losses(class_case.model(), class_case.sets.validation)
    assert torch.allclose(loss_N, expected, atol=1e-5) and model.training
    assert (problem.meter.spent.forward, problem.meter.spent.backward) == (24, 0)


def test_goldens_of_the_round() -> None:
    assert closest([0.2, 0.9, 1.4], 1.0) == 1
    assert closest([0.5, 1.5], 1.0) == 0  # the earliest of several
    # Class 0 is 3/4 of the forget set, class 1 a quarter: .75 * mean(1, 3) + .25 * 6.
    loss, group = torch.tensor([1.0, 3.0, 6.0]), torch.tensor([0, 0, 1])
    assert matched_mean(loss, group, torch.tensor([0, 0, 1, 0])) == pytest.approx(3.0)
    # A class without validation samples leaves its weight to the others.
    assert matched_mean(loss, group, torch.tensor([0, 0, 1, 1, 5, 5])) == pytest.approx(4.0)


@pytest.mark.long
@pytest.mark.parametrize(("reference", "right"), [(0.1, 0), (0.52, 3), (0.75, 4), (5.0, 2)])
def test_it_goes_back_to_the_closest_round(
    class_case: Case, monkeypatch: pytest.MonkeyPatch, reference: float, right: int
) -> None:
    states: list[State] = []
    scripted = iter([0.1, 0.4, 0.9, 0.6, 0.7])

    def losses(model: nn.Module, problem: Any, data: Any) -> Tensor:
        loss = next(scripted, reference)
        if len(states) < 5:
            states.append(snapshot(model))
        return torch.full((len(data),), loss)

    monkeypatch.setattr(scrub_r, "losses", losses)
    model = SCRUBR()(class_case.model(), class_case.problem(budget=3.0))
    same = [number for number, state in enumerate(states) if not changed(state, model)]
    assert len(states) == 5 and same == [right]


def test_the_last_round_is_scrub(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewinding apart, the steps are SCRUB's, measured or not."""
    monkeypatch.setattr(scrub_r, "closest", lambda errors, reference: len(errors) - 1)
    one = SCRUBR()(class_case.model(), class_case.problem(compute=480))
    steps = 480 * 3 - (5 * 16 + 12)
    two = SCRUB(lr=SCRUBR().lr)(class_case.model(), class_case.problem(compute=steps // 3))
    assert not changed(one, two)
