"""SCRUB+R: the reference by hand, the round it goes back to in a made-up sequence of errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.unlearning.methods import scrub_r
from unplug.sdk.unlearning.methods.scrub import SCRUB
from unplug.sdk.unlearning.methods.scrub_r import SCRUBR, closest, matched_mean

from .conftest import Case, State, changed, snapshot
from .conftest import losses as slow_losses


def test_closest_golden() -> None:
    assert closest([0.2, 0.9, 1.4], 1.0) == 1
    assert closest([0.5, 1.5], 1.0) == 0  # the earliest of several
    assert closest([3.0], -1.0) == 0


def test_matched_mean_golden() -> None:
    """Class 0 is 3/4 of the forget set, class 1 a quarter: .75 * mean(1, 3) + .25 * 6."""
    loss, group = torch.tensor([1.0, 3.0, 6.0]), torch.tensor([0, 0, 1])
    assert matched_mean(loss, group, torch.tensor([0, 0, 1, 0])) == pytest.approx(0.75 * 2 + 0.25 * 6)
    # A class without validation samples leaves its weight to the others.
    assert matched_mean(loss, group, torch.tensor([0, 0, 1, 1, 5, 5])) == pytest.approx(0.5 * 2 + 0.5 * 6)


@pytest.mark.long
@pytest.mark.parametrize("reference", [0.1, 0.52, 0.75, 5.0])
def test_it_goes_back_to_the_closest_round(class_case: Case, monkeypatch: pytest.MonkeyPatch, reference: float) -> None:
    scripted = [0.1, 0.4, 0.9, 0.6, 0.7]
    states: list[State] = []

    def losses(model: nn.Module, problem: Any, data: Any) -> Tensor:
        if len(states) == len(scripted):
            return torch.full((len(data),), reference)
        states.append(snapshot(model))
        return torch.full((len(data),), scripted[len(states) - 1])

    monkeypatch.setattr(scrub_r, "losses", losses)
    model = SCRUBR()(class_case.model(), class_case.problem(budget=3.0))
    right = {0.1: 0, 0.52: 3, 0.75: 4, 5.0: 2}[reference]
    assert len(states) == 5
    assert [bool(changed(state, model)) for state in states] == [number != right for number in range(5)]


def test_measured_losses_are_the_models(class_case: Case) -> None:
    problem, model = class_case.problem(), class_case.model().train()
    found = scrub_r.losses(model, problem, class_case.sets.validation)
    assert torch.allclose(found, slow_losses(class_case.model(), class_case.sets.validation), atol=1e-5)
    assert model.training
    assert (problem.meter.spent.forward, problem.meter.spent.backward) == (24, 0)


def test_only_classes_of_the_forget_set_count_and_not_too_many(class_case: Case) -> None:
    validation, forget = class_case.sets.validation, class_case.sets.forget
    alike = SCRUBR().some(validation, forget)
    assert sorted(set(alike.group_N.tolist())) == [0, 2]
    assert len(alike) == int(torch.isin(validation.group_N, torch.tensor([0, 2])).sum())
    assert 1 <= len(SCRUBR(samples=5).some(validation, forget)) <= 5


def test_without_a_matching_validation_sample_it_is_refused(class_case: Case) -> None:
    other = class_case.sets.validation.subset((class_case.sets.validation.group_N == 1).nonzero()[:, 0])
    with pytest.raises(InputError, match="no validation sample"):
        SCRUBR()(class_case.model(), class_case.problem(validation=other))


def test_the_last_round_is_scrub(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewinding apart, the steps are SCRUB's, measured or not."""
    monkeypatch.setattr(scrub_r, "closest", lambda errors, reference: len(errors) - 1)
    one = SCRUBR()(class_case.model(), class_case.problem(compute=480))
    steps = 480 * 3 - (5 * 16 + 12)
    two = SCRUB(lr=SCRUBR().lr)(class_case.model(), class_case.problem(compute=steps // 3))
    assert not changed(one, two)
