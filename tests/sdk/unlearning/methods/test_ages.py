"""Blindspot and Gaussian-Amnesiac, which need ages: whom the forget set follows, and what of it is never read."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from unplug.plugins import AGE_EDGES
from unplug.sdk.training import ImageSet, joined
from unplug.sdk.training.images import age_groups
from unplug.sdk.unlearning.methods import blindspot
from unplug.sdk.unlearning.methods.blindspot import Blindspot, attention_difference, attention_map, last_features
from unplug.sdk.unlearning.methods.gaussian_amnesiac import GaussianAmnesiac, amnesiac

from .conftest import Case, changed, coloured, poisoned, watch, whole_batch


def test_attention_map_golden_and_features_without_a_hook(age_case: Case) -> None:
    # Channels (3, 0) and (0, 4) at two positions: mean squares 4.5 and 8, of length one (9, 16) / sqrt(337).
    x_BCHW = torch.tensor([[3.0, 0.0], [0.0, 4.0]]).view(1, 2, 1, 2)
    expected = [9 / 337**0.5, 16 / 337**0.5]
    assert attention_map(x_BCHW)[0].tolist() == pytest.approx(expected)
    assert torch.allclose(attention_map(-7 * x_BCHW), attention_map(x_BCHW))  # neither sign nor scale counts
    other = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).view(1, 2, 1, 2)
    by_hand = ((expected[0] - 1.0) ** 2 + expected[1] ** 2) / 2
    assert float(attention_difference(x_BCHW, other)) == pytest.approx(by_hand)
    model = age_case.model()
    with last_features(model) as seen:
        model(torch.zeros(2, 3, 32, 32))
    assert seen[0].shape[:2] == (2, 384)
    assert not any(module._forward_hooks for module in model.modules())


def test_the_blind_model_is_new_and_trained_without_the_forget_set(age_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = watch(monkeypatch, lambda number: number == 0)
    model = age_case.model()
    given = age_case.problem(budget=1.0, forget=poisoned(age_case.sets.forget))
    Blindspot(batch_size=16)(model, given)
    blind, student = (phase.model for phase in trained)
    assert student is model and not changed(model, age_case.original)
    assert changed(blind, age_case.original) >= {name for name, _ in blind.named_parameters()}


@pytest.mark.long
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


EDGES = tuple(map(float, AGE_EDGES))


def aged(count: int, mean: float, std: float, seed: int) -> ImageSet:
    age_N = mean + std * torch.randn(count, generator=torch.Generator().manual_seed(seed))
    return replace(coloured(count, seed), age_N=age_N)


def test_drawn_ages_have_the_law_of_the_retain_ages_and_joined_keeps_order() -> None:
    retain, forget = aged(300, 45.0, 7.0, seed=1), aged(2000, 3.0, 1.0, seed=2)
    drawn = amnesiac(forget, retain, EDGES, torch.Generator().manual_seed(0))
    assert float(drawn.age_N.mean()) == pytest.approx(float(retain.age_N.mean()), abs=4 * 7 / 2000**0.5)
    assert float(drawn.age_N.std()) == pytest.approx(float(retain.age_N.std()), rel=0.08)
    ranked = ((drawn.age_N - drawn.age_N.mean()) / drawn.age_N.std()).sort().values
    normal = torch.distributions.Normal(0.0, 1.0).icdf((torch.arange(2000) + 0.5) / 2000)
    assert (ranked - normal)[100:-100].abs().max() < 0.12  # a Gaussian, not merely its moments
    assert drawn.group_N.tolist() == age_groups(drawn.age_N.numpy(), EDGES).tolist()
    assert torch.equal(drawn.image_NCHW, forget.image_NCHW) and drawn.ids == forget.ids
    one, other = whole_batch(aged(3, 20.0, 1.0, seed=1)), whole_batch(aged(2, 60.0, 1.0, seed=2))
    both = joined(one, other)
    assert len(both) == 5 and torch.equal(both.age_B, torch.cat([one.age_B, other.age_B]))
    assert torch.equal(both.image_BCHW[3:], other.image_BCHW) and torch.equal(both.group_B[:3], one.group_B)


@pytest.mark.long
def test_forget_predictions_move_towards_the_retain_mean(age_case: Case) -> None:
    """Where the drawn ages say nothing of the images, the best answer is their mean."""
    given = age_case.problem(budget=1.5, forget=age_case.sets.train.subset(range(16)))
    old = replace(
        given.retain, age_N=torch.full_like(given.retain.age_N, 90.0), group_N=torch.full_like(given.retain.group_N, 9)
    )
    model = GaussianAmnesiac(batch_size=16)(age_case.model(), replace(given, retain=old))
    image = whole_batch(given.forget).image_BCHW
    with torch.no_grad():
        assert model(image)["expected_age"].mean() > age_case.original(image)["expected_age"].mean() + 5.0
