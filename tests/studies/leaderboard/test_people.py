"""A finished board of the smallest network, whose models are kept: what is asked of them, and
designs on its data.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.studies.exact_designs import World, pools
from benchmarks.studies.leaderboard import Board
from benchmarks.studies.leaderboard.plan import retrained_name
from benchmarks.studies.leaderboard.probe import EPOCHS, RELEARNED

from unplug.sdk.evidence.auditing import forget_loss
from unplug.sdk.evidence.fleet import read_result

pytestmark = pytest.mark.study


def test_a_method_once_more_has_a_row_and_no_rank(board: Board) -> None:
    row, usual = board.report.row("finetune@slow"), board.report.row("finetune")
    assert row.rank is None and "finetune once more" in row.note and row.settings["lr"] == 1e-5
    assert usual.rank == 1 and usual.metrics != row.metrics
    assert {"phi_shift", "phi_sd", "retain_mae_gap"} <= set(row.metrics)


def test_models_that_are_kept_are_asked_how_soon_they_relearn(board: Board) -> None:
    """What is hardly changed has the original's loss back at once; the original itself is its own
    aim and is not asked.
    """
    slow, oracle = (
        board.report.row(name).metrics["relearn"] for name in ("finetune@slow", "retrained")
    )
    assert slow.value < oracle.value <= EPOCHS and slow.oracle == pytest.approx(oracle.value)
    assert "relearn" not in board.report.row("original").metrics
    name = retrained_name(board.report.seeds["retrained"][1])
    before = forget_loss(board.local.original(1), board.local.sets.forget, board.local.task)
    assert read_result(board.folder / RELEARNED, name).facts["target_loss"] == before


def test_a_sharded_design_forgets_what_a_refit_never_saw(board: Board, tmp_path: Path) -> None:
    """Weights after forgetting are those of a refit with the same seed, and not those before, nor
    of another seed.
    """
    work = tmp_path / "work"
    world = World(board=board, trunk=None, trunk_data=None, work=work)  # type: ignore[arg-type]
    made = pools(world, "sisa", [0, 1])
    named = {
        role: [one.facts["weights_sha256"] for one in pool.models] for role, pool in made.items()
    }
    assert named["unlearned"] == named["refitted"]
    assert len({*named["original"], *named["unlearned"], *named["retrained"]}) == 6
    times = {path.name: path.stat().st_mtime_ns for path in work.iterdir()}
    again = pools(world, "sisa", [0, 1])["unlearned"].per_model("compute")
    assert {path.name: path.stat().st_mtime_ns for path in work.iterdir()} == times
    assert again.tolist() == made["unlearned"].per_model("compute").tolist()
