"""The file and the page: schema, hostile input, what a reader sees."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.studies.leaderboard import LeaderboardReport, Measure, Row, read_leaderboard
from benchmarks.studies.leaderboard.cells import leaderboard_markdown
from benchmarks.studies.leaderboard.metrics import PublishedNumber
from benchmarks.studies.leaderboard.page import _verdict, plotted_rows, render_page, write_page

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


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.mark.long
def test_page_is_self_contained_and_shows_all_rows(
    report: LeaderboardReport, tmp_path: Path
) -> None:
    write_page(report, tmp_path / "l.html")
    html = (tmp_path / "l.html").read_text()
    assert html == render_page(report)
    assert "default-src 'none'" in html and not re.search(r"(?:src|href)=\"(?!#)", html)
    assert "<script" not in html and html.count("<svg") == 4  # two plots, wide and narrow
    text = text_of(html)
    for item in report.rows:
        assert item.name in text
    assert "refused, 8 of 8 runs: over budget" in text and "prefers-color-scheme" in html
    assert "good ranks first of 3 methods" in text


@pytest.mark.parametrize(
    ("highs", "said"),
    [
        ((-0.01, -0.02), "good ranks first of 3 methods, clearly."),
        ((0.01, -0.02), "methods; cheap is not clearly behind."),
        ((0.0, 0.01), "methods; cheap and 1 more are not clearly behind."),
    ],
)
def test_the_headline_says_who_may_be_as_good(
    report: LeaderboardReport, highs: tuple[float, float], said: str
) -> None:
    first, *others = report.rows[:3]
    told = [
        replace(
            item, metrics={**item.metrics, "score_gap": Measure(value=-0.05, low=-0.1, high=high)}
        )
        for item, high in zip(others, highs, strict=True)
    ]
    assert said in _verdict(replace(report, rows=(first, *told, *report.rows[3:]))).lead


def test_page_escapes_what_comes_from_a_file(report: LeaderboardReport) -> None:
    nasty = "<script>alert(1)</script>"
    first = replace(report.rows[0], name=nasty, note="", settings={"lr": nasty})
    html = render_page(
        replace(
            report, rows=(first, *report.rows[1:]), summary=nasty, notes=(nasty,), protocol=nasty
        )
    )
    assert "<script" not in html and "&lt;script&gt;" in html


def test_the_front_ends_at_the_oracle(report: LeaderboardReport) -> None:
    assert [item.name for item, front in plotted_rows(report) if front] == ["good", "cheap"]
    # Beyond the oracle nothing is gained: more than F_null is noise.
    over = replace(
        report,
        rows=(row("over", 0.4, 0.2, rank=1), row("level", 0.2, 0.1, rank=2), *report.rows[3:]),
    )
    assert [item.name for item, front in plotted_rows(over) if front] == ["level"]


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


@pytest.mark.long
def test_published_numbers_stand_beside_ours_with_the_difference(report: LeaderboardReport) -> None:
    ours = report.rows[0].metrics["score"].value
    given = [
        ("good", "score", ours - 0.05),
        ("absent", "score", 0.1),
        ("good", "no such metric", 0.2),
    ]
    published = tuple(
        PublishedNumber(model=model, metric=metric, value=value) for model, metric, value in given
    )
    told = replace(report, published=published)
    lines = leaderboard_markdown(told).splitlines()[-3:]
    assert lines[0] == "| good | score | 0.130 | 0.180 (0.170 to 0.190) | +0.050 |"
    assert lines[1] == "| absent | score | 0.100 | – | – |"
    assert lines[2].endswith("| 0.200 | – | – |")
    assert "+0.050" in render_page(told) and "here minus published" in render_page(told)
