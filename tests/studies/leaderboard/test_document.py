"""The tables of docs/results/leaderboard.md, on a board that was run and on the stored one."""

from __future__ import annotations

import json
from operator import eq, gt
from pathlib import Path

import pytest
from benchmarks.studies.leaderboard import document, read_leaderboard
from benchmarks.studies.leaderboard.document import standing

from .conftest import Made

pytestmark = pytest.mark.study


def test_the_board_of_docs_holds_its_own_rules() -> None:
    """As many originals as models; an exact method scores as the null does; settings are those that
    tuning found.
    """
    data = Path(__file__).parents[3] / "docs" / "data"
    report = read_leaderboard(data / "leaderboard-people.json")
    tuned = json.loads((data / "leaderboard-settings.json").read_text())
    seeds = report.seeds
    assert len(seeds["originals"]) == len(seeds["retrained"]) == len(seeds["unlearning"]) == 64
    exact = report.row("retrain@exact").metrics["f_ratio"]
    assert exact.low is not None and exact.high is not None and exact.low <= 1.0 <= exact.high
    for row in report.rows:
        if row.rank is None:
            continue
        assert (row.models, row.originals, row.budget) == (64, 64, 0.05), row.name
        for key, value in tuned[row.name].items():
            assert str(row.settings[key]) == value or float(row.settings[key]) == float(value), (
                row.name
            )


def test_our_own_method_is_placed_by_every_number(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method's place is one more than how many are nearer the oracle, or lower, or higher."""
    report = read_leaderboard(made.out / "leaderboard.json")
    ranked = {row.name: row.metrics for row in report.rows if row.rank is not None}
    for name, metrics in ranked.items():
        monkeypatch.setattr(document, "OWN", name)
        places = {
            line.split(" | ")[0].strip("| "): int(line.split(" | ")[2])
            for line in standing(report).splitlines()[5:]
        }
        score = metrics["score"].value
        better, level = (
            sum(test(other["score"].value, score) for other in ranked.values()) for test in (gt, eq)
        )
        assert 1 + better <= places["score"] <= better + level
        far = {other: abs(numbers["f_ratio"].value - 1.0) for other, numbers in ranked.items()}
        nearer, level = (
            sum(value < far[name] for value in far.values()),
            sum(value == far[name] for value in far.values()),
        )
        assert 1 + nearer <= places["F / F_null"] <= nearer + level
    monkeypatch.setattr(document, "OWN", "absent")
    assert standing(report) == ""
