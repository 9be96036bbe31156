"""Fields as options: messages below the command line name a field in backticks, and here it becomes
a flag.

``Give it as `fleet` `` is printed as ``Give it as --fleet`` by a command that has the option, and
```method=folds` `` as ``--method folds``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

FIELD = re.compile(r"`([a-z][a-z0-9_]*)(?:=([^`]*))?`")
SETTINGS = "--set"


def with_flags(text: str) -> str:
    """A text for the command that runs: its fields as flags, other words in backticks as they are."""
    context = click.get_current_context(silent=True)
    return text if context is None else as_flags(text, flags_of(context.command))


def flags_of(command: click.Command) -> dict[str, str]:
    """Each field that a command has an option for, by the option's own words and by the name of its
    parameter.
    """
    flags: dict[str, str] = {}
    for option in command.params:
        if isinstance(option, click.Option):
            longest = max(option.opts, key=len)
            flags[str(option.name)] = longest
            # The words of the option, too: `data` and `spec` are both --data.
            flags |= {name.lstrip("-").replace("-", "_"): name for name in option.opts}
    return flags


def as_flags(text: str, flags: Mapping[str, str]) -> str:
    """A text with its fields as flags.

    Args:
        text: fields stand in backticks, with a value or without.
        flags: the flags by field. Where they have ``--set``, a setting of something else is given
            with that.

    Example:
        >>> as_flags("Use `lr=0.1` or `fleet`, see `x` and `unplug list`", {"fleet": "--fleet", "set": "--set"})
        'Use --set lr=0.1 or --fleet, see `x` and `unplug list`'
    """

    def flag(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name in flags:
            return flags[name] if value in (None, "True") else f"{flags[name]} {value}"
        if value is not None and SETTINGS in flags.values():
            return f"{SETTINGS} {name}={value}"
        return found.group()

    return FIELD.sub(flag, text)
