"""Gaussian-Amnesiac: whose Gaussian, which groups, which images."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from unplug.plugins import AGE_EDGES
from unplug.sdk.training import ImageSet, joined
from unplug.sdk.training.images import age_groups
from unplug.sdk.unlearning.methods.gaussian_amnesiac import GaussianAmnesiac, amnesiac

from .conftest import Case, changed, coloured, whole_batch

EDGES = tuple(map(float, AGE_EDGES))


def aged(count: int, mean: float, std: float, seed: int) -> ImageSet:
    age_N = mean + std * torch.randn(count, generator=torch.Generator().manual_seed(seed))
    return replace(coloured(count, seed), age_N=age_N)


def test_forget_ages_have_the_mean_and_deviation_of_the_retain_ages() -> None:
    retain, forget = aged(300, 45.0, 7.0, seed=1), aged(2000, 3.0, 1.0, seed=2)
    drawn = amnesiac(forget, retain, EDGES, torch.Generator().manual_seed(0))
    assert float(drawn.age_N.mean()) == pytest.approx(float(retain.age_N.mean()), abs=4 * 7 / 2000**0.5)
    assert float(drawn.age_N.std()) == pytest.approx(float(retain.age_N.std()), rel=0.08)
    ranked = ((drawn.age_N - drawn.age_N.mean()) / drawn.age_N.std()).sort().values
    normal = torch.distributions.Normal(0.0, 1.0).icdf((torch.arange(2000) + 0.5) / 2000)
    assert (ranked - normal)[100:-100].abs().max() < 0.12  # a Gaussian, not merely its moments
    assert drawn.group_N.tolist() == age_groups(drawn.age_N.numpy(), EDGES).tolist()
    assert torch.equal(drawn.image_NCHW, forget.image_NCHW) and drawn.ids == forget.ids


def test_the_true_forget_ages_make_no_difference(age_case: Case) -> None:
    forget = age_case.sets.forget
    wrong = replace(forget, age_N=torch.full_like(forget.age_N, 99.0), group_N=torch.zeros_like(forget.group_N))
    method = GaussianAmnesiac(batch_size=16)
    runs = [method(age_case.model(), age_case.problem(forget=data)) for data in (forget, wrong)]
    assert not changed(*runs)


def test_joined_keeps_order() -> None:
    one, other = whole_batch(aged(3, 20.0, 1.0, seed=1)), whole_batch(aged(2, 60.0, 1.0, seed=2))
    both = joined(one, other)
    assert len(both) == 5 and torch.equal(both.age_B, torch.cat([one.age_B, other.age_B]))
    assert torch.equal(both.image_BCHW[3:], other.image_BCHW) and torch.equal(both.group_B[:3], one.group_B)


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
