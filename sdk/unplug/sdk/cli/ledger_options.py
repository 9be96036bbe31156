"""What the commands of the ledger share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from unplug.sdk.ledger import Entry, Request

F = TypeVar("F", bound=Callable[..., Any])


def ledger_option(function: F) -> F:
    """Adds --ledger PLACE."""
    return click.option(
        "--ledger", "where", metavar="PLACE", envvar="UNPLUG_LEDGER",
        help="A file, or postgresql://USER@HOST/DATABASE (default: ~/.local/share/unplug/ledger.db).",
    )(function)  # fmt: skip


def request_facts(request: Request) -> dict[str, Any]:
    """A request ready for JSON."""
    return {
        "request": request.id, "entry": request.sequence, "state": request.state, "received": str(request.received),
        "due": str(request.due), "extended": request.extended, "identity": request.identity, "names": len(request.subjects),
        "shredded": request.shredded,
    }  # fmt: skip


def facts_of(entry: Entry) -> str:
    """The facts of an entry in one line, hashes shortened."""
    return ", ".join(f"{name} {value[:16]}" for name, value in sorted(entry.facts.items()))
