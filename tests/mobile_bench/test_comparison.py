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

from unplug.mobile_bench import BenchRow, compare_reports, latency_ratio
from unplug.sdk.cli import main

from .fakes import report_of, row_of

REPEATS, RUNS = 7, 50
"""The defaults of ``unplug bench``."""
TRIALS = 800


def noisy(generator: np.random.Generator, factor: float = 1.0, **changes: Any) -> BenchRow:
    """Cold starts that differ by 1.5 % (clock, memory), runs by 4 %; every twentieth run takes half
    as long again.
    """
    bases = factor * np.exp(generator.normal(0.0, 0.015, (REPEATS, 1)))
    runs = bases * np.exp(generator.normal(0.0, 0.04, (REPEATS, RUNS)))
    bursts = 1 + 0.5 * (generator.random((REPEATS, RUNS)) < 0.05)
    return row_of((runs * bursts).tolist(), **changes)


def compared(old: BenchRow, new: BenchRow, **how: Any) -> Any:
    (change,) = compare_reports(report_of(old), report_of(new), **how).changes
    return change


def test_golden_interval() -> None:
    """R = 2 of each by hand: logs 0, 0.02 and 0.1, 0.12; s^2 = 0.0002, se = sqrt(0.0002), df = 2, t
    = 4.3027.
    """
    ratio = latency_ratio(np.exp([0.0, 0.02]).tolist(), np.exp([0.1, 0.12]).tolist())
    assert ratio is not None
    half = 4.302653 * math.sqrt(0.0002)
    ends = [math.log(value) for value in (ratio.value, ratio.low, ratio.high)]
    assert ends == pytest.approx([0.1, 0.1 - half, 0.1 + half])


def test_it_is_scipys_welch_test() -> None:
    generator = np.random.default_rng(0)
    old, new = generator.lognormal(size=6), generator.lognormal(0.3, 2.0, size=4)
    ratio = latency_ratio(old.tolist(), new.tolist(), 0.9)
    ends = stats.ttest_ind(np.log(new), np.log(old), equal_var=False).confidence_interval(0.9)
    assert ratio is not None
    assert (math.log(ratio.low), math.log(ratio.high)) == pytest.approx((ends.low, ends.high))


@pytest.mark.long
@pytest.mark.parametrize(
    ("factor", "seed", "least", "most"), [(1.0, 1, 0.0, 0.05), (1.05, 2, 0.9, 1.0)]
)
def test_identical_code_passes_and_a_planted_slow_down_fails(
    factor: float, seed: int, least: float, most: float
) -> None:
    """Shares of simulated comparisons whose interval covers the truth, and that fail the gate."""
    generator, covered, failed = np.random.default_rng(seed), 0, 0
    for _ in range(TRIALS):
        change = compared(noisy(generator), noisy(generator, factor))
        covered += change.ratio.low <= factor <= change.ratio.high
        failed += change.fails
    assert 0.93 <= covered / TRIALS <= 0.97 and least <= failed / TRIALS <= most


@pytest.mark.long
def test_reports_of_several_rows() -> None:
    """The gate's false alarms are those of a report, however many rows it has; one slow row of six
    is still seen.
    """
    generator, trials, alarms, seen = np.random.default_rng(5), 120, 0, 0
    names = [f"{number}.tflite" for number in range(6)]
    for _ in range(trials):
        old, same = (report_of(*(noisy(generator, file=name) for name in names)) for _ in range(2))
        alarms += any(change.fails for change in compare_reports(old, same).changes)
        slow = report_of(noisy(generator, 1.05, file=names[0]), *same.rows[1:])
        seen += compare_reports(old, slow).changes[0].fails
    assert alarms / trials < 0.05 and seen / trials >= 0.9


def test_a_slow_down_under_the_limit_goes_through_where_that_is_shown() -> None:
    steady = [math.exp(step) for step in (-0.001, 0.0, 0.001)]
    old, new = (row_of([[factor * time] for time in steady]) for factor in (1.0, 1.02))
    for pair, how, wanted in (
        ((old, new), {}, ("slower", False)),
        ((old, new), {"fail_above": 0.02}, ("slower", True)),
        ((new, old), {}, ("faster", False)),
    ):
        change = compared(*pair, **how)
        assert (change.verdict, change.fails) == wanted


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
        ({"valid": False, "reasons": ("it throttled",)}, "the new row is not valid: it throttled"),
        ({"repeats": row_of(STEADY[:1]).repeats, "median_ms": 1.0}, "one repeat says nothing"),
        ({"repeats": row_of([[0.0], [0.0]]).repeats}, "took no time"),
    ],
)
def test_what_must_not_be_compared(changes: dict[str, Any], words: str) -> None:
    comparison = compare_reports(
        report_of(row_of(STEADY)), report_of(replace(row_of(STEADY), **changes))
    )
    (change,) = comparison.changes
    assert (change.verdict, change.ratio) == ("not comparable", None)
    assert any(words in reason for reason in change.reasons) and not comparison.passed


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (row_of(STEADY, mode="sustained"), "is a sustained run"),
        (row_of([[1.0], [1.0], [1.0]]), "too coarse"),
    ],
)
def test_rows_that_are_shown_and_not_compared(row: BenchRow, words: str) -> None:
    change = compared(row, row)
    assert change.verdict == "not comparable" and words in change.reasons[0]


def test_rows_of_one_report_alone_are_listed() -> None:
    one, gone, new = (row_of(STEADY, file=f"{name}.onnx") for name in ("one", "gone", "new"))
    comparison = compare_reports(report_of(one, gone), report_of(one, new))
    assert (comparison.only_old, comparison.only_new) == (("gone.onnx",), ("new.onnx",))
    assert len(comparison.changes) == 1
    assert comparison.unchecked == ("gone.onnx",) and not comparison.passed, "it was not checked"


def test_a_valid_row_that_broke_fails_the_gate() -> None:
    one, good = row_of(STEADY), row_of(STEADY, file="b.onnx")
    broken = replace(good, valid=False, reasons=("gpu was asked for and none ran",))
    comparison = compare_reports(report_of(one, good), report_of(one, broken))
    assert comparison.unchecked == ("b.onnx",) and not comparison.passed
    back = compare_reports(report_of(one, broken), report_of(one, good))
    assert back.passed, "nothing had been promised of it"


def test_the_command(tmp_path: Path) -> None:
    old, new, out = (tmp_path / f"{name}.json" for name in ("old", "new", "out"))
    report_of(row_of(STEADY)).save(old)
    report_of(row_of([[1.2 * time for time in runs] for runs in STEADY])).save(new)

    def compare(*words: str) -> Any:
        return CliRunner().invoke(main, ["bench", "compare", str(old), str(new), *words])

    done = compare("--out", str(out), "--json")
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    (change,) = told["changes"]
    assert change["fails"] and change["ratio"]["value"] == pytest.approx(1.2)
    assert json.loads(out.read_text())["schema"] == "unplug-bench-comparison/1"
    assert compare("--fail-above", "50%").exit_code == 0
    for wrong in ("x", "-1%", "0", "nan"):
        done = compare("--fail-above", wrong)
        assert done.exit_code == 2 and "not a share above 0" in done.stderr
    old.write_text('{"schema": "unplug-bench/9"}')
    done = compare()
    assert done.exit_code == 2 and "it does not follow its schema" in done.stderr
