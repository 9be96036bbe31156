"""The command line itself: helps, JSON, laziness, tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from unplug.core import InputError, table
from unplug.sdk.cli import main
from unplug.sdk.cli.base import clean, names, percent, settings
from unplug.sdk.cli.list import REGISTRIES
from unplug.sdk.cli.main import COMMANDS
from unplug.sdk.releasing import Release


def commands(group: click.Group = main, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The words of each command, groups included, and what they name."""
    yield words, group
    for name in group.list_commands(click.Context(group)):
        item = group.get_command(click.Context(group), name)
        assert item is not None
        yield from commands(item, (*words, name)) if isinstance(item, click.Group) else [((*words, name), item)]


def test_help() -> None:
    for words, item in commands():
        result = CliRunner().invoke(main, [*words, "--help"])
        assert result.exit_code == 0 and result.stderr == ""
        assert result.stdout.startswith(" ".join(["Usage: main", *words]))
        if not isinstance(item, click.Group):
            assert {"as_json", "seed", "device_name"} <= {parameter.name for parameter in item.params}
        for option in item.get_params(click.Context(item)):
            if isinstance(option, click.Option) and "on_bad" not in str(option.name):
                assert option.help or option.type.name == "choice", f"{words} {option.opts} has no help"


def test_every_command_has_its_line_in_the_help() -> None:
    text = CliRunner().invoke(main, ["--help"]).stdout
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in text and line.split(",")[0].split(";")[0][:40] in " ".join(text.split())
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


def test_bundle_commands_as_json(released: Release) -> None:
    verified = json.loads(CliRunner().invoke(main, ["bundle", "verify", str(released.bundle), "--json"]).stdout)
    assert verified["signed"] is False and verified["files"] > 8
    manifest = json.loads(CliRunner().invoke(main, ["bundle", "inspect", str(released.bundle), "--json"]).stdout)
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
    assert table(("name", "value"), [("a", "1.5"), ("long", "10.25")]) == "name  value\na       1.5\nlong  10.25"
    assert (percent(0.051), percent(None)) == ("5.1 %", "?")
