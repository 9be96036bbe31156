"""Blindspot: attention maps by hand, a blind model that saw the retain set alone, its pull on the forget set."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from unplug.sdk.unlearning.methods import blindspot
from unplug.sdk.unlearning.methods.blindspot import Blindspot, attention_difference, attention_map, last_features

from .conftest import Case, changed, poisoned, whole_batch


def test_attention_map_golden() -> None:
    """Channels (3, 0) and (0, 4) at two positions: mean squares 4.5 and 8, of length one (9, 16) / sqrt(337)."""
    x_BCHW = torch.tensor([[3.0, 0.0], [0.0, 4.0]]).view(1, 2, 1, 2)
    expected = [9 / 337**0.5, 16 / 337**0.5]
    assert attention_map(x_BCHW)[0].tolist() == pytest.approx(expected)
    assert torch.allclose(attention_map(-7 * x_BCHW), attention_map(x_BCHW))  # neither sign nor scale counts
    other = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).view(1, 2, 1, 2)
    by_hand = ((expected[0] - 1.0) ** 2 + expected[1] ** 2) / 2
    assert float(attention_difference(x_BCHW, other)) == pytest.approx(by_hand)


def test_last_features_are_those_of_the_head_and_leave_no_hook(age_case: Case) -> None:
    model = age_case.model()
    with last_features(model) as seen:
        model(torch.zeros(2, 3, 32, 32))
    assert seen[0].shape[:2] == (2, 384)
    assert not any(module._forward_hooks for module in model.modules())


def test_the_blind_model_is_new_and_trained_without_the_forget_set(age_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[torch.nn.Module] = []
    real = blindspot.Descent.__call__

    def first_alone(self, model, problem, loss, *, steps):  # type: ignore[no-untyped-def]
        trained.append(model)
        return real(self, model, problem, loss, steps=steps) if len(trained) == 1 else model

    monkeypatch.setattr(blindspot.Descent, "__call__", first_alone)
    model = age_case.model()
    given = age_case.problem(budget=1.0, forget=poisoned(age_case.sets.forget))
    Blindspot(batch_size=16)(model, given)
    blind, student = trained
    assert student is model and not changed(model, age_case.original)
    assert changed(blind, age_case.original) >= {name for name, _ in blind.named_parameters()}


def test_forget_predictions_follow_the_blind_model(age_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    blinds: list[torch.nn.Module] = []
    real = blindspot.random_network
    monkeypatch.setattr(blindspot, "random_network", lambda problem: blinds.append(real(problem)) or blinds[-1])
    given = age_case.problem(budget=2.0)
    model = Blindspot(batch_size=16, attention=0.0)(age_case.model(), given)
    image = whole_batch(given.forget).image_BCHW
    with torch.no_grad():
        target, before, after = (net.train()(image)["expected_age"] for net in (blinds[0], age_case.model(), model))
    assert (after - target).abs().mean() < (before - target).abs().mean()


def test_forget_ages_are_not_read(age_case: Case) -> None:
    forget = age_case.sets.forget
    wrong = replace(forget, age_N=torch.full_like(forget.age_N, 99.0), group_N=torch.zeros_like(forget.group_N))
    runs = [Blindspot(batch_size=16)(age_case.model(), age_case.problem(budget=1.0, forget=data)) for data in (forget, wrong)]
    assert not changed(*runs)
