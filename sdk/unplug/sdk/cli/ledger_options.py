"""What the commands of the ledger share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unplug.core import counted, table

from .base import Outcome

if TYPE_CHECKING:
    from unplug.trust.ledger import LedgerEntry, Request

F = TypeVar("F", bound=Callable[..., Any])


def ledger_option(function: F) -> F:
    """Adds --ledger PLACE."""
    return click.option(
        "--ledger",
        "where",
        metavar="PLACE",
        envvar="UNPLUG_LEDGER",
        help="A file, or postgresql://USER@HOST/DATABASE (default: ~/.local/share/unplug/ledger.db).",
    )(function)


def with_ledger(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Adds --ledger to a command, which gets the ledger as `opened`."""

    @ledger_option
    @functools.wraps(function)
    def inside(*args: Any, where: str | None, **kwargs: Any) -> Outcome:
        from unplug.trust.ledger import open_ledger

        return function(*args, opened=open_ledger(where), **kwargs)

    return inside


def request_facts(request: Request) -> dict[str, Any]:
    """A request ready for JSON."""
    return {
        "request": request.id,
        "entry": request.sequence,
        "state": request.state,
        "received": str(request.received),
        "due": str(request.due),
        "extended": request.extended,
        "identity": request.identity,
        "names": len(request.subjects),
        "shredded": request.shredded,
    }


def history_text(entries: Sequence[LedgerEntry]) -> str:
    """Entries as lines, below each its facts as they stand there: who compares a hash or reads a
    reason needs all of it.
    """
    rows = [[str(entry.sequence), entry.at, _kind(entry), entry.note] for entry in entries]
    head, *lines = table(["entry", "at", "what", ""], rows).splitlines()
    told = [head]
    for line, entry in zip(lines, entries, strict=True):
        told += [line, *(f"{' ' * 7}{name} {entry.facts[name]}" for name in sorted(entry.facts))]
    return "\n".join(told)


def _kind(entry: LedgerEntry) -> str:
    some = entry.kind == "withdrawn" and entry.subjects
    return f"{counted(len(entry.subjects), 'name')} withdrawn" if some else entry.kind
