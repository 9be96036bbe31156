"""docs/leaderboard.md comes from the JSON of a leaderboard that was run."""

from __future__ import annotations

from operator import eq, gt
from pathlib import Path

import pytest
from benchmarks import leaderboard
from benchmarks.leaderboard import command_of, main, standing

from unplug.sdk.studies.leaderboard import read_leaderboard

from .conftest import Made


def test_the_page_is_written_from_a_board(made: Made, tmp_path: Path) -> None:
    page, source = tmp_path / "leaderboard.md", made.out / "leaderboard.json"
    main(page, [source])
    report, text = read_leaderboard(source), page.read_text()
    assert f"## {report.protocol}" in text and command_of(report) in text
    assert all(f"| {row.name} |" in text or f" {row.name} " in text for row in report.rows if row.rank is not None)


def test_the_command_names_what_differs_from_the_protocol(made: Made) -> None:
    report = read_leaderboard(made.out / "leaderboard.json")
    command = command_of(report)
    assert command.startswith(f"unplug leaderboard --protocol {report.protocol} ") and command.endswith(" --out DIR")
    assert f"--models {len(report.seeds['retrained'])} --originals {len(report.seeds['originals'])}" in command
    assert f"--epochs {report.recipe['epochs']}" in command and "--methods" in command


def test_our_own_method_is_placed_by_every_number(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method's place is one more than how many are nearer the oracle, or lower, or higher."""
    report = read_leaderboard(made.out / "leaderboard.json")
    ranked = {row.name: row.metrics for row in report.rows if row.rank is not None}
    for name, metrics in ranked.items():
        monkeypatch.setattr(leaderboard, "OWN", name)
        places = {line.split(" | ")[0].strip("| "): int(line.split(" | ")[2]) for line in standing(report).splitlines()[5:]}
        score = metrics["score"].value
        better, level = (sum(test(other["score"].value, score) for other in ranked.values()) for test in (gt, eq))
        assert 1 + better <= places["score"] <= better + level
        far = {other: abs(numbers["f_ratio"].value - 1.0) for other, numbers in ranked.items()}
        nearer, level = sum(value < far[name] for value in far.values()), sum(value == far[name] for value in far.values())
        assert 1 + nearer <= places["F / F_null"] <= nearer + level
    monkeypatch.setattr(leaderboard, "OWN", "absent")
    assert standing(report) == ""
