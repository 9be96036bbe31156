"""Errors from below `unplug release` name its options by their flags."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..conftest import World
from .calls import refused, request


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--gate max_mea=1", "--gate max_mea: no such gate. Known: allow_not_run, "),
        ("--gate worst_person=7", "--gate worst_person=7: neither true nor false."),
        ("--gate max_mae_above_retrained", "--gate max_mae_above_retrained: it is not KEY=VALUE."),
        ("--set lr", "--set lr: it is not KEY=VALUE."),
        ("--gate max_group_shift=1", "to compare. Add --decision FILE, or leave it out."),
        ("--decision-data synth:n=9", "--decision-data: no decision is given. Add --decision FILE"),
        ("--override utility=' '", "--override utility: its reason is empty"),
        (
            "--fleet nowhere --gate min_relearn_of_retrained=1",
            "Add --oracle, or leave the gate out",
        ),
        ("--train-references 65", "0<=x<=64"),
    ],
)
def test_errors_name_flags(world: World, tmp_path: Path, more: str, says: str) -> None:
    line = refused(
        f"release {world.original.path} {request(world)} --out {tmp_path}/b --budget 1 {more}"
    )
    commands = r"`(?:unplug|main) [^`]*`"
    assert says in line and "`" not in re.sub(commands, "", line)
