"""Methods that must do with less, listed and run; and unplug leaderboard from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.core import Registry
from unplug.sdk.cli import main

from ..conftest import World
from .calls import fail, forget

PLACE = "unplug.sdk.unlearning.methods"
NEEDS = {
    "finetune": ["retain data", "labels"],
    "msg": ["retain data", "forget data", "labels"],
    "retrain": ["retain data", "labels", "validation data"],
    "sisa": ["retain data", "labels", "training-time hooks", "class logits"],
}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that new methods do not change."""
    names = {"finetune": "Finetune", "msg": "MSG", "retrain": "Retrain", "sisa": "SISA"}
    registry = Registry("method", {name: f"{PLACE}.{name}:{target}" for name, target in names.items()})
    monkeypatch.setattr("unplug.sdk.unlearning.method.METHODS", registry)


def listed(*words: str) -> dict[str, list[str]]:
    done = CliRunner().invoke(main, ["list", "methods", *words, "--json"])
    assert done.exit_code == 0, done.stderr
    return {row["name"]: row["needs"] for row in json.loads(done.stdout)}


@pytest.mark.usefixtures("few")
def test_methods_are_listed_by_what_they_need() -> None:
    assert listed() == NEEDS
    assert list(listed("--without", "forget data")) == ["finetune", "retrain", "sisa"]
    assert list(listed("--without", "forget data", "--without", "validation data")) == ["finetune", "sisa"]
    assert listed("--without", "labels") == {}
    assert list(listed("--without", "class logits")) == ["finetune", "msg", "retrain"]
    text = CliRunner().invoke(main, ["list", "methods", "--without", "training-time hooks"]).stdout.splitlines()
    assert text[0].split() == ["name", "needs", "what"]
    assert [line.split()[0] for line in text[1:]] == ["finetune", "msg", "retrain"]
    assert "retain data, forget data, labels" in text[2]


def test_wrong_uses_of_without(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["list", "methods", "--without", "sleep"])
    assert found.exit_code == 2 and "'sleep' is not one of" in found.stderr and len(found.stderr.splitlines()) == 1
    assert "attacks have no needs" in fail("list", "attacks", "--without", "labels").line


def test_forget_without(world: World, tmp_path: Path) -> None:
    line = fail(*forget(world, tmp_path / "out", "--method", "msg", "--without", "forget data")).line
    assert "it needs forget data, which is withheld" in line and "unplug list methods --without 'forget data'" in line
    assert not (tmp_path / "out").exists()
    words = [*map(str, forget(world, tmp_path / "out", "--method", "finetune", "--without", "forget data"))]
    done = CliRunner().invoke(main, [*words, "--without", "validation data", "--json"])
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["needs"] == ["retain data", "labels"]
    assert said["memory"]["estimate"]["total"] > 10**6 and said["memory"]["measured_peak"] is None


def test_forget_says_that_memory_is_short(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unplug.sdk.unlearning.memory.free_memory", lambda _: 2**20)
    line = fail(*forget(world, tmp_path / "out")).line
    assert "where 1.0 MiB are free" in line and "No batch size fits" in line
    assert not (tmp_path / "out").exists()


def test_a_method_with_hooks_is_refused_on_a_plain_original(world: World, tmp_path: Path) -> None:
    line = fail(*forget(world, tmp_path / "out", "--method", "sisa")).line
    assert "it needs training-time hooks, and there is none" in line


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


def test_a_file_of_settings_is_checked(tmp_path: Path) -> None:
    for text, says in (('{"msg": {"lr": 1}}', "not a JSON object of methods"), ('{"msg": {"odd": "1"}}', "no setting 'odd'")):
        (tmp_path / "given.json").write_text(text)
        assert says in fail(*board(tmp_path / "b", "--methods", "msg", "--settings", tmp_path / "given.json")).line
    (tmp_path / "given.json").write_text('{"msg": {"lr": "0.001"}, "lens": {"odd": "1"}}')  # of a method that does not run here
    more = ("--methods", "msg", "--settings", tmp_path / "given.json", "--set", "msg:ratio=2")
    assert "msg ratio=2.0" in fail(*board(tmp_path / "b", *more)).line
    assert not (tmp_path / "b" / "models").exists()


def test_protocols_without_data_say_what_to_give(tmp_path: Path) -> None:
    assert "Give --data mufac:DIR" in fail("leaderboard", "--protocol", "mufac", "--out", tmp_path / "b").line
    assert "Did you mean mufac" in fail("leaderboard", "--protocol", "mufak", "--out", tmp_path / "b").line
