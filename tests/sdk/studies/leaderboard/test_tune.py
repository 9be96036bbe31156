"""The tuning grid: its names and settings are real, and it runs on a finished board."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from benchmarks.tune import GRID, tune

from unplug.sdk.unlearning import METHODS, build_method

from .conftest import Made


def test_the_grid_covers_every_method_with_settings_that_it_has() -> None:
    assert set(GRID) == set(METHODS) - {"retrain", "sisa"}  # the oracle, and what no 5 % pay for
    for name, rows in GRID.items():
        built = [build_method(name, settings) for settings in rows]
        assert len(set(built)) == len(rows), f"{name}: a setting stands there twice"


@pytest.mark.slow
def test_every_setting_gets_a_row_of_its_own(made: Made, tmp_path: Path) -> None:
    board = Path(shutil.copytree(made.out, tmp_path / "board"))
    grid = {"finetune": [{"lr": "1e-3"}, {"lr": "3e-3"}]}
    found = tune(board, grid, 4, backend="loop", show=False)
    first, second = found["rows"]
    assert [row["settings"] for row in (first, second)] == grid["finetune"]
    assert first["refused"] is None and first["metrics"]["test_mae"]["value"] != second["metrics"]["test_mae"]["value"]
    assert found["models"] == 4 and found["retrained"] == 4
