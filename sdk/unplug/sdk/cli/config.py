"""``unplug config``."""

from __future__ import annotations

import os
from typing import Any

import click

from unplug.core import table

from .base import Common, Outcome, command


@click.command()
@command
def config(common: Common) -> Outcome:
    """Show what commands below this project go by, and where each value comes from."""
    from unplug.sdk.project import FILE, VARIABLES, ProjectFolder

    settings = ProjectFolder.open().settings
    rows: list[dict[str, Any]] = []
    for key, value in settings.rows():
        source = FILE if key in settings.given else "default"
        variable = VARIABLES.get(key, "")
        if told := os.environ.get(variable):
            value, source = told, variable
        rows.append({"key": key, "value": value, "from": source})
    shown = [(row["key"], _shown(row["value"]), row["from"]) for row in rows]
    return Outcome(value=rows, text=table(("key", "value", "from"), shown))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} = {inner}" for key, inner in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
