"""KLoM: by hand, against a loop, 0 and infinity kept away, and the null beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.auditing import klom, years_from_oracle
from unplug.sdk.auditing.klom_metric import divergence

Array = NDArray[np.float64]


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
    assert divergence(own[:, None], oracle[:, None])[0] == pytest.approx(slow_divergence(own, oracle))


def test_goldens_of_divergence_and_years() -> None:
    # Two models a side, in the first and in the last bin: (2.05 ln(2.05/.05) + .05 ln(.05/2.05)) / 3.
    by_hand = (2.05 * math.log(41) - 0.05 * math.log(41)) / 3
    assert divergence(np.array([[0.0], [0.0]]), np.array([[1.0], [1.0]]))[0] == pytest.approx(by_hand)
    assert divergence(np.ones((3, 1)), np.ones((3, 1)))[0] == 0.0
    # Retrained models say 28, 30, 32 and 34; halves of two have means from 29 to 33. Unlearned ones say 40.
    oracle = np.array([[28.0], [30.0], [32.0], [34.0]]).repeat(3, axis=1)
    found = years_from_oracle(np.full((4, 3), 40.0), oracle, replicates=300)
    assert found.unlearned.value == pytest.approx(9.0, abs=0.3)  # 40 - 31, over random halves
    # Against the other half {a, b} of mean m: |28-31| ... for the three ways to split: 4, 2 and 2, 4 years a side.
    splits = [((28, 30), (32, 34)), ((28, 32), (30, 34)), ((28, 34), (30, 32))]
    by_hand = np.mean([np.abs(np.array(one) - np.mean(two)).mean() for pair in splits for one, two in (pair, pair[::-1])])
    assert found.oracle.value == pytest.approx(by_hand, abs=0.25)
    with pytest.raises(InputError, match="not numbers"):
        years_from_oracle(np.full((4, 3), np.nan), np.zeros((4, 3)))


def test_klom_of_equal_populations_is_its_null_and_grows_with_the_shift() -> None:
    rng = np.random.default_rng(0)
    own, oracle = rng.normal(size=(40, 60)), rng.normal(size=(40, 60))
    same = klom(own, oracle, replicates=40)
    assert same.mean.unlearned.value == pytest.approx(same.mean.oracle.value, abs=0.05)
    assert same.mean.unlearned.low is not None and same.mean.unlearned.high is not None
    assert same.mean.unlearned.low < same.mean.oracle.value < same.mean.unlearned.high
    assert same.mean.oracle.value > 0.05, "the plug-in KL of few models is not 0"
    values = [klom(own + shift, oracle, replicates=10) for shift in (0.5, 1.0, 2.0)]
    assert [item.mean.unlearned.value for item in values] == sorted(item.mean.unlearned.value for item in values)
    last = values[-1].mean
    assert last.unlearned.low is not None and last.oracle.high is not None and last.unlearned.low > last.oracle.high + 0.5
    assert same.per_side == 20 and (same.mean.models, same.mean.samples) == (40, 60)


def test_p95_finds_the_few_samples_that_were_not_forgotten() -> None:
    rng = np.random.default_rng(1)
    own, oracle = rng.normal(size=(40, 100)), rng.normal(size=(40, 100))
    own[:, :10] += 5.0
    found = klom(own, oracle, replicates=20)
    assert found.p95.unlearned.value > 2 * found.p95.oracle.value
    assert found.p95.unlearned.value > found.mean.unlearned.value
