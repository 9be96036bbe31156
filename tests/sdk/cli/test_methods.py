"""Methods that must do with less, listed and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import World
from .calls import forget, refused, run, said

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
    targets = {name: f"{PLACE}.{name}:{target}" for name, target in names.items()}
    monkeypatch.setattr("unplug.sdk.cli.list._targets", lambda _kind: targets)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("without", "listed"),
    [
        ((), [*NEEDS]),
        (("forget data",), ["finetune", "retrain", "sisa"]),
        (("forget data", "validation data"), ["finetune", "sisa"]),
        (("labels",), []),
        (("class logits",), ["finetune", "msg", "retrain"]),
    ],
)
def test_methods_are_listed_by_what_they_need(without: tuple[str, ...], listed: list[str]) -> None:
    line = " ".join(["list methods", *(f"--without '{need}'" for need in without)])
    assert said(line) == [row for row in said("list methods") if row["name"] in listed]
    assert {row["name"]: row["needs"] for row in said("list methods")} == NEEDS
    head, *lines = run(line).stdout.splitlines()
    assert head.split() == ["name", "needs", "what"]
    assert [text.split()[0] for text in lines] == listed
    assert all(", ".join(NEEDS[name]) in text for name, text in zip(listed, lines, strict=True))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("list methods --without sleep", "'sleep' is not one of"),
        ("list attacks --without labels", "attacks have no needs"),
    ],
)
def test_wrong_uses_of_without(line: str, words: str) -> None:
    assert words in refused(line)


def test_forget_without(world: World, tmp_path: Path) -> None:
    without = "--without 'forget data'"
    line = refused(forget(world, tmp_path / "out", f"--method msg {without}"))
    assert "it needs forget data, which is withheld" in line
    assert f"unplug list methods {without}" in line and not (tmp_path / "out").exists()
    how = f"--method finetune {without} --without 'validation data'"
    done = said(forget(world, tmp_path / "out", how))
    assert done["needs"] == ["retain data", "labels"]
    assert done["memory"]["estimate"]["total"] > 10**6 and done["memory"]["measured_peak"] is None


def test_forget_says_that_memory_is_short(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.sdk.forgetting.unlearning.memory.free_memory", lambda _: 2**20)
    line = refused(forget(world, tmp_path / "out"))
    assert "where 1.0 MiB are free" in line and "No batch size fits" in line
    assert not (tmp_path / "out").exists()


def test_a_method_with_hooks_is_refused_on_a_plain_original(world: World, tmp_path: Path) -> None:
    line = refused(forget(world, tmp_path / "out", "--method sisa"))
    assert "it needs training-time hooks, and there is none" in line
