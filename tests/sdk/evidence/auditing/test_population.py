"""Populations of models: uLiRA, RMIA, KLoM, relearn time; by hand, against loops, at chance where
there is nothing to find.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.evidence.auditing import Signals, klom, rmia_population, ulira, years_from_oracle
from unplug.sdk.evidence.auditing.attacks.rmia import RMIA
from unplug.sdk.evidence.auditing.half_samples import draw_halves, weighted_mean, weighted_p95
from unplug.sdk.evidence.auditing.klom_metric import divergence
from unplug.sdk.evidence.auditing.population import held_out_pairs, lira_online
from unplug.sdk.evidence.auditing.relearning import Censored, RelearnTime, forget_loss, relearn
from unplug.sdk.evidence.statistics import auc
from unplug.sdk.forgetting.tasks import ClassTask
from unplug.sdk.learning.training import ClassPredictions, ImageSet, Recipe

from .planted import says

Array = NDArray[np.float64]


def test_lira_online_by_hand_and_with_too_few_models() -> None:
    # In: 3 and 5 (mean 4, variance 2); out: -1 and 1 (mean 0, variance 2). NaN is on the other
    # side.
    nan = math.nan
    score = lira_online(
        np.array([3.0]),
        np.array([[3.0], [5.0], [nan], [nan]]),
        np.array([[nan], [nan], [-1.0], [1.0]]),
    )
    by_hand = math.log(NormalDist(4, math.sqrt(2)).pdf(3) / NormalDist(0, math.sqrt(2)).pdf(3))
    np.testing.assert_allclose(score, [by_hand])
    with pytest.raises(InputError, match="fewer than two models"):
        lira_online(np.zeros(1), np.array([[1.0], [np.nan]]), np.zeros((2, 1)))


def slow_pairs(own: Array, other: Array) -> tuple[float, float]:
    """One sample, all pairs: refit without both, then ask which is which. Variance is the sample's
    own: the only sample.
    """
    wins = right = 0.0
    for u in range(len(own)):
        for v in range(len(other)):
            one, two = np.delete(own, u), np.delete(other, v)
            fits = NormalDist(one.mean(), one.std(ddof=1)), NormalDist(two.mean(), two.std(ddof=1))
            p_u, p_v = (
                fits[0].pdf(x) / (fits[0].pdf(x) + fits[1].pdf(x)) for x in (own[u], other[v])
            )
            wins += (p_u > p_v) + 0.5 * (p_u == p_v)
            right += ((p_u > 0.5) + (p_v <= 0.5)) / 2
    return wins / len(own) / len(other), right / len(own) / len(other)


@pytest.mark.parametrize("seed", range(2))
def test_held_out_pairs_equal_the_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, other = rng.normal(0.7, 1.0, 7), rng.normal(0.0, 1.5, 7)
    np.testing.assert_allclose(held_out_pairs(own[:, None], other[:, None]), slow_pairs(own, other))


@pytest.mark.long
def test_ulira_is_at_chance_on_equal_populations() -> None:
    """Leaving out one model at a time would give about .4 here; pairs give .5, and the intervals
    hold it.
    """
    values, covered = [], 0
    for seed in range(30):
        rng = np.random.default_rng([seed, 3])
        own, never = (rng.normal(size=(12, 15)) + 0.5 * rng.normal(size=(12, 1)) for _ in range(2))
        found = ulira(own, never, replicates=25, seed=seed).auc
        values.append(found.unlearned.value)
        assert found.unlearned.low is not None and found.unlearned.high is not None
        covered += found.unlearned.low <= 0.5 <= found.unlearned.high
        assert found.oracle.value == pytest.approx(0.5, abs=0.09)
    assert np.mean(values) == pytest.approx(0.5, abs=0.04)
    assert covered >= 25  # Binomial(30, .95) is below 25 once in 300


def test_ulira_rises_with_what_is_left_and_sees_a_narrower_population() -> None:
    rng = np.random.default_rng(4)
    base, never = rng.normal(size=(32, 40)), rng.normal(size=(32, 40))
    curve = [ulira(base + shift, never, replicates=20) for shift in (0.5, 1.0, 2.0, 4.0)]
    assert [item.auc.unlearned.value for item in curve] == sorted(
        item.auc.unlearned.value for item in curve
    )
    last = curve[2]
    assert last.auc.unlearned.value == pytest.approx(NormalDist().cdf(2 / math.sqrt(2)), abs=0.03)
    assert last.accuracy.unlearned.value == pytest.approx(NormalDist().cdf(1.0), abs=0.03)
    assert last.auc.unlearned.low is not None and last.auc.oracle.high is not None
    assert last.auc.unlearned.low > last.auc.oracle.high
    assert (last.auc.models, last.auc.oracle_models, last.auc.samples, last.per_side) == (
        32,
        32,
        40,
        16,
    )
    # Over-forgetting to one fixed answer: an attack on means alone finds nothing.
    rng = np.random.default_rng(5)
    found = ulira(rng.normal(0, 0.2, (32, 30)), rng.normal(0, 1, (32, 30)), replicates=10)
    assert found.accuracy.unlearned.value > 0.75
    with pytest.raises(InputError, match="6 unlearned"):
        ulira(np.zeros((5, 3)), np.zeros((9, 3)))
    twice = rng.normal(0, 1, (32, 30))
    twice[7] = twice[2]
    with pytest.raises(
        InputError, match="numbers 3 and 8 say the same of every sample: one model given twice"
    ):
        ulira(rng.normal(0, 1, (32, 30)), twice, replicates=10)


def test_halves_and_their_weights() -> None:
    seen = []

    def note(one: Array, two: Array) -> Array:
        seen.append((set(one[:, 0]), set(two[:, 0])))
        return np.zeros(one.shape[1])

    retrained = np.arange(9.0)[:, None]
    assert (
        draw_halves(
            note, 100.0 + np.arange(20.0)[:, None], retrained, None, draws=10, seed=0
        ).per_side
        == 4
    )
    for own, null in zip(seen[::2], seen[1::2], strict=True):
        assert min(own[0]) >= 100 and own[1] == null[1] and not null[0] & null[1]
        assert len(own[0]) == len(own[1]) == len(null[0]) == 4
    value = np.arange(1.0, 21.0)[None]
    assert weighted_p95(value, np.ones((1, 20)))[0] == 19.0
    assert weighted_p95(value, np.r_[np.ones(10), np.zeros(10)][None])[0] == 10.0
    assert weighted_mean(value, np.ones((1, 20)))[0] == 10.5


# RMIA of a population

F, U = 80, 100


def model(seed: int, shift: float = 0.0) -> Signals:
    def part(number: int, count: int, gain: float) -> ClassPredictions:
        base = np.random.default_rng([1, number]).normal(0, 2, count)
        return says(base + gain + np.random.default_rng([seed, number, 5]).normal(0, 0.5, count))

    return Signals(
        forget=part(0, F, shift),
        unseen=part(1, U, 0),
        population=part(2, 90, 0),
        retain=part(3, 50, 1),
    )


def leave_one_out(models: Sequence[Signals]) -> list[float]:
    return [auc(*RMIA()(item, [*models[:n], *models[n + 1 :]])) for n, item in enumerate(models)]


def test_rmia_population_golden_and_ordered() -> None:
    retrained = [model(n) for n in range(4)]
    unlearned = [model(10 + n, 0.5) for n in range(3)]
    found = rmia_population(
        unlearned,
        retrained,
        np.arange(F),
        np.arange(U),
        original=[model(30, 3.0)],
        replicates=60,
        seed=1,
    )
    assert found.oracle.value == pytest.approx(np.mean(leave_one_out(retrained)))
    by_hand = [
        auc(*RMIA()(item, [*retrained[:n], *retrained[n + 1 :]]))
        for n, item in enumerate(unlearned)
    ]
    assert found.unlearned.value == pytest.approx(np.mean(by_hand))
    assert found.original is not None
    assert found.oracle.value < found.unlearned.value < found.original.value
    for item in (found.oracle, found.unlearned, found.original):
        assert item.low is not None and item.high is not None and item.low < item.value < item.high
    assert (found.models, found.oracle_models, found.samples) == (3, 4, F)
    assert abs(found.oracle.value - 0.5) < 0.06
    with pytest.raises(InputError, match="Give at least 1 and 3"):
        rmia_population([model(1)], [model(2), model(3)], np.arange(F), np.arange(U))


def slow_divergence(own: Array, oracle: Array) -> float:
    """One sample, bin by bin."""
    own, oracle = np.clip(own, -50, 50), np.clip(oracle, -50, 50)
    edges = np.linspace(min(own.min(), oracle.min()), max(own.max(), oracle.max()), 21)
    total = 0.0
    for position in range(20):
        last = position == 19
        share = []
        for phi in (oracle, own):
            count = sum(edges[position] <= x and (x < edges[position + 1] or last) for x in phi)
            share.append((count + 1 / 20) / (len(phi) + 1))
        total += share[0] * math.log(share[0] / share[1])
    return total


@pytest.mark.parametrize("seed", range(2))
def test_divergence_equals_the_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, oracle = rng.normal(seed, 1 + seed, 30), rng.normal(0, 1, 30)
    own[0] = 1e4 if seed % 2 else 0.0
    assert divergence(own[:, None], oracle[:, None])[0] == pytest.approx(
        slow_divergence(own, oracle)
    )


def test_goldens_of_divergence_and_years() -> None:
    # Two models a side, in the first and in the last bin: (2.05 ln(2.05/.05) + .05 ln(.05/2.05)) /
    # 3.
    by_hand = (2.05 * math.log(41) - 0.05 * math.log(41)) / 3
    assert divergence(np.array([[0.0], [0.0]]), np.array([[1.0], [1.0]]))[0] == pytest.approx(
        by_hand
    )
    assert divergence(np.ones((3, 1)), np.ones((3, 1)))[0] == 0.0
    # Retrained models say 28, 30, 32 and 34; halves of two have means from 29 to 33. Unlearned ones
    # say 40.
    oracle = np.array([[28.0], [30.0], [32.0], [34.0]]).repeat(3, axis=1)
    found = years_from_oracle(np.full((4, 3), 40.0), oracle, replicates=300)
    assert found.unlearned.value == pytest.approx(9.0, abs=0.3)  # 40 - 31, over random halves
    # Against the other half {a, b} of mean m: |28-31| ... for the three ways to split: 4, 2 and 2,
    # 4 years a side.
    splits = [((28, 30), (32, 34)), ((28, 32), (30, 34)), ((28, 34), (30, 32))]
    by_hand = np.mean(
        [
            np.abs(np.array(one) - np.mean(two)).mean()
            for pair in splits
            for one, two in (pair, pair[::-1])
        ]
    )
    assert found.oracle.value == pytest.approx(by_hand, abs=0.25)
    with pytest.raises(InputError, match="not numbers"):
        years_from_oracle(np.full((4, 3), np.nan), np.zeros((4, 3)))


def test_klom_is_its_null_grows_with_the_shift_and_finds_the_few() -> None:
    rng = np.random.default_rng(0)
    own, oracle = rng.normal(size=(40, 60)), rng.normal(size=(40, 60))
    same = klom(own, oracle, replicates=40)
    assert same.mean.unlearned.value == pytest.approx(same.mean.oracle.value, abs=0.05)
    assert same.mean.unlearned.low is not None and same.mean.unlearned.high is not None
    assert same.mean.unlearned.low < same.mean.oracle.value < same.mean.unlearned.high
    assert same.mean.oracle.value > 0.05, "the plug-in KL of few models is not 0"
    values = [klom(own + shift, oracle, replicates=10) for shift in (0.5, 1.0, 2.0)]
    assert [item.mean.unlearned.value for item in values] == sorted(
        item.mean.unlearned.value for item in values
    )
    last = values[-1].mean
    assert (
        last.unlearned.low is not None
        and last.oracle.high is not None
        and last.unlearned.low > last.oracle.high + 0.5
    )
    assert same.per_side == 20 and (same.mean.models, same.mean.samples) == (40, 60)
    rng = np.random.default_rng(1)
    own, oracle = rng.normal(size=(40, 100)), rng.normal(size=(40, 100))
    own[:, :10] += 5.0
    found = klom(own, oracle, replicates=20)
    assert found.p95.unlearned.value > 2 * found.p95.oracle.value
    assert found.p95.unlearned.value > found.mean.unlearned.value


class Tiny(nn.Module):
    """A linear classifier with batch norm in front, so that modes matter."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.norm, self.linear = nn.BatchNorm2d(3), nn.Linear(48, 4)

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        return {"logits": self.linear(self.norm(image_BCHW).flatten(1))}


