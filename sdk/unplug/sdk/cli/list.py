"""``unplug list``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from .base import Common, Outcome, command, table

REGISTRIES = {
    "methods": "unplug.sdk.forget.method:METHODS",
    "attacks": "unplug.sdk.audit.attack:ATTACKS",
    "targets": "unplug.export:TARGETS",
    "precisions": "unplug.export:PRECISIONS",
    "devices": "unplug.mobile_bench:DEVICES",
    "data": "unplug.sdk.data.source:SOURCES",
}


@click.command("list")
@click.argument("kind", type=click.Choice(list(REGISTRIES)))
@command
def list_(kind: str, common: Common) -> Outcome:
    """List what is registered, third parties' entry points included."""
    module, attribute = REGISTRIES[kind].split(":")
    registry = getattr(import_module(module), attribute)
    rows = [{"name": name, "summary": _summary(registry.get(name))} for name in registry]
    return Outcome(value=rows, text=table(("name", "what"), [(row["name"], row["summary"]) for row in rows]))


def _summary(item: Any) -> str:
    described = getattr(item, "description", None)
    if isinstance(described, str):
        return described
    module_doc = import_module(item.__module__).__doc__ if hasattr(item, "__module__") else ""
    text = (module_doc or item.__doc__ or "").strip()
    return " ".join(text.split("\n\n")[0].split())
