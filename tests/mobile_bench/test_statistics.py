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
    summary = summarize([4.0, 1.0, 10.0, 3.0, 2.0])
    assert (summary.count, summary.p50, summary.min, summary.max, summary.mean) == (
        5,
        3.0,
        1.0,
        10.0,
        4.0,
    )
    assert summary.p90 == pytest.approx(4 + 0.6 * 6)
    assert summary.p95 == pytest.approx(4 + 0.8 * 6)
    assert summary.std == pytest.approx(12.5**0.5)


def test_one_sample_and_none() -> None:
    one = summarize([2.0])
    assert (one.p50, one.p95, one.std, one.p99) == (2.0, 2.0, 0.0, None)
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


def test_p99_needs_a_thousand_samples() -> None:
    assert summarize(list(range(999))).p99 is None
    assert summarize(list(range(1000))).p99 == pytest.approx(989.01)


def test_spread() -> None:
    assert relative_spread([2.0]) == 0.0
    assert relative_spread([0.0, 1.0]) is None
    assert relative_spread([1.2, 1.0, 1.1]) == pytest.approx(0.2)


def test_golden_typical_latency() -> None:
    """R = 3, logs 0, 0.1, 0.2: mean 0.1, s = 0.1, t(2) = 4.30265, half width 4.30265 * 0.1 /
    sqrt(3).
    """
    found = typical_latency(np.exp([0.0, 0.1, 0.2]).tolist())
    assert found is not None and found.ends is not None
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert [math.log(value) for value in (found.value, *found.ends)] == pytest.approx(
        [0.1, 0.1 - half, 0.1 + half]
    )
    assert typical_latency([2.0]) == Estimate(value=pytest.approx(2.0), low=None, high=None)
    assert typical_latency([0.0, 1.0]) is None, "a clock that is too coarse"


def cold_starts(
    generator: np.random.Generator, repeats: int, *, between: float, within: float, bursts: float
) -> np.ndarray:
    """(R, 50) latencies around 1 ms: cold starts differ (clock, memory), runs differ, some take
    half as long again.
    """
    centres = np.exp(generator.normal(0.0, between, (repeats, 1)))
    runs = centres * np.exp(generator.normal(0.0, within, (repeats, 50)))
    return runs * (1.0 + 0.5 * (generator.random(runs.shape) < bursts))


NOISE = {
    "quiet": {"between": 0.004, "within": 0.01, "bursts": 0.0},
    "usual": {"between": 0.015, "within": 0.04, "bursts": 0.05},
    "wild": {"between": 0.06, "within": 0.10, "bursts": 0.15},
}


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_the_interval_covers_in_93_to_97_percent(noise: str, repeats: int) -> None:
    """2,000 simulated benchmarks: the standard error of their share is 0.5 %. The truth is that of
    200,000 cold starts.
    """
    generator = np.random.default_rng(7)
    truth = float(
        np.exp(np.mean(np.log(np.median(cold_starts(generator, 200_000, **NOISE[noise]), axis=1))))
    )
    covered = 0
    for _ in range(2000):
        found = typical_latency(
            np.median(cold_starts(generator, repeats, **NOISE[noise]), axis=1).tolist()
        )
        assert found is not None and found.low is not None and found.high is not None
        covered += found.low <= truth <= found.high
    assert 0.93 <= covered / 2000 <= 0.97


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=20), st.floats(1e-3, 1e3))
def test_the_interval_scales_with_the_clock(medians: list[float], factor: float) -> None:
    one, other = typical_latency(medians), typical_latency([factor * value for value in medians])
    assert one is not None and other is not None and one.ends is not None and other.ends is not None
    assert (
        other.value == pytest.approx(factor * one.value) and one.ends[0] <= one.value <= one.ends[1]
    )


def test_drift_is_the_growth_and_no_outlier_makes_it() -> None:
    def share(latencies: list[float]) -> float:
        found = drift(latencies)
        assert (
            found is not None
            and found.low is not None
            and found.high is not None
            and found.low <= found.value <= found.high
        )
        return found.value

    steady = [1.0 + 0.01 * (step % 3) for step in range(60)]
    assert share(steady) == pytest.approx(0.0, abs=0.01)
    spiked = list(steady)
    spiked[50] = spiked[55] = 100.0
    assert share(spiked) == pytest.approx(0.0, abs=0.01)
    slower = [value * (1.0 + 0.3 * step / 59) for step, value in enumerate(steady)]
    assert share(slower) == pytest.approx(0.3 / 1.15, rel=0.1), (
        "30 % of the first is 26 % of the median"
    )
    assert drift([1.0] * 7) is None and drift([0.0] * 20) is None
    assert share(np.linspace(1.0, 1.2, 50_000).tolist()) == pytest.approx(0.2 / 1.1, rel=0.01)


def test_outliers_are_counted_and_nothing_is_cut() -> None:
    runs = [1.0 + 0.001 * step for step in range(98)] + [5.0, 9.0]
    assert outlier_share(runs) == pytest.approx(0.02) and summarize(runs).max == 9.0
    assert outlier_share([1.0] * 10) == 0.0


def test_windows_and_what_is_left_of_the_speed() -> None:
    ends = np.cumsum([1.0] * 50 + [2.0] * 50) / 1e3
    curve = windows(ends.tolist(), [1.0] * 50 + [2.0] * 50, 15)
    assert len(curve) == 15 and sum(window.count for window in curve) == 100
    assert curve[0].start_s == 0.0 and curve[-1].end_s == pytest.approx(0.15)
    assert throttling(curve) == pytest.approx(1.0)
    assert throttling(curve[:3]) is None and windows([], []) == ()


def zone(folder: Path, name: str, microjoules: int | str) -> Path:
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "energy_uj").write_text(f"{microjoules}\n")
    (path / "max_energy_range_uj").write_text("1000000\n")
    return path


def test_packages_are_summed_and_their_parts_are_not(tmp_path: Path) -> None:
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        zone(tmp_path, name, 500_000)
    meter = ProcessMeter(tmp_path)
    zone(tmp_path, "intel-rapl:0", 700_000)
    zone(tmp_path, "intel-rapl:0:0", 900_000)
    zone(tmp_path, "intel-rapl:1", 100_000)  # went round: 500 mJ to the end, 100 mJ from there
    assert meter.millijoules() == 200.0 + 600.0


def test_machines_that_do_not_tell(tmp_path: Path) -> None:
    assert ProcessMeter(tmp_path).millijoules() is None
    zone(tmp_path, "intel-rapl:0", "secret")
    assert ProcessMeter(tmp_path).millijoules() is None
