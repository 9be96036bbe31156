"""``python -m benchmarks.studies leaderboard``: what it prints, writes and refuses."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from benchmarks.studies.__main__ import main
from click.testing import CliRunner
from tests.sdk.cli.calls import fail

pytestmark = pytest.mark.study

refused = partial(fail, group=main)
SPEC = "synth:n=120,subjects=60,seed=3"


def board(out: Path, *more: object) -> tuple[object, ...]:
    words = f"leaderboard --protocol challenge --data {SPEC} --epochs 2 --models 4"
    return (*f"{words} --originals 2 --budget 0.9 --backend loop --out".split(), out, *more)


@pytest.mark.long
def test_table_files_and_json(tmp_path: Path) -> None:
    words = [
        *map(str, board(tmp_path / "b", "--methods", "finetune,ct", "--set", "ct:budget=0.01"))
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.stderr
    assert "finetune" in done.stdout and "retrained (oracle)" in done.stdout
    assert "- ct: refused, 4 of 4 runs" in done.stdout and "leaderboard.html" in done.stdout
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
        (
            ("--methods", "msg", "--models", "5", "--originals", "6"),
            "no more originals than models",
        ),
        (("--methods", "msg", "--budget", "nan"), "not a number"),
        (("--methods", "msg", "--set", "lens:lr=1"), "not among --methods"),
        (("--methods", "msg", "--cluster", "head:1"), "Add --backend ray"),
        (("--methods", "msg", "--image-size", "7"), "image_size 7"),
        (("--protocol", "mufak"), "Did you mean mufac"),
    ],
)
def test_wrong_usage(tmp_path: Path, more: tuple[str, ...], says: str) -> None:
    out = tmp_path / "b"
    assert says in refused(*board(out, *more)).line
    assert not (out / "models").exists()


def test_protocols_without_data_say_what_to_give(tmp_path: Path) -> None:
    told = refused("leaderboard", "--protocol", "mufac", "--out", tmp_path / "b").line
    assert "Give --data mufac:DIR" in told


def test_a_file_of_settings_is_checked(tmp_path: Path) -> None:
    out, given = tmp_path / "b", tmp_path / "given.json"
    for text, more, says in (
        ('{"msg": {"lr": 1}}', (), "not a JSON object of methods"),
        ('{"msg": {"odd": "1"}}', (), "no setting 'odd'"),
        # of a method that does not run here
        ('{"msg": {"lr": "0.001"}, "lens": {"odd": "1"}}', ("--set", "msg:ratio=2"), "ratio=2.0"),
    ):
        given.write_text(text)
        assert says in refused(*board(out, "--methods", "msg", "--settings", given, *more)).line
    assert not (out / "models").exists()
