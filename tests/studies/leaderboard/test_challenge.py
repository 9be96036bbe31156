"""The challenge's score: against loops, against the table of simulated Gaussians, and its null and
intervals.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from benchmarks.studies.leaderboard import challenge_metric
from benchmarks.studies.leaderboard.challenge_metric import (
    CAP,
    Variant,
    challenge,
    credits_of,
    epsilons,
    forgetting,
    forgetting_gap,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.intervals import ends

from unplug.core import InputError

pytestmark = pytest.mark.study

Array = NDArray[np.float64]
# Subnormal numbers apart: halfway between one and zero is zero, so the loops' thresholds cannot
# separate the two.
VALUES = st.lists(
    st.integers(-4, 4).map(float) | st.floats(-5, 5, allow_subnormal=False), min_size=2, max_size=9
).map(np.array)


def slow_epsilon(inside_positive: Array, inside_negative: Array) -> float | None:
    """One attack, from who is called positive; None where it is discarded."""
    false_positive = sum(inside_negative) / len(inside_negative)
    false_negative = sum(not item for item in inside_positive) / len(inside_positive)
    if false_positive == 0 and false_negative == 0:
        return math.inf
    if false_positive == 0 or false_negative == 0:
        return None
    values = []
    for p, n in ((false_positive, false_negative), (false_negative, false_positive)):
        if 1 - 1e-5 - p > 0:
            values.append(math.log(1 - 1e-5 - p) - math.log(n))
    return max(values) if values else None


def slow_spec(own: Array, other: Array) -> float:
    """Every window between neighbouring values, either population positive; single thresholds are
    windows open at one end.
    """
    pooled = sorted(set(own) | set(other))
    ends = [-math.inf, *((a + b) / 2 for a, b in itertools.pairwise(pooled)), math.inf]
    best = 0.0
    for position, low in enumerate(ends):
        for high in ends[position + 1 :]:
            for positive, negative in ((own, other), (other, own)):
                found = slow_epsilon(
                    (low < positive) & (positive < high), (low < negative) & (negative < high)
                )
                best = max(best, found or 0.0)
    return best


def slow_code(own: Array, other: Array) -> float:
    """The released attacks, one threshold and one window at a time."""
    if (
        max(np.ptp(own), np.ptp(other)) > 0
        and min(np.ptp(own), np.ptp(other)) / max(np.ptp(own), np.ptp(other)) < 0.01
    ):
        return 50.0
    best = 0.0
    positive, negative = (other, own) if np.median(other) > np.median(own) else (own, other)
    low, high = min(own.min(), other.min()), max(own.max(), other.max())
    for threshold in np.linspace(low, high, max(1, math.ceil((high - low) * 100))):
        best = max(
            best, slow_epsilon(positive >= threshold - 1e-9, negative >= threshold - 1e-9) or 0.0
        )
    positive, negative = (other, own) if np.ptp(own) >= np.ptp(other) else (own, other)
    for k in range(401):
        right = positive.max() - 2 + k / 100 + 1e-9
        left = positive.min() - 4 + (k + np.arange(401)) / 100 - 1e-9
        _, different = np.unique(
            np.searchsorted(np.sort(np.r_[own, other]), left), return_index=True
        )
        for threshold in left[different]:  # the others give the same windows
            inside = [(threshold <= item) & (item <= right) for item in (positive, negative)]
            best = max(best, slow_epsilon(*inside) or 0.0)
    return min(best, 50.0)


@settings(max_examples=60)
@given(VALUES, VALUES)
def test_spec_equals_the_loops(own: Array, other: Array) -> None:
    assert epsilons(own[:, None], other[:, None], "spec")[0] == pytest.approx(
        slow_spec(own, other), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(6))
def test_code_equals_the_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, other = (
        rng.normal(0.4 * seed, 1.0, 9).round(2 - seed % 2),
        rng.normal(0.0, 1.3, 8).round(2 - seed % 2),
    )
    assert epsilons(own[:, None], other[:, None])[0] == pytest.approx(
        slow_code(own, other), abs=1e-12
    )


@pytest.mark.parametrize("pairs", [1, 2**18])
def test_samples_do_not_touch_each_other(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, in parts or one by one: bit for bit the same, with ties, spread-out values and
    either side narrower.
    """
    monkeypatch.setattr(challenge_metric, "PAIRS", pairs)
    rng = np.random.default_rng(8)
    own, other = (
        rng.normal(0.3, rng.uniform(0.1, 6, 40), (13, 40)),
        rng.normal(0.0, rng.uniform(0.1, 6, 40), (11, 40)),
    )
    own[:, ::3], other[:, ::3] = own[:, ::3].round(1), other[:, ::3].round(1)
    own[:, 4], other[:, 5] = 1.0, 0.0
    single = [epsilons(own[:, [sample]], other[:, [sample]])[0] for sample in range(40)]
    np.testing.assert_array_equal(epsilons(own, other), single)
    assert len(set(single)) > 10


