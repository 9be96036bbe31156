"""The file: schema, hostile input, and the table of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.studies.leaderboard import LeaderboardReport, Measure, Row, read_leaderboard
from benchmarks.studies.leaderboard.cells import leaderboard_markdown

from unplug.core import ReportError

from .conftest import Made

pytestmark = pytest.mark.study


def row(name: str, score: float, gap: float, *, compute: float = 0.04, **more: Any) -> Row:
    numbers = {
        "score": score,
        "f": score,
        "f_ratio": score / 0.2,
        "test_mae_gap": gap,
        "compute": compute,
        "wall": compute,
    }
    metrics = {
        key: Measure(value=value, low=value - 0.01, high=value + 0.01, oracle=0.2)
        for key, value in numbers.items()
    }
    return Row(name=name, role="unlearned", metrics=metrics, models=8, originals=2, **more)


@pytest.fixture
def report(made: Made) -> LeaderboardReport:
    rows = (
        row("good", 0.18, 0.1, rank=1),
        row("cheap", 0.15, 0.1, compute=0.01, rank=2),
        row("bad", 0.1, 3.0, rank=3),
        Row(name="refused", role="unlearned", refused="8 of 8 runs: over budget"),
        replace(row("original", 0.02, -0.1, compute=0.0), role="original"),
        replace(row("retrained", 0.2, 0.0, compute=1.0), role="retrained"),
    )
    return replace(made.report, rows=rows)


def change(raw: Any, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        raw = raw[int(part)] if part.isdigit() else raw[part]
    raw[last] = value


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("schema", "unplug-leaderboard/2", "schema"),
        ("rows.0.rank", 2, "its ranks are not 1, 2, 3"),
        ("rows.0.name", "bad", "share a name"),
        ("rows.3.rank", 4, "a refused row has a rank"),
        ("rows.5.role", "original", "no row of the oracle"),
        ("rows.0.metrics.score.low", 9.0, "upside down"),
        ("rows.0.metrics.score.value", 1e200, "too large"),
        ("rows.0.metrics.score.value", "0.1", "schema"),
        ("rows.0.metrics.score.surplus", 1, "schema"),
        ("rows.0.note", "x" * 5000, "a text is too long"),
        ("rows.0.metrics.odd", {"value": 1.0}, "a metric is unknown"),
        ("rows.0.weights_sha256", ["0" * 64], "weights of more or fewer models"),
        ("rows.0.weights_sha256", ["x"] * 8, "a digest of weights is none"),
        ("kind", "weather", "schema"),
        ("rows", {}, "schema"),
    ],
)
def test_hostile_files_are_refused(
    report: LeaderboardReport, tmp_path: Path, path: str, value: Any, why: str
) -> None:
    raw = json.loads(json.dumps(report.to_dict()))
    change(raw, path, value)
    (tmp_path / "l.json").write_text(json.dumps(raw))
    with pytest.raises(ReportError, match=why):
        read_leaderboard(tmp_path / "l.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"rows": NaN}', "null", '{"schema": "unplug-leaderboard/1"}']
)
def test_broken_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "l.json").write_text(text)
    with pytest.raises(ReportError):
        read_leaderboard(tmp_path / "l.json")
    with pytest.raises(ReportError, match="No such file"):
        read_leaderboard(tmp_path / "none.json")


def test_markdown_golden(report: LeaderboardReport) -> None:
    lines = leaderboard_markdown(report).splitlines()
    assert lines[0].startswith("Ranked by challenge score")
    assert lines[2].startswith(
        "| # | method | score | score (minus the best) | F / F_null | F | test MAE (minus "
        "retrained, years) | compute"
    )
    assert lines[4].startswith("| 1 | good | 0.180 (0.170 to 0.190) | – | 0.90 (0.89 to 0.91) |")
    assert "| +0.10 (+0.09 to +0.11) | 4.0" in lines[4]
    assert sum(line.startswith("|") for line in lines) == 2 + 5
    assert lines[-1] == "- refused: refused, 8 of 8 runs: over budget"


def test_markdown_escapes_what_comes_from_a_file(report: LeaderboardReport) -> None:
    first = replace(report.rows[0], name="<b>|x")
    text = leaderboard_markdown(replace(report, rows=(first, *report.rows[1:])))
    assert "| \\<b\\>\\|x |" in text and "<b>" not in text
