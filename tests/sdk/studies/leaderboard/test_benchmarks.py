"""Tuning, ablation and the page of docs/leaderboard.md, on a board that was really run."""

from __future__ import annotations

import json
import shutil
from operator import eq, gt
from pathlib import Path
from typing import Any

import pytest
from benchmarks import ablation, leaderboard
from benchmarks.ablation import VARIANTS, ablate
from benchmarks.leaderboard import SOURCES, command_of, main, standing
from benchmarks.spaces import PUBLISHED, SPACES, Between
from benchmarks.tune import run, tuned_settings
from click.testing import CliRunner

from unplug.core import InputError
from unplug.sdk.studies.leaderboard import Board, read_leaderboard
from unplug.sdk.unlearning import METHODS, build_method

from .conftest import Made


def test_every_method_has_a_space_whose_ends_it_takes() -> None:
    assert set(SPACES) == set(METHODS) - {"retrain", "sisa", "folds"}  # the oracle, what no 5 % pay for, what needs a fleet
    for name, space in SPACES.items():
        for end in ("low", "high"):
            chosen = {
                key: f"{getattr(item, end):g}" if isinstance(item, Between) else item.values[-1 if end == "high" else 0]
                for key, item in space.items()
            }
            build_method(name, chosen)
    for name, settings in PUBLISHED.items():
        build_method(name, settings)


@pytest.mark.slow
def test_every_method_gets_the_same_trials_and_the_default_is_the_first(made: Made, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    board = Board.open(Path(shutil.copytree(made.out, tmp_path / "board")))
    out = tmp_path / "tuning.json"
    found = run(board, ["finetune"], out, trials=3, models=2, say=lambda text: None)
    trials = found["rows"][0]["trials"]
    assert len(trials) == 3 and trials[0]["settings"] == {} and trials[1]["settings"] != trials[2]["settings"]
    best = trials[found["rows"][0]["best"]]
    assert best["score"] == max(trial["score"] for trial in trials)
    assert tuned_settings(found) == {"finetune": best["settings"]}
    more = run(board, ["finetune", "ssd"], out, trials=3, models=2, say=lambda text: None)
    assert more["rows"][0] == found["rows"][0] and [row["method"] for row in more["rows"]] == ["finetune", "ssd"]
    with pytest.raises(InputError, match="another tuning"):
        run(board, ["finetune"], out, trials=4, models=2)
    with pytest.raises(InputError, match="2 originals"):
        run(board, ["finetune"], out, trials=3, models=9)


def test_the_page_is_written_from_a_board(made: Made, tmp_path: Path) -> None:
    page, source = tmp_path / "leaderboard.md", made.out / "leaderboard.json"
    main(page, [source])
    report, text = read_leaderboard(source), page.read_text()
    assert f"## {report.protocol}" in text and command_of(report) in text
    assert all(f"| {row.name} |" in text or f" {row.name} " in text for row in report.rows if row.rank is not None)
    command = command_of(report)
    assert command.startswith(f"unplug leaderboard --protocol {report.protocol} ") and command.endswith(" --out DIR")
    assert f"--models {len(report.seeds['retrained'])} --originals {len(report.seeds['originals'])}" in command
    assert f"--epochs {report.recipe['epochs']}" in command and "--methods" in command


def test_the_page_in_docs_is_the_one_that_the_stored_boards_make(tmp_path: Path) -> None:
    docs = Path(__file__).parents[4] / "docs"
    main(tmp_path / "leaderboard.md", [docs / "data" / name for name in SOURCES])
    fix = "run: python -m benchmarks.leaderboard docs/leaderboard.md with what SOURCES names"
    assert (tmp_path / "leaderboard.md").read_text() == (docs / "leaderboard.md").read_text(), fix


def test_the_board_of_docs_holds_its_own_rules() -> None:
    """As many originals as models; an exact method scores as the null does; settings are those that tuning found."""
    data = Path(__file__).parents[4] / "docs" / "data"
    report, tuning = read_leaderboard(data / "leaderboard-people.json"), json.loads((data / "tuning.json").read_text())
    seeds = report.seeds
    assert len(seeds["originals"]) == len(seeds["retrained"]) == len(seeds["unlearning"]) == 64
    exact = report.row("retrain@exact").metrics["f_ratio"]
    assert exact.low is not None and exact.high is not None and exact.low <= 1.0 <= exact.high
    assert tuning["data"]["digest"] != report.data["digest"] and tuning["trials"] == 30
    tuned = {row["method"]: row for row in tuning["rows"]}
    for row in report.rows:
        if row.rank is None:
            continue
        assert (row.models, row.originals, row.budget) == (64, 64, 0.05), row.name
        assert len(tuned[row.name]["trials"]) == 30
        chosen = tuned[row.name]["trials"][tuned[row.name]["best"]]["settings"]
        assert all(str(row.settings[key]) == value or float(row.settings[key]) == float(value) for key, value in chosen.items())


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


# The ablation of a benchmark, not of the product


@pytest.fixture(scope="module")
def ablated(made: Made, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    board = Path(shutil.copytree(made.out, tmp_path_factory.mktemp("ablation") / "board"))
    chosen = {name: VARIANTS[name] for name in ("full", "own-lenses", "no-retain")}
    return board, {**ablate(board, chosen, 4, backend="loop", show=False), "command": "python -m benchmarks.ablation"}


@pytest.mark.slow
def test_a_board_is_ablated_and_a_second_call_makes_nothing(ablated: tuple[Path, dict[str, Any]]) -> None:
    board, found = ablated
    assert [row["name"] for row in found["rows"]] == ["full", "own-lenses", "no-retain"]
    assert (found["models"], found["originals"], found["retrained"]) == (4, 2, 4)
    for row in found["rows"]:
        assert row["models"] == 4 and row["refused"] is None
        assert {"f", "f_ratio", "score", "test_ratio", "retain_ratio", "shift", "sd_ratio"} <= set(row["metrics"])
        assert row["metrics"]["shift"]["value"] > 0 and row["metrics"]["f_ratio"]["low"] is not None
    times = {path.name: path.stat().st_mtime_ns for path in (board / "ablation").iterdir()}
    assert len(times) == 3 * 4
    again = ablate(board, {"full": VARIANTS["full"]}, 4, backend="loop", show=False)
    assert again["rows"][0] == found["rows"][0]
    assert times == {path.name: path.stat().st_mtime_ns for path in (board / "ablation").iterdir()}


@pytest.mark.slow
def test_the_command_writes_the_numbers_and_no_place(
    ablated: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, found = ablated
    monkeypatch.setattr(ablation, "VARIANTS", {"full": VARIANTS["full"]})
    out = tmp_path / "ablation.json"
    done = CliRunner().invoke(ablation.main, ["--board", str(board), "--models", "4", "--out", str(out), "--backend", "loop"])
    assert done.exit_code == 0, done.exception
    written = json.loads(out.read_text())
    assert written["rows"] == found["rows"][:1] and written["versions"] and str(board.parent) not in out.read_text()
    assert written["command"] == "python -m benchmarks.ablation --board board --models 4 --out ablation.json"
    assert "full" in done.output and "F / F_null" in done.output


@pytest.mark.slow
def test_what_is_not_the_board_any_more_is_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too few"):
        ablate(made.out, VARIANTS, 1)
    board = Path(shutil.copytree(made.out, tmp_path / "board"))
    report = json.loads((board / "leaderboard.json").read_text())
    report["data"]["digest"] = "0" * 64
    (board / "leaderboard.json").write_text(json.dumps(report))
    with pytest.raises(InputError, match="changed"):
        ablate(board, VARIANTS, 4)
