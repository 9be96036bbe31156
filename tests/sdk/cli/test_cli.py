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


def commands(
    group: click.Group = main, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The words of each command, groups included, and what they name."""
    yield words, group
    for name in group.list_commands(click.Context(group)):
        item = group.get_command(click.Context(group), name)
        assert item is not None
        yield from (
            commands(item, (*words, name))
            if isinstance(item, click.Group)
            else [((*words, name), item)]
        )


def test_help() -> None:
    for words, item in commands():
        result = CliRunner().invoke(main, [*words, "--help"])
        assert result.exit_code == 0 and result.stderr == ""
        assert result.stdout.startswith(" ".join(["Usage: main", *words]))
        if not isinstance(item, click.Group):
            assert {"as_json", "seed", "device_name"} <= {
                parameter.name for parameter in item.params
            }
        for option in item.get_params(click.Context(item)):
            if isinstance(option, click.Option) and "on_bad" not in str(option.name):
                assert option.help or option.type.name == "choice", (
                    f"{words} {option.opts} has no help"
                )


def test_every_command_has_its_line_in_the_help() -> None:
    text = CliRunner().invoke(main, ["--help"]).stdout
    for name, command in COMMANDS.items():
        assert f"  {name} " in text and command.line.split(",")[0].split(";")[0][:40] in " ".join(
            text.split()
        )
    assert "0 all good; 1 a gate or check failed; 2 bad usage or input" in " ".join(text.split())
    assert "unplug " in CliRunner().invoke(main, ["--version"]).stdout


@pytest.mark.parametrize("kind", REGISTRIES)
def test_list(kind: str) -> None:
    rows = json.loads(CliRunner().invoke(main, ["list", kind, "--json"]).stdout)
    text = CliRunner().invoke(main, ["list", kind]).stdout
    assert rows and [row["name"] for row in rows] == sorted(row["name"] for row in rows)
    for row in rows:
        assert row["summary"] and "\n" not in row["summary"]
        assert row["name"] in text


@pytest.mark.long
def test_bundle_commands_as_json(released: Release) -> None:
    verified = json.loads(
        CliRunner().invoke(main, ["bundle", "verify", str(released.bundle), "--json"]).stdout
    )
    assert verified["signed"] is False and verified["files"] > 8
    manifest = json.loads(
        CliRunner().invoke(main, ["bundle", "inspect", str(released.bundle), "--json"]).stdout
    )
    assert manifest == json.loads((released.bundle / "manifest.json").read_text())
    text = CliRunner().invoke(main, ["bundle", "inspect", str(released.bundle)]).stdout
    assert "artifacts/age.fp32.tflite" in text and "of retraining" in text


def test_clean_makes_json_of_anything() -> None:
    value = {"a": math.nan, "b": [math.inf, 1.5, (True, None)], 3: Path("x")}
    assert clean(value) == {"a": None, "b": [None, 1.5, [True, None]], "3": "x"}
    json.dumps(clean(value), allow_nan=False)


def test_settings_and_names() -> None:
    assert settings(("a=1", "b=x=y")) == {"a": "1", "b": "x=y"}
    assert names(" a, b,,c ") == ("a", "b", "c")
    with pytest.raises(InputError, match="KEY=VALUE"):
        settings(("a",))


def test_table_aligns_numbers_to_the_right() -> None:
    assert (
        table(("name", "value"), [("a", "1.5"), ("long", "10.25")])
        == "name  value\na       1.5\nlong  10.25"
    )
    assert (percent(0.051), percent(None)) == ("5.1 %", "?")


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
    monkeypatch.setattr(
        options_of, "import_module", lambda _: type("module", (), {"Slower": Slower})
    )
    command = options_of.ConfiguredCommand(
        "slow", config="somewhere:Slower", callback=lambda **found: seen.update(found)
    )
    done = CliRunner().invoke(command, words.split())
    if isinstance(given, str):
        assert done.exit_code == 2 and given in done.stderr
    else:
        assert done.exit_code == 0, done.stderr
        assert {key: value for key, value in seen.items() if value} == given
        assert Slower(**{key: value for key, value in seen.items() if value is not None}) == Slower(
            **given
        )
    text = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert (
        "How often, at least 1 (default 4)." in text
        and "A share (default 0.5)." in text
        and "Whether it hurries." in text
    )


def test_every_option_of_a_configuration_has_a_help() -> None:
    for name in COMMANDS:
        found = main.get_command(click.Context(main), name)
        for command in found.commands.values() if isinstance(found, click.Group) else [found]:
            if isinstance(command, options_of.ConfiguredCommand):
                context = click.Context(command)
                assert all(
                    item.help
                    for item in command.get_params(context)
                    if isinstance(item, click.Option)
                ), command.name


SPEC = "synth:n=40,subjects=20"


def test_a_written_split_is_read_back_and_one_with_a_forget_set_is_not_trained_on(
    tmp_path: Path,
) -> None:
    out = tmp_path / "split.json"
    done = CliRunner().invoke(
        main, ["data", "split", SPEC, "--size", "32", "--out", str(out), "--json", "--seed", "3"]
    )
    said = json.loads(done.stdout)
    split = load_split(out)
    assert done.exit_code == 0 and said["sha256"] == split.sha256 and said["subject_disjoint"]
    assert (said["train"], said["validation"], said["test"]) == (
        len(split.train),
        len(split.validation),
        len(split.test),
    )

    save_split(split.with_forget(split.train[:2]), out)
    refused = CliRunner().invoke(
        main,
        [
            "train",
            "age",
            "--data",
            SPEC,
            "--image-size",
            "32",
            "--split",
            str(out),
            "--out",
            str(tmp_path / "age"),
        ],
    )
    assert refused.exit_code == 2 and "it names a forget set" in refused.stderr
    assert not (tmp_path / "age").exists()


@pytest.mark.parametrize(
    "words", [("data", "synth"), ("audit", "x", "--data", "synth:n=4", "--forget", "f")]
)
def test_a_place_for_the_result_that_is_missing_is_asked_for(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 2 and done.output.count("\n") == 1 and "--out" in done.output
