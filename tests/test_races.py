"""Pairs of processes race for one --out: never a mixture, and who loses is told in one line."""

from __future__ import annotations

import pytest
from benchmarks.races import count

PAIRS = 4  # 200 of them are in docs/durability.md


@pytest.mark.parametrize("locked", [True, False])
def test_racing_pairs(locked: bool) -> None:
    found = count(PAIRS, locked=locked)
    assert found["whole"] == PAIRS and found["mixture"] == found["left behind"] == 0
    assert found["unclear"] == found["other exit codes"] == 0
    assert found["refused in one line"] + found["both wrote, one after the other"] == PAIRS