def pictures(count: int = 24, seed: int = 0) -> ImageSet:
    generator = torch.Generator().manual_seed(seed)
    return ImageSet(
        ids=tuple(str(number) for number in range(count)),
        image_NCHW=torch.randint(0, 256, (count, 3, 4, 4), dtype=torch.uint8, generator=generator),
        age_N=torch.full((count,), float("nan")),
        group_N=torch.randint(0, 4, (count,), generator=generator),
        subject_N=np.arange(count),
    )


FORGET, TASK = pictures(), ClassTask.of(Recipe(size="resnet18", loss="ce"), classes=4)
SETTINGS = {"lr": 0.02, "batch_size": 8, "max_epochs": 40}


def run(model: nn.Module, target: float, **other: object) -> RelearnTime | Censored:
    return relearn([model], FORGET, TASK, target_loss=target, **{**SETTINGS, **other})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def original() -> nn.Module:
    """Knows the forget set by heart."""
    model = Tiny(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    batch = FORGET.batch(torch.arange(24))
    for _ in range(60):
        loss = TASK.loss(model, model(batch.image_BCHW), batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def test_forget_loss_and_student_interval_by_hand() -> None:
    model = Tiny(1)
    model.eval()
    batch = FORGET.batch(torch.arange(24))
    by_hand = float(
        nn.functional.cross_entropy(model(batch.image_BCHW)["logits"], FORGET.group_N).detach()
    )
    model.train()
    assert forget_loss(model, FORGET, TASK) == pytest.approx(by_hand, rel=1e-6)
    assert model.training, "the mode is put back"
    # Two models, one seed each: t(.975, 1) = 12.706, cut at 0.
    found = relearn(
        [Tiny(2), Tiny(3)], FORGET, TASK, target_loss=0.6, seeds=(0,), lr=0.02, batch_size=8
    )
    assert isinstance(found, RelearnTime)
    one, two = found.passes
    half = 12.7062 * abs(one - two) / math.sqrt(2) / math.sqrt(2)
    assert found.mean.high == pytest.approx((one + two) / 2 + half, rel=1e-4)
    assert found.mean.low == pytest.approx(max(0.0, (one + two) / 2 - half), rel=1e-4)


def test_an_original_needs_nothing_and_a_trace_saves_time(original: nn.Module) -> None:
    target = max(0.2, forget_loss(original, FORGET, TASK))
    stranger, trace = Tiny(5), copy.deepcopy(original)
    with torch.no_grad():
        trace.get_submodule("linear").weight.mul_(0.1)  # type: ignore[operator]
    at_once, soon, late = (run(model, target) for model in (original, trace, stranger))
    assert (
        isinstance(at_once, RelearnTime)
        and isinstance(soon, RelearnTime)
        and isinstance(late, RelearnTime)
    )
    assert at_once.passes == (0, 0, 0)
    assert 0 < soon.mean.value < late.mean.value
    assert len(late.passes) == 3 and all(item % 8 == 0 for item in late.passes)
    assert (
        late.mean.low is not None
        and late.mean.high is not None
        and late.mean.low <= late.mean.value <= late.mean.high
    )


def test_models_are_left_alone_seeds_repeat_and_bad_settings_are_refused() -> None:
    model = Tiny(2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    one, same, other = (run(model, 0.5, seeds=seeds) for seeds in ((1,), (1,), (7,)))
    assert one == same and isinstance(one, RelearnTime) and isinstance(other, RelearnTime)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert one.mean.low is None, "one run has no interval"
    with pytest.raises(InputError, match="no model"):
        relearn([], FORGET, TASK, target_loss=1.0)
    for settings in ({"lr": 0.0}, {"batch_size": 1}, {"max_epochs": 0}):
        with pytest.raises(InputError, match="Give at least 2"):
            run(Tiny(0), 1.0, **settings)
    with pytest.raises(InputError, match="finite target"):
        run(Tiny(0), float("nan"))
    one = replace(FORGET.subset([0]))
    with pytest.raises(InputError, match="1 samples"):
        relearn([Tiny(0)], one, TASK, target_loss=1.0)


def test_the_cap_gives_a_reason_instead_of_a_number(original: nn.Module) -> None:
    stopped = run(Tiny(5), 1e-6, max_epochs=2, seeds=(0, 1))
    assert isinstance(stopped, Censored)
    assert stopped.passes == (None, None) and stopped.cap == 48
    assert "2 of 2 runs" in stopped.reason and "48 sample passes" in stopped.reason
    target = forget_loss(original, FORGET, TASK)
    mixed = relearn(
        [original, Tiny(5)], FORGET, TASK, target_loss=target, seeds=(0,), lr=1e-6, max_epochs=1
    )
    assert isinstance(mixed, Censored) and mixed.passes == (0, None)
