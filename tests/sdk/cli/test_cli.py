"""The command line itself: helps, JSON, laziness, tables, options that come from a configuration
dataclass, written splits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import click
import pytest
from click.testing import CliRunner

from unplug.core import InputError, table
from unplug.sdk.cli import COMMANDS, main, options_of
from unplug.sdk.cli.base import clean, names, percent, settings
from unplug.sdk.cli.list import REGISTRIES
from unplug.sdk.learning.data import load_split, save_split
from unplug.sdk.releasing import Release

from .calls import refused, run, said, train


def commands(
    group: click.Group = main, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The words of each command, groups included, and what they name."""
    yield words, group
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def test_every_command_and_option_has_a_help() -> None:
    for words, command in commands():
        result = run(" ".join([*words, "--help"]))
        assert result.stderr == "" and result.stdout.startswith(" ".join(["Usage: main", *words]))
        if not isinstance(command, click.Group):
            assert "as_json" in {parameter.name for parameter in command.params}
        for option in command.get_params(click.Context(command)):
            if isinstance(option, click.Option) and "on_bad" not in str(option.name):
                told = option.help or option.type.name == "choice"
                assert told, f"{words} {option.opts} has no help"
    text = " ".join(run("--help").stdout.split())
    for name, lazy in COMMANDS.items():
        assert text.count(f" {name} {lazy.line.split(',')[0].split(';')[0][:40]}") == 1
    for group in ("Start", "Forget", "Ship", "Evidence", "Draw", "Measure", "Maintain"):
        assert (
            f" {group}: {next(n for n, lazy in COMMANDS.items() if lazy.group == group)} " in text
        )
    assert "0 all good; 1 a gate or check failed; 2 bad usage or input" in text
    assert "unplug " in run("--version").stdout


@pytest.mark.parametrize("kind", REGISTRIES)
def test_list(kind: str) -> None:
    rows, text = said(f"list {kind}"), run(f"list {kind}").stdout
    assert rows and [row["name"] for row in rows] == sorted(row["name"] for row in rows)
    for row in rows:
        assert row["summary"] and "\n" not in row["summary"] and row["name"] in text


@pytest.mark.long
def test_bundle_commands_as_json(released: Release) -> None:
    verified = said(f"bundle verify {released.bundle}")
    assert verified["signed"] is False and verified["files"] > 8
    manifest = json.loads((released.bundle / "manifest.json").read_text())
    assert said(f"bundle inspect {released.bundle}") == manifest
    text = run(f"bundle inspect {released.bundle}").stdout
    assert "artifacts/age.fp32.tflite" in text and "of retraining" in text


def test_clean_makes_json_of_anything() -> None:
    value = {"a": math.nan, "b": [math.inf, 1.5, (True, None)], 3: Path("x")}
    assert clean(value) == {"a": None, "b": [None, 1.5, [True, None]], "3": "x"}


def test_words_of_options_and_of_tables() -> None:
    assert settings(("a=1", "b=x=y")) == {"a": "1", "b": "x=y"}
    with pytest.raises(InputError, match="KEY=VALUE"):
        settings(("a",))
    assert names(" a, b,,c ") == ("a", "b", "c")
    assert (percent(0.051), percent(None)) == ("5.1 %", "?")
    aligned = "name  value\na       1.5\nlong  10.25"
    assert table(("name", "value"), [("a", "1.5"), ("long", "10.25")]) == aligned


@dataclass(frozen=True, kw_only=True)
class Slow:
    """How slow.

    Args:
        steps, turns: how often, at
            least 1.
        fast: whether it hurries.
    """

    steps: int = 3
    turns: int = 4
    fast: bool = False
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"steps": (1, 9)}


@dataclass(frozen=True, kw_only=True)
class Slower(Slow):
    """Slower still.

    Args:
        rate_of: a share.
        mode: what it is.
    """

    rate_of: float = 0.5
    mode: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("", {}),
        (
            "--steps 9 --turns 99 --fast --rate-of 2 --mode b",
            {"steps": 9, "turns": 99, "fast": True, "rate_of": 2.0, "mode": "b"},
        ),
        ("--steps 10", "--steps"),
        ("--mode c", "--mode"),
    ],
)
def test_fields_are_options(words: str, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    module = type("module", (), {"Slower": Slower})
    monkeypatch.setattr(options_of, "import_module", lambda _: module)
    command = options_of.ConfiguredCommand(
        "slow", config="somewhere:Slower", callback=lambda **options: seen.update(options)
    )
    done = CliRunner().invoke(command, words.split())
    if isinstance(given, str):
        assert done.exit_code == 2 and given in done.stderr
    else:
        assert done.exit_code == 0, done.stderr
        assert Slower(**options_of.given(Slower, seen)) == Slower(**given)
    text = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    for line in ("How often, at least 1 (default 4).", "A share (default 0.5).", "Whether it hurr"):
        assert line in text


def test_a_written_split_is_read_back_and_one_with_a_forget_set_is_not_trained_on(
    tmp_path: Path,
) -> None:
    out, spec = tmp_path / "split.json", "synth:n=40,subjects=20"
    value = said(f"data split {spec} --pixels 32 --out {out} --seed 3")
    split = load_split(out)
    assert value["sha256"] == split.sha256 and value["subject_disjoint"]
    for part in ("train", "validation", "test"):
        assert value[part] == len(getattr(split, part))
    save_split(split.with_forget(split.train[:2]), out)
    assert "it names a forget set" in refused(train(spec, tmp_path / "age", f"--split {out}"))
    assert not (tmp_path / "age").exists()
