"""Populations of models: online LiRA, uLiRA, RMIA, KLoM; by hand, against loops, at chance where
there is nothing to find.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from benchmarks.studies.leaderboard.half_samples import draw_halves, weighted_mean, weighted_p95
from benchmarks.studies.leaderboard.klom_metric import divergence, klom, years_from_oracle
from benchmarks.studies.leaderboard.population import (
    held_out_pairs,
    lira_online,
    rmia_population,
    ulira,
)
from numpy.typing import NDArray
from tests.intervals import ends
from tests.sdk.evidence.auditing.planted import says

from unplug.core import InputError
from unplug.sdk.evidence.auditing import ATTACKS, Signals
from unplug.sdk.evidence.statistics import auc
from unplug.sdk.learning.training import ClassPredictions

pytestmark = pytest.mark.study

Array = NDArray[np.float64]
F, U = 80, 100
GOLDEN = Path(__file__).parents[2] / "sdk" / "evidence" / "auditing" / "golden_attacks.json"


def test_lira_online_by_hand_and_with_too_few_models() -> None:
    # In: 3 and 5 (mean 4, variance 2); out: -1 and 1 (mean 0, variance 2). NaN is on the other
    # side.
    nan = math.nan
    inside, outside = (
        np.array([[3.0], [5.0], [nan], [nan]]),
        np.array([[nan], [nan], [-1.0], [1.0]]),
    )
    by_hand = math.log(NormalDist(4, math.sqrt(2)).pdf(3) / NormalDist(0, math.sqrt(2)).pdf(3))
    np.testing.assert_allclose(lira_online(np.array([3.0]), inside, outside), [by_hand])
    with pytest.raises(InputError, match="fewer than two models"):
        lira_online(np.zeros(1), np.array([[1.0], [np.nan]]), np.zeros((2, 1)))


@pytest.mark.parametrize("models", [6, 64])
def test_online_lira_is_tensorflow_privacys_but_for_the_degrees_of_freedom(models: int) -> None:
    """Theirs divides by n where ours divides by n - 1: with their variance put back, the scores are
    the same numbers.
    """
    rows = json.loads(GOLDEN.read_text())[f"lira-{models}"]
    target_S, in_MS, out_MS = (np.array(rows[name]) for name in ("target", "in", "out"))
    shrink = np.sqrt((models - 1) / models)  # of every deviation, so that our variance is theirs
    sides = [side.mean(axis=0) + shrink * (side - side.mean(axis=0)) for side in (in_MS, out_MS)]
    np.testing.assert_allclose(-lira_online(target_S, *sides), rows["scores"], rtol=1e-9, atol=1e-9)
    ours, theirs = -lira_online(target_S, in_MS, out_MS), np.array(rows["scores"])
    assert (np.argsort(ours) == np.argsort(theirs)).all()


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
        result = ulira(own, never, replicates=25, seed=seed).auc
        values.append(result.unlearned.value)
        low, high = ends(result.unlearned)
        covered += low <= 0.5 <= high
        assert result.oracle.value == pytest.approx(0.5, abs=0.09)
    assert np.mean(values) == pytest.approx(0.5, abs=0.04)
    assert covered >= 25  # Binomial(30, .95) is below 25 once in 300


def test_ulira_rises_with_what_is_left_and_sees_a_narrower_population() -> None:
    rng = np.random.default_rng(4)
    base, never = rng.normal(size=(32, 40)), rng.normal(size=(32, 40))
    curve = [ulira(base + shift, never, replicates=20) for shift in (0.5, 1.0, 2.0, 4.0)]
    values = [result.auc.unlearned.value for result in curve]
    assert values == sorted(values)
    area, accuracy = curve[2].auc, curve[2].accuracy
    assert area.unlearned.value == pytest.approx(NormalDist().cdf(2 / math.sqrt(2)), abs=0.03)
    assert accuracy.unlearned.value == pytest.approx(NormalDist().cdf(1.0), abs=0.03)
    assert ends(area.unlearned)[0] > ends(area.oracle)[1]
    assert (area.models, area.oracle_models, area.samples, curve[2].per_side) == (32, 32, 40, 16)
    # Over-forgetting to one fixed answer: an attack on means alone finds nothing.
    rng = np.random.default_rng(5)
    narrow = ulira(rng.normal(0, 0.2, (32, 30)), rng.normal(0, 1, (32, 30)), replicates=10)
    assert narrow.accuracy.unlearned.value > 0.75
    with pytest.raises(InputError, match="6 unlearned"):
        ulira(np.zeros((5, 3)), np.zeros((9, 3)))
    twice = rng.normal(0, 1, (32, 30))
    twice[7] = twice[2]
    with pytest.raises(InputError, match="numbers 3 and 8 say the same of every sample"):
        ulira(rng.normal(0, 1, (32, 30)), twice, replicates=10)


def test_halves_and_their_weights() -> None:
    seen = []

    def note(one: Array, two: Array) -> Array:
        seen.append((set(one[:, 0]), set(two[:, 0])))
        return np.zeros(one.shape[1])

    own, retrained = 100.0 + np.arange(20.0)[:, None], np.arange(9.0)[:, None]
    assert draw_halves(note, own, retrained, None, draws=10, seed=0).per_side == 4
    for pair, null in zip(seen[::2], seen[1::2], strict=True):
        assert min(pair[0]) >= 100 and pair[1] == null[1] and not null[0] & null[1]
        assert len(pair[0]) == len(pair[1]) == len(null[0]) == 4
    value = np.arange(1.0, 21.0)[None]
    assert weighted_p95(value, np.ones((1, 20)))[0] == 19.0
    assert weighted_p95(value, np.r_[np.ones(10), np.zeros(10)][None])[0] == 10.0
    assert weighted_mean(value, np.ones((1, 20)))[0] == 10.5


def model(seed: int, shift: float = 0.0) -> Signals:
    def part(number: int, count: int, gain: float) -> ClassPredictions:
        base = np.random.default_rng([1, number]).normal(0, 2, count)
        return says(base + gain + np.random.default_rng([seed, number, 5]).normal(0, 0.5, count))

    forget, unseen, population, retain = (
        part(number, count, gain)
        for number, (count, gain) in enumerate(((F, shift), (U, 0), (90, 0), (50, 1)))
    )
    return Signals(forget=forget, unseen=unseen, population=population, retain=retain)


def mean_of_the_others(models: Sequence[Signals], retrained: Sequence[Signals]) -> float:
    """The definition: each model against all retrained ones but that of its number."""
    attack = ATTACKS.get("rmia")()
    scores = [
        attack(target, [*retrained[:number], *retrained[number + 1 :]])
        for number, target in enumerate(models)
    ]
    return float(np.mean([auc(*pair) for pair in scores]))


def test_rmia_population_golden_and_ordered() -> None:
    retrained = [model(n) for n in range(4)]
    unlearned = [model(10 + n, 0.5) for n in range(3)]
    people, original = (np.arange(F), np.arange(U)), [model(30, 3.0)]
    result = rmia_population(
        unlearned, retrained, *people, original=original, replicates=60, seed=1
    )
    assert result.oracle.value == pytest.approx(mean_of_the_others(retrained, retrained))
    assert result.unlearned.value == pytest.approx(mean_of_the_others(unlearned, retrained))
    assert result.original is not None
    assert result.oracle.value < result.unlearned.value < result.original.value
    for estimate in (result.oracle, result.unlearned, result.original):
        low, high = ends(estimate)
        assert low < estimate.value < high
    assert (result.models, result.oracle_models, result.samples) == (3, 4, F)
    assert abs(result.oracle.value - 0.5) < 0.06
    with pytest.raises(InputError, match="Give at least 1 and 3"):
        rmia_population([model(1)], [model(2), model(3)], *people)


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
    by_hand = slow_divergence(own, oracle)
    assert divergence(own[:, None], oracle[:, None])[0] == pytest.approx(by_hand)


def test_goldens_of_divergence_and_years() -> None:
    # Two models a side, in the first and in the last bin: (2.05 ln(2.05/.05) + .05 ln(.05/2.05)) /
    # 3.
    by_hand = (2.05 * math.log(41) - 0.05 * math.log(41)) / 3
    apart = np.array([[0.0], [0.0]]), np.array([[1.0], [1.0]])
    assert divergence(*apart)[0] == pytest.approx(by_hand)
    assert divergence(np.ones((3, 1)), np.ones((3, 1)))[0] == 0.0
    # Retrained models say 28, 30, 32 and 34; halves of two have means from 29 to 33. Unlearned ones
    # say 40.
    oracle = np.array([[28.0], [30.0], [32.0], [34.0]]).repeat(3, axis=1)
    years = years_from_oracle(np.full((4, 3), 40.0), oracle, replicates=300)
    assert years.unlearned.value == pytest.approx(9.0, abs=0.3)  # 40 - 31, over random halves
    # Against the other half {a, b} of mean m: |28-31| ... for the three ways to split: 4, 2 and 2,
    # 4 years a side.
    halves = [((28, 30), (32, 34)), ((28, 32), (30, 34)), ((28, 34), (30, 32))]
    pairs = [pair for split in halves for pair in (split, split[::-1])]
    by_hand = np.mean([np.abs(np.array(one) - np.mean(two)).mean() for one, two in pairs])
    assert years.oracle.value == pytest.approx(by_hand, abs=0.25)
    with pytest.raises(InputError, match="not numbers"):
        years_from_oracle(np.full((4, 3), np.nan), np.zeros((4, 3)))


def test_klom_is_its_null_grows_with_the_shift_and_finds_the_few() -> None:
    rng = np.random.default_rng(0)
    own, oracle = rng.normal(size=(40, 60)), rng.normal(size=(40, 60))
    same = klom(own, oracle, replicates=40)
    assert same.mean.unlearned.value == pytest.approx(same.mean.oracle.value, abs=0.05)
    low, high = ends(same.mean.unlearned)
    assert low < same.mean.oracle.value < high
    assert same.mean.oracle.value > 0.05, "the plug-in KL of few models is not 0"
    assert same.per_side == 20 and (same.mean.models, same.mean.samples) == (40, 60)
    curve = [klom(own + shift, oracle, replicates=10).mean for shift in (0.5, 1.0, 2.0)]
    values = [comparison.unlearned.value for comparison in curve]
    assert values == sorted(values)
    assert ends(curve[-1].unlearned)[0] > ends(curve[-1].oracle)[1] + 0.5
    rng = np.random.default_rng(1)
    own, oracle = rng.normal(size=(40, 100)), rng.normal(size=(40, 100))
    own[:, :10] += 5.0
    few = klom(own, oracle, replicates=20)
    assert few.p95.unlearned.value > 2 * few.p95.oracle.value
    assert few.p95.unlearned.value > few.mean.unlearned.value
