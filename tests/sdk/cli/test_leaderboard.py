"""``unplug leaderboard`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main

from .calls import fail

SPEC = "synth:n=120,subjects=60,seed=3"


def board(out: Path, *more: object) -> tuple[object, ...]:
    return ("leaderboard", "--protocol", "challenge", "--data", SPEC, "--epochs", 2, "--models", 4, "--originals", 2,
            "--budget", 0.9, "--backend", "loop", "--out", out, *more)  # fmt: skip


@pytest.mark.long
def test_table_files_and_json(tmp_path: Path) -> None:
    words = [*map(str, board(tmp_path / "b", "--methods", "finetune,ct", "--set", "ct:budget=0.01"))]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.stderr
    assert "finetune" in done.stdout and "retrained (oracle)" in done.stdout
    assert "not ranked: ct: refused, 4 of 4 runs" in done.stdout and "leaderboard.html" in done.stdout
    assert "training 2 originals and 4 retrained models" in done.stderr and "scoring" in done.stderr
    again = CliRunner().invoke(main, [*words, "--json"])
    assert again.exit_code == 0 and again.stderr == ""
    report = json.loads(again.stdout)
    assert report["schema"] == "unplug-leaderboard/1"
    assert report == json.loads((tmp_path / "b" / "leaderboard.json").read_text())


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--methods", "retrain"), "retraining is the oracle"),
        (("--methods", ","), "names no method"),
        (("--methods", "msgg"), "Did you mean msg"),
        (("--methods", "msg", "--set", "lr=1"), "not METHOD:KEY=VALUE"),
        (("--methods", "msg", "--set", "msg:odd=1"), "no setting 'odd'"),
        (("--methods", "msg", "--backend", "loopy"), "Did you mean loop"),
        (("--methods", "msg", "--models", "3"), "not in the range 4<="),
        (("--methods", "msg", "--models", "5", "--originals", "6"), "no more originals than models"),
        (("--methods", "msg", "--budget", "nan"), "not a number"),
        (("--methods", "msg", "--set", "lens:lr=1"), "not among --methods"),
        (("--methods", "msg", "--cluster", "head:1"), "Add --backend ray"),
        (("--methods", "msg", "--image-size", "7"), "image_size 7"),
    ],
)
def test_wrong_usage(tmp_path: Path, more: tuple[str, ...], says: str) -> None:
    out = tmp_path / "b"
    assert says in fail(*board(out, *more)).line
    assert not (out / "models").exists()


def test_protocols_without_data_say_what_to_give(tmp_path: Path) -> None:
    assert "Give --data mufac:DIR" in fail("leaderboard", "--protocol", "mufac", "--out", tmp_path / "b").line
    assert "Did you mean mufac" in fail("leaderboard", "--protocol", "mufak", "--out", tmp_path / "b").line
