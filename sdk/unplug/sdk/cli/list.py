"""``unplug list``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from unplug.core import InputError, table

from .base import Common, Outcome, command
from .options import without_option

REGISTRIES = {
    "methods": "unplug.sdk.forgetting.unlearning.method:METHODS",
    "erasures": "unplug.sdk.forgetting.erasing:ERASURES",
    "designs": "unplug.sdk.forgetting.unlearning:DESIGNS",
    "tasks": "unplug.sdk.forgetting.tasks:TASKS",
    "attacks": "unplug.sdk.evidence.auditing.attack:ATTACKS",
    "targets": "unplug.export:TARGETS",
    "precisions": "unplug.export:PRECISIONS",
    "devices": "unplug.mobile_bench:DEVICES",
    "conditions": "unplug.plugins.conditions:CONDITIONS",
    "data": "unplug.sdk.learning.data.source:SOURCES",
    "age-protocols": "unplug.sdk.evidence.assurance:PROTOCOLS",
    "backends": "unplug.sdk.evidence.fleet:BACKENDS",
    "gates": "unplug.sdk.releasing:QUESTIONS",
}


@click.command("list")
@click.argument("kind", type=click.Choice(list(REGISTRIES)))
@without_option("Only methods that do not need this, such as 'forget data'. May be repeated.")
@command
def list_(kind: str, without: tuple[str, ...], common: Common) -> Outcome:
    """List what is registered, third parties' entry points included."""
    if without and kind != "methods":
        raise InputError(
            f"--without {without[0]!r}",
            f"{kind} have no needs",
            "Use it with `unplug list methods`",
        )
    module, attribute = REGISTRIES[kind].split(":")
    registry = getattr(import_module(module), attribute)
    items = {name: registry.get(name) for name in sorted(registry)}
    if kind != "methods":
        rows = [{"name": name, "summary": _summary(item)} for name, item in items.items()]
        return Outcome(
            value=rows,
            text=table(("name", "what"), [(row["name"], row["summary"]) for row in rows]),
        )
    methods = [
        {"name": name, "needs": list(item.needs), "summary": _summary(item)}
        for name, item in items.items()
        if not set(item.needs) & set(without)
    ]
    cells = [(row["name"], ", ".join(row["needs"]), row["summary"]) for row in methods]
    return Outcome(value=methods, text=table(("name", "needs", "what"), cells))


def _summary(item: Any) -> str:
    for attribute in ("description", "summary"):
        described = getattr(item, attribute, None)
        if isinstance(described, str):
            return described
    module_doc = import_module(item.__module__).__doc__ if hasattr(item, "__module__") else ""
    text = (module_doc or item.__doc__ or "").strip()
    return " ".join(text.split("\n\n")[0].split())
