"""Options that come from a configuration dataclass: a new field is a new option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import click
import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main, options
from unplug.sdk.cli.main import COMMANDS


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
    monkeypatch.setattr(options, "import_module", lambda _: type("module", (), {"Slower": Slower}))
    command = options.ConfiguredCommand("slow", config="somewhere:Slower", callback=lambda **found: seen.update(found))
    done = CliRunner().invoke(command, words.split())
    if isinstance(given, str):
        assert done.exit_code == 2 and given in done.stderr
    else:
        assert done.exit_code == 0, done.stderr
        assert {key: value for key, value in seen.items() if value} == given
        assert Slower(**{key: value for key, value in seen.items() if value is not None}) == Slower(**given)
    text = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert "How often, at least 1 (default 4)." in text and "A share (default 0.5)." in text and "Whether it hurries." in text


def test_every_option_of_a_configuration_has_a_help() -> None:
    for name in COMMANDS:
        found = main.get_command(click.Context(main), name)
        for command in found.commands.values() if isinstance(found, click.Group) else [found]:
            if isinstance(command, options.ConfiguredCommand):
                context = click.Context(command)
                assert all(item.help for item in command.get_params(context) if isinstance(item, click.Option)), command.name
