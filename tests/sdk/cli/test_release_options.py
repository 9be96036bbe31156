"""Errors from below `unplug release` name its options by their flags."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sdk.conftest import World

from .calls import fail


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--gate", "max_mea=1"), "--gate max_mea: no such gate. Known: allow_not_run, "),
        (("--gate", "worst_person=7"), "--gate worst_person=7: neither true nor false."),
        (
            ("--gate", "max_mae_above_retrained"),
            "--gate max_mae_above_retrained: it is not KEY=VALUE.",
        ),
        (("--set", "lr"), "--set lr: it is not KEY=VALUE."),
        (("--gate", "max_group_shift=1"), "could move. Add --decision FILE, or leave it out."),
        (
            ("--decision-data", "synth:n=9"),
            "--decision-data: no decision is given. Add --decision FILE",
        ),
        (("--override", "utility", "--reason", " "), "--override utility: its reason is empty"),
        (
            ("--fleet", "nowhere", "--gate", "min_relearn_of_retrained=1"),
            "Add --oracle, or leave the gate out",
        ),
    ],
)
def test_errors_name_flags(world: World, tmp_path: Path, more: tuple[str, ...], says: str) -> None:
    asked = ("--data", world.spec, "--forget", world.forget_file, "--out", tmp_path / "b")
    line = fail("release", world.original.path, *asked, *more).line
    assert says in line and "`" not in line.replace("`unplug", "").replace("...`", "")


def test_a_number_out_of_range_is_refused(world: World, tmp_path: Path) -> None:
    asked = ("--data", world.spec, "--forget", world.forget_file, "--out", tmp_path / "b")
    assert "0<=x<=64" in fail("release", world.original.path, *asked, "--references", 65).line
