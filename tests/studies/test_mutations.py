"""What studies wrote, harmed in one place: an answer, or a typed error of one line, and never
anything else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.studies.control import read_comparison
from benchmarks.studies.control.page import render_page as render_comparison
from benchmarks.studies.leaderboard import read_leaderboard
from benchmarks.studies.leaderboard.page import render_page as render_leaderboard
from tests.specimens import Specimen, written
from tests.test_mutations import FEW, MANY, law

from .control.test_report import fake

DOCUMENTS = Path(__file__).parents[2] / "docs" / "data"


def short_leaderboard() -> dict[str, Any]:
    """The first two methods of a measured one, the original and the oracle."""
    board: dict[str, Any] = json.loads((DOCUMENTS / "leaderboard-people.json").read_text())
    few = [row for row in board["rows"] if row["rank"] in (1, 2) or row["role"] != "unlearned"]
    return board | {"rows": few}


SPECIMENS = {
    "comparison": Specimen(
        make=written(fake().to_dict()), read=lambda path: render_comparison(read_comparison(path))
    ),
    "leaderboard": Specimen(
        make=written(short_leaderboard()),
        read=lambda path: render_leaderboard(read_leaderboard(path)),
    ),
}


@pytest.mark.parametrize("kind", SPECIMENS)
def test_a_harmed_file_is_answered_or_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    law(SPECIMENS[kind], tmp_path, FEW, f"few {kind}")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", SPECIMENS)
def test_many_harms(kind: str, tmp_path: Path) -> None:
    law(SPECIMENS[kind], tmp_path, MANY, f"many {kind}")