def test_goldens_of_epsilon_and_credits() -> None:
    # Two of four above the threshold against one of four: ln((1 - d - 1/4) / (1/2)), ln((1 - d -
    # 1/2) / (1/4)) = ln 2.
    own, other = np.array([0.0, 1.0, 5.0, 6.0]), np.array([2.0, 2.1, 2.2, 5.5])
    by_hand = max(math.log((0.75 - 1e-5) / 0.5), math.log((0.5 - 1e-5) / 0.25))
    assert slow_epsilon(own >= 3, other >= 3) == pytest.approx(by_hand)
    # Both rates 0 is infinite, in "code" 50; one 0 is no attack at all.
    apart = np.array([[0.0], [1.0]]), np.array([[5.0], [6.0]])
    assert epsilons(*apart, "spec")[0] == math.inf and epsilons(*apart, "code")[0] == CAP
    assert slow_epsilon(np.array([True, True]), np.array([True, False])) is None
    own, other = np.linspace(-10, 10, 8)[:, None], np.linspace(0, 0.1, 8)[:, None]
    assert epsilons(own, other, "code")[0] == CAP
    assert epsilons(np.zeros((8, 1)), np.zeros((8, 1)), "code")[0] == 0.0
    epsilon_S = np.array([-0.3, 0.0, 0.49, 0.5, 1.6, 5.99, 6.0, 6.49, 6.5, 40.0, np.inf])
    shared = [1.0, 1.0, 1.0, 0.5, 0.125, 2.0**-11]
    np.testing.assert_array_equal(credits_of(epsilon_S, "spec"), [*shared, *[2.0**-12] * 5])
    np.testing.assert_array_equal(
        credits_of(epsilon_S, "code"), [*shared, *[2.0**-12] * 2, *[2.0**-13] * 3]
    )
    assert forgetting(np.array([0.0, 0.5])) == 0.75


