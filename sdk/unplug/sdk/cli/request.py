"""``unplug request``: who asks to be forgotten."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Any

import click

from . import ledger
from .base import Common, Outcome, command, folded
from .defaults import open_project
from .ledger_options import request_facts


@click.group()
def request() -> None:
    """Add, list, show or withdraw this project's requests to be forgotten."""


request.add_command(ledger.list_)
request.add_command(ledger.status, "show")
request.add_command(ledger.withdraw)


@request.command()
@click.argument("person")
@click.option(
    "--id",
    "name",
    help="Your own number of the request, which stands in clear: never a name (default: random).",
)
@ledger.received_option("The day on which it came (default: today).")
@click.option("--identity", default="", help="How it was checked who asks, without names.")
@command
def add(
    person: str, name: str | None, received: date | None, identity: str, common: Common
) -> Outcome:
    """Record that PERSON, a name in the data, asks to be forgotten; the same one twice is recorded
    once.
    """
    made = open_project().request(person, id=name, received=received, identity=identity)
    asked = made.request
    lines = [
        folded(made.person.shown),
        f"request {asked.id}: received {asked.received}, due {asked.due}"
        + ("" if made.new else " (it was there already, nothing was added)"),
        folded(made.way or "`unplug answer` answers it"),
    ]
    value: dict[str, Any] = request_facts(asked) | {
        "new": made.new,
        "person": asdict(made.person),
    }
    return Outcome(value=value, text="\n".join(lines))
