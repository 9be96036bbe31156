"""Methods that must do with less, listed and run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.core import Registry
from unplug.sdk.cli import main

from ..conftest import World
from .calls import fail, forget

PLACE = "unplug.sdk.forgetting.unlearning.methods"
NEEDS = {
    "finetune": ["retain data", "labels"],
    "msg": ["retain data", "forget data", "labels"],
    "retrain": ["retain data", "labels", "validation data"],
    "sisa": ["retain data", "labels", "training-time hooks", "class logits"],
}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that new methods do not change."""
    names = {"finetune": "Finetune", "msg": "MSG", "retrain": "RetrainFromScratch", "sisa": "SISA"}
    registry = Registry(
        "method", {name: f"{PLACE}.{name}:{target}" for name, target in names.items()}
    )
    monkeypatch.setattr("unplug.sdk.forgetting.unlearning.method.METHODS", registry)


def listed(*words: str) -> dict[str, list[str]]:
    done = CliRunner().invoke(main, ["list", "methods", *words, "--json"])
    assert done.exit_code == 0, done.stderr
    return {row["name"]: row["needs"] for row in json.loads(done.stdout)}


@pytest.mark.usefixtures("few")
def test_methods_are_listed_by_what_they_need() -> None:
    assert listed() == NEEDS
    assert list(listed("--without", "forget data")) == ["finetune", "retrain", "sisa"]
    assert list(listed("--without", "forget data", "--without", "validation data")) == [
        "finetune",
        "sisa",
    ]
    assert listed("--without", "labels") == {}
    assert list(listed("--without", "class logits")) == ["finetune", "msg", "retrain"]
    text = (
        CliRunner()
        .invoke(main, ["list", "methods", "--without", "training-time hooks"])
        .stdout.splitlines()
    )
    assert text[0].split() == ["name", "needs", "what"]
    assert [line.split()[0] for line in text[1:]] == ["finetune", "msg", "retrain"]
    assert "retain data, forget data, labels" in text[2]


def test_wrong_uses_of_without(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["list", "methods", "--without", "sleep"])
    assert (
        found.exit_code == 2
        and "'sleep' is not one of" in found.stderr
        and len(found.stderr.splitlines()) == 1
    )
    assert "attacks have no needs" in fail("list", "attacks", "--without", "labels").line


def test_forget_without(world: World, tmp_path: Path) -> None:
    line = fail(
        *forget(world, tmp_path / "out", "--method", "msg", "--without", "forget data")
    ).line
    assert (
        "it needs forget data, which is withheld" in line
        and "unplug list methods --without 'forget data'" in line
    )
    assert not (tmp_path / "out").exists()
    words = [
        *map(
            str, forget(world, tmp_path / "out", "--method", "finetune", "--without", "forget data")
        )
    ]
    done = CliRunner().invoke(main, [*words, "--without", "validation data", "--json"])
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["needs"] == ["retain data", "labels"]
    assert said["memory"]["estimate"]["total"] > 10**6 and said["memory"]["measured_peak"] is None


def test_forget_says_that_memory_is_short(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.sdk.forgetting.unlearning.memory.free_memory", lambda _: 2**20)
    line = fail(*forget(world, tmp_path / "out")).line
    assert "where 1.0 MiB are free" in line and "No batch size fits" in line
    assert not (tmp_path / "out").exists()


def test_a_method_with_hooks_is_refused_on_a_plain_original(world: World, tmp_path: Path) -> None:
    line = fail(*forget(world, tmp_path / "out", "--method", "sisa")).line
    assert "it needs training-time hooks, and there is none" in line
