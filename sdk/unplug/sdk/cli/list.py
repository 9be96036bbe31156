"""``unplug list``: what is registered, read from the sources, so that nothing of it is imported and
nothing need be installed.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from unplug.core import InputError, Registry, table

from .base import Common, Outcome, command
from .options import without_option

REGISTRIES = {
    "methods": "unplug.sdk.forgetting.unlearning.method:METHODS",
    "erasures": "unplug.sdk.forgetting.erasing.method:ERASURES",
    "designs": "unplug.sdk.forgetting.unlearning.design:DESIGNS",
    "tasks": "unplug.sdk.forgetting.tasks.stored:TASKS",
    "attacks": "unplug.sdk.evidence.auditing.attack:ATTACKS",
    "targets": "unplug.export.targets:TARGETS",
    "precisions": "unplug.export:PRECISIONS",
    "devices": "unplug.mobile_bench.devices:DEVICES",
    "conditions": "unplug.plugins.conditions.condition:CONDITIONS",
    "data": "unplug.sdk.learning.data.source:SOURCES",
    "age-protocols": "unplug.sdk.evidence.assurance.protocol:PROTOCOLS",
    "backends": "unplug.sdk.evidence.fleet.backend:BACKENDS",
    "gates": "unplug.sdk.releasing:QUESTIONS",
}
OBJECTS = {"precisions", "gates"}
"""Kinds that are registered as objects, by modules that need nothing."""


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
    targets = _targets(kind)
    if kind != "methods":
        rows = [{"name": name, "summary": _summary(target)} for name, target in targets.items()]
        return Outcome(
            value=rows,
            text=table(("name", "what"), [(row["name"], row["summary"]) for row in rows]),
        )
    methods: list[dict[str, Any]] = [
        {"name": name, "needs": needs, "summary": _summary(target)}
        for name, target in targets.items()
        if not set(needs := list(_said(target, "needs") or ())) & set(without)
    ]
    cells = [(row["name"], ", ".join(row["needs"]), row["summary"]) for row in methods]
    return Outcome(value=methods, text=table(("name", "needs", "what"), cells))


def _targets(kind: str) -> dict[str, Any]:
    """Name to object, or to where it would be imported from."""
    module, attribute = REGISTRIES[kind].split(":")
    if kind in OBJECTS:
        registry = getattr(import_module(module), attribute)
        return (
            {name: registry[name] for name in sorted(registry)}
            if isinstance(registry, dict)
            else registry.targets()
        )
    call = _value(_source(module).body, attribute)
    assert isinstance(call, ast.Call)
    named = {item.arg: ast.literal_eval(item.value) for item in call.keywords if item.arg}
    made: Registry[Any] = Registry(*map(ast.literal_eval, call.args), **named)
    return made.targets()


def _summary(target: Any) -> str:
    """What it says of itself in a line, else the first paragraph of its file."""
    if not isinstance(target, str):
        return str(getattr(target, "description", None) or target.summary)
    said = _said(target, "description") or _said(target, "summary")
    if isinstance(said, str):
        return said
    text = ast.get_docstring(_source(target.partition(":")[0])) or ""
    return " ".join(text.split("\n\n")[0].split())


def _said(target: str, attribute: str) -> Any:
    """The constant that a class, what it extends, or a call that makes the object gives to an
    attribute; None where there is none.
    """
    module, _, name = target.partition(":")
    body = _source(module).body
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            own = _value(node.body, attribute)
            bases = (f"{module}:{base.id}" for base in node.bases if isinstance(base, ast.Name))
            inherited = (_said(base, attribute) for base in bases)
            return next(filter(None, inherited), None) if own is None else ast.literal_eval(own)
        if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
            above = ".".join(module.split(".")[: -node.level]) if node.level else ""
            there = f"{above}.{node.module or ''}".strip(".")
            ours = there.split(".")[0] == module.split(".")[0]
            return _said(f"{there}:{name}", attribute) if ours else None
    made = _value(body, name)
    if not isinstance(made, ast.Call):
        return None
    values = (item.value for item in made.keywords if item.arg == attribute)
    return next(map(ast.literal_eval, values), None)


def _value(body: list[ast.stmt], name: str) -> ast.expr | None:
    """What is assigned to a name."""
    for node in body:
        if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
            return node.value
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            return node.value
    return None


@cache
def _source(module: str) -> ast.Module:
    """A module as text that was understood; not even its package is imported."""
    top, *rest = module.split(".")
    spec = find_spec(top)
    places = [] if spec is None else spec.submodule_search_locations or []
    files = [f"{Path(place, *rest)}{end}" for place in places for end in (".py", "/__init__.py")]
    if spec is not None and not rest:
        files = [str(spec.origin)]
    for file in files:
        if Path(file).is_file():
            return ast.parse(Path(file).read_bytes())
    raise InputError(module, "no such module", "Install what registers it again")
