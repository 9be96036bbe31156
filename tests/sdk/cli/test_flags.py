"""Messages name fields, and a command prints its own flags."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from unplug.sdk.cli.flags import as_flags, flags_of, with_flags


@click.command()
@click.option("--out", "-o")
@click.option("--on-bad")
@click.option("--restart", is_flag=True)
@click.option("--data", "spec")
@click.option("--set", "pairs", multiple=True)
def command(**_: object) -> None:
    click.echo(with_flags("Choose another `out`"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Choose another `out`", "Choose another --out"),
        ("pass `on_bad=skip`", "pass --on-bad skip"),
        ("Pass `restart=True` to begin again", "Pass --restart to begin again"),
        ("Give `data` or `spec`", "Give --data or --data"),
        ("Lower `lr=...`", "Lower --set lr=..."),
        ("Lower `lr`, see `unplug list` and `Thing`", "Lower `lr`, see `unplug list` and `Thing`"),
    ],
)
def test_a_field_becomes_the_commands_flag(text: str, said: str) -> None:
    assert as_flags(text, flags_of(command)) == said


def test_the_running_command_gives_the_flags() -> None:
    assert with_flags("Choose another `out`") == "Choose another `out`"
    assert CliRunner().invoke(command).stdout == "Choose another --out\n"
