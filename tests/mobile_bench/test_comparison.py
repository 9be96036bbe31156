"""Comparing bench reports: the interval by hand and by simulation, the gate's error rates, and what
must not be compared.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from unplug.mobile_bench import compare_reports, latency_ratio
from unplug.sdk.cli import main

from .fakes import report_of, row_of

REPEATS, RUNS = 7, 50
"""The defaults of ``unplug bench``."""
TRIALS = 800


def noisy(generator: np.random.Generator, factor: float = 1.0) -> list[list[float]]:
    """Cold starts that differ by 1.5 % (clock, memory), runs by 4 %; every twentieth run takes half
    as long again.
    """
    found = []
    for _ in range(REPEATS):
        base = factor * math.exp(generator.normal(0.0, 0.015))
        runs = (
            base
            * np.exp(generator.normal(0.0, 0.04, RUNS))
            * (1 + 0.5 * (generator.random(RUNS) < 0.05))
        )
        found.append(runs.tolist())
    return found


def test_golden_interval() -> None:
    """R = 2 of each by hand: logs 0, 0.02 and 0.1, 0.12; s^2 = 0.0002, se = sqrt(0.0002), df = 2, t
    = 4.3027.
    """
    found = latency_ratio(np.exp([0.0, 0.02]).tolist(), np.exp([0.1, 0.12]).tolist())
    assert found is not None
    half = 4.302653 * math.sqrt(0.0002)
    assert [math.log(value) for value in (found.value, found.low, found.high)] == pytest.approx(
        [0.1, 0.1 - half, 0.1 + half]
    )


def test_it_is_scipys_welch_test() -> None:
    generator = np.random.default_rng(0)
    old, new = generator.lognormal(size=6), generator.lognormal(0.3, 2.0, size=4)
    found = latency_ratio(old.tolist(), new.tolist(), 0.9)
    ends = stats.ttest_ind(np.log(new), np.log(old), equal_var=False).confidence_interval(0.9)
    assert found is not None and (math.log(found.low), math.log(found.high)) == pytest.approx(
        (ends.low, ends.high)
    )


def outcomes(factor: float, seed: int) -> tuple[float, float]:
    """Shares of simulated comparisons whose interval covers the truth, and that fail the gate."""
    generator, covered, failed = np.random.default_rng(seed), 0, 0
    for _ in range(TRIALS):
        (change,) = compare_reports(
            report_of(row_of(noisy(generator))), report_of(row_of(noisy(generator, factor)))
        ).changes
        assert change.ratio is not None
        covered += change.ratio.low <= factor <= change.ratio.high
        failed += change.fails
    return covered / TRIALS, failed / TRIALS


@pytest.mark.long
@pytest.mark.parametrize(
    ("factor", "seed", "least", "most"), [(1.0, 1, 0.0, 0.05), (1.05, 2, 0.9, 1.0)]
)
def test_identical_code_passes_and_a_planted_slow_down_fails(
    factor: float, seed: int, least: float, most: float
) -> None:
    covered, failed = outcomes(factor, seed)
    assert 0.93 <= covered <= 0.97 and least <= failed <= most


@pytest.mark.long
def test_reports_of_several_rows() -> None:
    """The gate's false alarms are those of a report, however many rows it has; one slow row of six
    is still seen.
    """
    generator, trials, alarms, seen = np.random.default_rng(5), 120, 0, 0
    names = [f"{number}.tflite" for number in range(6)]
    for _ in range(trials):
        old, same = (
            report_of(*(row_of(noisy(generator), file=name) for name in names)) for _ in range(2)
        )
        alarms += any(change.fails for change in compare_reports(old, same).changes)
        slow = report_of(row_of(noisy(generator, 1.05), file=names[0]), *same.rows[1:])
        seen += compare_reports(old, slow).changes[0].fails
    assert alarms / trials < 0.05 and seen / trials >= 0.9


def test_a_slow_down_under_the_limit_goes_through_where_that_is_shown() -> None:
    old = [[1.0 * math.exp(step)] for step in (-0.001, 0.0, 0.001)]
    new = [[1.02 * math.exp(step)] for step in (-0.001, 0.0, 0.001)]
    (change,) = compare_reports(report_of(row_of(old)), report_of(row_of(new))).changes
    assert change.verdict == "slower" and not change.fails
    (change,) = compare_reports(
        report_of(row_of(old)), report_of(row_of(new)), fail_above=0.02
    ).changes
    assert change.fails
    (change,) = compare_reports(report_of(row_of(new)), report_of(row_of(old))).changes
    assert change.verdict == "faster" and not change.fails


STEADY = [[1.0, 1.0], [1.01, 1.01], [0.99, 0.99]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clock_mode": "fixed"}, "clock mode changed from unknown to fixed"),
        ({"device": "Another"}, "device changed from Google Pixel 7 to Another"),
        ({"threads": 4}, "threads changed from 2 to 4"),
        ({"delegate_got": "none"}, "delegate got changed from unknown to none"),
        ({"inputs_sha256": "d" * 64}, "inputs sha256 changed"),
        ({"charging": True}, "charging changed from unknown to True"),
        ({"warmup": 3}, "warmup changed from 1 to 3"),
        ({"median_ms": 0.5}, "the new row's median contradicts its cold starts"),
        (
            {"valid": False, "reasons": ("the device throttled",)},
            "the new row is not valid: the device throttled",
        ),
        ({"repeats": row_of(STEADY[:1]).repeats, "median_ms": 1.0}, "one repeat says nothing"),
        ({"repeats": row_of([[0.0], [0.0]]).repeats}, "took no time"),
    ],
)
def test_what_must_not_be_compared(changes: dict[str, Any], words: str) -> None:
    found = compare_reports(
        report_of(row_of(STEADY)), report_of(replace(row_of(STEADY), **changes))
    )
    (change,) = found.changes
    assert (
        change.verdict == "not comparable"
        and change.ratio is None
        and any(words in reason for reason in change.reasons)
    )
    assert not found.passed


def test_sustained_runs_are_shown_and_not_compared() -> None:
    one = report_of(row_of(STEADY, mode="sustained"))
    (change,) = compare_reports(one, one).changes
    assert change.verdict == "not comparable" and "is a sustained run" in change.reasons[0]


def test_a_clock_that_is_too_coarse() -> None:
    same = row_of([[1.0], [1.0], [1.0]])
    (change,) = compare_reports(report_of(same), report_of(same)).changes
    assert change.verdict == "not comparable" and "too coarse" in change.reasons[0]


def test_rows_of_one_report_alone_are_listed() -> None:
    found = compare_reports(
        report_of(row_of(STEADY), row_of(STEADY, file="gone.onnx")),
        report_of(row_of(STEADY), row_of(STEADY, file="new.onnx")),
    )
    assert (found.only_old, found.only_new, len(found.changes)) == (
        ("gone.onnx",),
        ("new.onnx",),
        1,
    )
    assert found.unchecked == ("gone.onnx",) and not found.passed, "what is gone was not checked"


def test_a_valid_row_that_broke_fails_the_gate() -> None:
    good, broken = (
        row_of(STEADY, file="b.onnx"),
        row_of(STEADY, file="b.onnx", valid=False, reasons=("gpu was asked for and none ran",)),
    )
    found = compare_reports(report_of(row_of(STEADY), good), report_of(row_of(STEADY), broken))
    assert found.unchecked == ("b.onnx",) and not found.passed
    assert compare_reports(
        report_of(row_of(STEADY), broken), report_of(row_of(STEADY), good)
    ).passed, "nothing had been promised of it"


def test_the_command(tmp_path: Path) -> None:
    report_of(row_of(STEADY)).save(tmp_path / "old.json")
    slower = [[1.2 * time for time in runs] for runs in STEADY]
    report_of(row_of(slower)).save(tmp_path / "new.json")
    words = ["bench", "compare", str(tmp_path / "old.json"), str(tmp_path / "new.json")]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "c.json"), "--json"])
    assert done.exit_code == 1, done.output
    said = json.loads(done.stdout)
    assert (
        said["changes"][0]["fails"]
        and said["changes"][0]["ratio"]["value"] == pytest.approx(1.2)
        and not said["passed"]
    )
    assert json.loads((tmp_path / "c.json").read_text())["schema"] == "unplug-bench-comparison/1"
    assert CliRunner().invoke(main, [*words, "--fail-above", "50%"]).exit_code == 0
    for wrong in ("x", "-1%", "0", "nan"):
        done = CliRunner().invoke(main, [*words, "--fail-above", wrong])
        assert done.exit_code == 2 and "not a share above 0" in done.stderr
    (tmp_path / "old.json").write_text('{"schema": "unplug-bench/9"}')
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "it does not follow its schema" in done.stderr
