"""Latency statistics against values worked out by hand, numpy's percentiles and a simulation;
counters of energy.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import Estimate
from unplug.mobile_bench import (
    drift,
    outlier_share,
    relative_spread,
    summarize,
    throttling,
    typical_latency,
)
from unplug.mobile_bench.devices.host_child import ProcessMeter
from unplug.mobile_bench.sustained import windows


def test_golden_summary() -> None:
    # sorted: 1 2 3 4 10; places of p50, p90, p95: 2, 3.6, 3.8; mean 4; squares 9 4 1 0 36, sum 50,
    # / 4 = 12.5
    told = summarize([4.0, 1.0, 10.0, 3.0, 2.0])
    assert (told.count, told.p50, told.min, told.max, told.mean) == (5, 3.0, 1.0, 10.0, 4.0)
    wanted = [4 + 0.6 * 6, 4 + 0.8 * 6, 12.5**0.5]
    assert [told.p90, told.p95, told.std] == pytest.approx(wanted)
    one = summarize([2.0])
    assert (one.p50, one.p95, one.std, one.p99) == (2.0, 2.0, 0.0, None)
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


def test_p99_needs_a_thousand_samples() -> None:
    assert summarize(list(range(999))).p99 is None
    assert summarize(list(range(1000))).p99 == pytest.approx(989.01)


@pytest.mark.parametrize(
    ("medians", "spread"), [([2.0], 0.0), ([0.0, 1.0], None), ([1.2, 1.0, 1.1], 0.2)]
)
def test_spread(medians: list[float], spread: float | None) -> None:
    assert relative_spread(medians) == (spread and pytest.approx(spread))


def test_golden_typical_latency() -> None:
    """R = 3, logs 0, 0.1, 0.2: mean 0.1, s = 0.1, t(2) = 4.30265, half width 4.30265 * 0.1 /
    sqrt(3).
    """
    typical = typical_latency(np.exp([0.0, 0.1, 0.2]).tolist())
    assert typical is not None and typical.ends is not None
    half = 4.302653 * 0.1 / math.sqrt(3)
    logs = [math.log(value) for value in (typical.value, *typical.ends)]
    assert logs == pytest.approx([0.1, 0.1 - half, 0.1 + half])
    assert typical_latency([2.0]) == Estimate(value=pytest.approx(2.0), low=None, high=None)
    assert typical_latency([0.0, 1.0]) is None, "a clock that is too coarse"


NOISE = {"quiet": (0.004, 0.01, 0.0), "usual": (0.015, 0.04, 0.05), "wild": (0.06, 0.10, 0.15)}
"""Spread between cold starts (clock, memory), spread of runs, and share of those that take half as
long again.
"""


def medians(generator: np.random.Generator, repeats: int, noise: str) -> np.ndarray:
    """Of R cold starts of 50 runs around 1 ms."""
    between, within, bursts = NOISE[noise]
    centres = np.exp(generator.normal(0.0, between, (repeats, 1)))
    runs = centres * np.exp(generator.normal(0.0, within, (repeats, 50)))
    return np.median(runs * (1.0 + 0.5 * (generator.random(runs.shape) < bursts)), axis=1)


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_the_interval_covers_in_93_to_97_percent(noise: str, repeats: int) -> None:
    """2,000 simulated benchmarks: the standard error of their share is 0.5 %. The truth is that of
    200,000 cold starts.
    """
    generator, covered = np.random.default_rng(7), 0
    truth = float(np.exp(np.mean(np.log(medians(generator, 200_000, noise)))))
    for _ in range(2000):
        typical = typical_latency(medians(generator, repeats, noise).tolist())
        assert typical is not None and typical.ends is not None
        covered += typical.ends[0] <= truth <= typical.ends[1]
    assert 0.93 <= covered / 2000 <= 0.97


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=20), st.floats(1e-3, 1e3))
def test_the_interval_scales_with_the_clock(medians: list[float], factor: float) -> None:
    one, other = typical_latency(medians), typical_latency([factor * value for value in medians])
    assert one is not None and other is not None and one.ends is not None
    assert other.value == pytest.approx(factor * one.value)
    assert one.ends[0] <= one.value <= one.ends[1]


STEADY = [1.0 + 0.01 * (step % 3) for step in range(60)]
SPIKED = [100.0 if step in (50, 55) else value for step, value in enumerate(STEADY)]
SLOWER = [value * (1.0 + 0.3 * step / 59) for step, value in enumerate(STEADY)]


@pytest.mark.parametrize(
    ("latencies", "share"),
    [
        (STEADY, pytest.approx(0.0, abs=0.01)),
        (SPIKED, pytest.approx(0.0, abs=0.01)),
        # 30 % of the first is 26 % of the median
        (SLOWER, pytest.approx(0.3 / 1.15, rel=0.1)),
        (np.linspace(1.0, 1.2, 50_000).tolist(), pytest.approx(0.2 / 1.1, rel=0.01)),
        ([1.0] * 7, None),
        ([0.0] * 20, None),
    ],
)
def test_drift_is_the_growth_and_no_outlier_makes_it(
    latencies: list[float], share: float | None
) -> None:
    slope = drift(latencies)
    assert (slope and slope.value) == share
    assert slope is None or (slope.ends and slope.ends[0] <= slope.value <= slope.ends[1])


def test_outliers_are_counted_and_nothing_is_cut() -> None:
    runs = [1.0 + 0.001 * step for step in range(98)] + [5.0, 9.0]
    assert outlier_share(runs) == pytest.approx(0.02) and summarize(runs).max == 9.0
    assert outlier_share([1.0] * 10) == 0.0


def test_windows_and_what_is_left_of_the_speed() -> None:
    latencies = [1.0] * 50 + [2.0] * 50
    curve = windows((np.cumsum(latencies) / 1e3).tolist(), latencies, 15)
    assert len(curve) == 15 and sum(window.count for window in curve) == 100
    assert curve[0].start_s == 0.0 and curve[-1].end_s == pytest.approx(0.15)
    assert throttling(curve) == pytest.approx(1.0)
    assert throttling(curve[:3]) is None and windows([], []) == ()


def test_packages_are_summed_and_their_parts_are_not(tmp_path: Path) -> None:
    def zones(**microjoules: int | str) -> None:
        for name, count in microjoules.items():
            path = tmp_path / name.replace("zone", "intel-rapl").replace("_", ":")
            path.mkdir(exist_ok=True)
            (path / "energy_uj").write_text(f"{count}\n")
            (path / "max_energy_range_uj").write_text("1000000\n")

    assert ProcessMeter(tmp_path).millijoules() is None
    zones(zone_0="secret")
    assert ProcessMeter(tmp_path).millijoules() is None
    zones(zone_0=500_000, zone_1=500_000, zone_0_0=500_000)
    meter = ProcessMeter(tmp_path)
    zones(zone_0=700_000, zone_0_0=900_000, zone_1=100_000)
    # the last one went round: 500 mJ to the end, 100 mJ from there
    assert meter.millijoules() == 200.0 + 600.0
