"""Pairs of processes race for one --out: never a mixture, and who loses is told in one line."""

from __future__ import annotations

from benchmarks.races import count

PAIRS = 4  # docs/results/robustness.md has 200


def test_the_second_is_told_in_one_line() -> None:
    found = count(PAIRS, locked=True)
    assert found["whole"] == PAIRS and found["mixture"] == found["left behind"] == 0
    assert found["unclear"] == found["other exit codes"] == 0
    assert found["refused in one line"] + found["both wrote, one after the other"] == PAIRS


def test_exchanging_names_alone_never_mixes() -> None:
    """As where a file system has no locks."""
    found = count(PAIRS, locked=False)
    assert (
        found["whole"] == PAIRS
        and found["mixture"] == found["left behind"] == found["other exit codes"] == 0
    )