def gaussians(models: int, samples: int, shift: float, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng([seed, models])
    return rng.normal(shift, 1.0, (models, samples)), rng.normal(0.0, 1.0, (models, samples))


# (models, samples, shift, F published with the facts, +- of that simulation, F of 2,000 or 600
# samples here)
TABLE = [
    (64, 600, 0.0, 0.182, 0.012, 0.185),
    (64, 600, 0.25, 0.160, 0.012, 0.157),
    (64, 600, 0.5, 0.096, 0.020, 0.111),
    (64, 600, 1.0, 0.041, 0.010, 0.045),
    (512, 150, 0.0, 0.181, 0.025, 0.187),
]


@pytest.mark.parametrize(("models", "samples", "shift", "published", "apart", "here"), TABLE)
def test_code_on_gaussians(
    models: int, samples: int, shift: float, published: float, apart: float, here: float
) -> None:
    """The null and the large shift agree with the published table to its +-.01; two middle rows are
    .015 and .020 off.
    """
    epsilon_S = epsilons(*gaussians(models, samples, shift, 1))
    error = float(credits_of(epsilon_S).std()) / math.sqrt(samples)
    assert forgetting(epsilon_S) == pytest.approx(here, abs=max(4 * error, 0.004))
    assert here == pytest.approx(published, abs=apart)
    if shift == 0:
        # ln 5, or its neighbours ln 4 and ln 6
        assert math.exp(np.median(epsilon_S)) == pytest.approx(5.0, abs=1.01)


@pytest.mark.nightly
def test_every_window_makes_the_null_depend_on_the_number_of_models() -> None:
    """Why F is never read without a null of as many models a side: windows of the literal rule may
    be ever narrower.
    """
    few, many = (
        forgetting(epsilons(*gaussians(models, 60, 0.0, 2), "spec"), "spec") for models in (32, 256)
    )
    assert many < 0.07 < few < 0.12


@pytest.mark.long
@pytest.mark.parametrize("variant", ["spec", "code"])
def test_perfect_unlearning_has_a_ratio_of_one(variant: Variant) -> None:
    result = challenge(*gaussians(32, 120, 0.0, 3), variant=variant, replicates=30)
    low, high = ends(result.ratio)
    assert low < 1 < high and result.ratio.value == pytest.approx(1, abs=0.12)
    counts = result.models, result.oracle_models, result.null_models, result.samples
    assert counts == (32, 32, 16, 120)


def test_shifted_models_have_a_ratio_below_one_and_score_counts_utility() -> None:
    shifted = challenge(*gaussians(48, 120, 1.0, 4), replicates=30, utility=(0.9, 1.0, 0.8, 0.9))
    assert ends(shifted.ratio)[1] < 0.7
    assert shifted.score == pytest.approx(shifted.forgetting.value * 0.9 * 0.8 / 0.9)
    assert shifted.forgetting.value == forgetting(np.array(shifted.epsilon_S))
    assert challenge(*gaussians(48, 12, 1.0, 4), replicates=3).score is None
    own, other = gaussians(40, 30, 0.0, 5)
    assert challenge(own[:10], other, replicates=4).null_models == 5
    with pytest.raises(InputError, match="accuracy 0"):
        challenge(*gaussians(8, 4, 0.0, 7), utility=(0.5, 0.0, 0.5, 0.5), replicates=2)


@pytest.mark.long
def test_ratio_interval_covers_one_under_the_null() -> None:
    """30 pools of 24 + 24 models whose samples share a model's own offset, as those of real models
    do.
    """
    covered = 0
    for seed in range(30):
        rng = np.random.default_rng([seed, 9])
        own, other = (rng.normal(size=(24, 15)) + 0.5 * rng.normal(size=(24, 1)) for _ in range(2))
        low, high = ends(challenge(own, other, replicates=20, seed=seed).ratio)
        covered += low <= 1 <= high
    assert covered >= 25  # Binomial(30, .95) is below 25 once in 300


def test_gap_and_whole_subjects() -> None:
    rng = np.random.default_rng(3)
    near, far, never = (rng.normal(shift, 1.0, (12, 30)) for shift in (0.0, 2.0, 0.0))
    same = forgetting_gap(near, near, never, replicates=20)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    gap, back = (forgetting_gap(*pair, never, replicates=20) for pair in ((near, far), (far, near)))
    by_hand = [forgetting(epsilons(phi, never)) for phi in (near, far)]
    assert gap.value == pytest.approx(by_hand[0] - by_hand[1])
    assert ends(gap)[0] > 0.0, "two standard deviations apart must be told from none"
    assert back.value == pytest.approx(-gap.value) and ends(back)[1] == pytest.approx(-ends(gap)[0])
    halved = forgetting_gap(near, far, never, factors=(0.0, 1.0), replicates=20)
    assert halved.value == pytest.approx(-forgetting(epsilons(far, never)))
    own, other = gaussians(32, 20, 0.3, 6)
    copies = np.repeat(np.arange(20), 6)
    single, person = (
        challenge(own[:, copies], other[:, copies], subjects, replicates=40, seed=1).ratio
        for subjects in (None, copies)
    )
    assert np.ptp(ends(person)) > np.ptp(ends(single))


@pytest.mark.parametrize(
    ("own", "other", "match"),
    [
        (np.zeros((1, 3)), np.zeros((8, 3)), "1 unlearned and 8 retrained"),
        (np.zeros((4, 3)), np.zeros((3, 3)), "4 unlearned and 3 retrained"),
        (np.zeros((4, 3)), np.zeros((8, 2)), "same samples"),
        (np.full((4, 3), np.nan), np.zeros((8, 3)), "not numbers"),
    ],
)
def test_populations_that_say_nothing_are_refused(own: Array, other: Array, match: str) -> None:
    with pytest.raises(InputError, match=match):
        challenge(own, other)
