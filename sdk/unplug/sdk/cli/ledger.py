"""``unplug ledger``: requests on record, from the day they come to the day they are answered."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unplug.core import InputError, KnownNames, counted, sha256_file, table

from .base import Common, Outcome, command, settings
from .ledger_evidence import checkpoint, export, prove, role, verify
from .ledger_models import queue, touch
from .ledger_options import history_text, request_facts, with_ledger
from .options import option, path_option, spec_option

if TYPE_CHECKING:
    from unplug.trust.ledger import Ledger

F = TypeVar("F", bound=Callable[..., Any])
RECORDED = ("identity", "informed", "step", "try", "audit", "release", "revocation", "answered")
"""`unplug.trust.ledger.RECORDED`: a help text imports nothing of it."""


@click.group()
def ledger() -> None:
    """Keep requests to be forgotten on record: who is due when, what was done, and proof that
    nothing was changed since.

    Names of people are never kept: digests under your key stand for them. --ledger (or
    UNPLUG_LEDGER) names a file or a postgresql:// URL.
    """


for made in (touch, queue, checkpoint, prove, verify, export, role):
    ledger.add_command(made)


@ledger.command()
@click.option(
    "--origin",
    "name",
    metavar="NAME",
    help="Public name of a new signing key, for example example.com (default: random).",
)
@command
@with_ledger
def init(opened: Ledger, name: str | None, common: Common) -> Outcome:
    """Make a ledger and the key that signs it, or bring an older one up to date."""
    from unplug.trust.ledger import make_signing_key, signing_key_file

    signer = make_signing_key(name)
    first = opened.create()
    value = {"ledger": opened.shown, "origin": first.facts["origin"], "vkey": signer.verifier.text}
    text = (
        f"{opened.shown} is the ledger {value['origin']}\n"
        f"Its entries are signed by the key in {signing_key_file()}: keep a copy.\n"
        f"Keep its public key elsewhere, for `unplug ledger verify --trust`:\n{value['vkey']}"
    )
    return Outcome(value=value, text=text)


def _day(
    _context: click.Context, _parameter: click.Parameter, value: datetime | None
) -> date | None:
    return None if value is None else value.date()


def received_option(text: str) -> Callable[[F], F]:
    """--received DAY."""
    return click.option("--received", type=click.DateTime(["%Y-%m-%d"]), callback=_day, help=text)


@ledger.command()
@click.option(
    "--id",
    "name",
    help="Your own number of the request, which stands in clear: never a name (default: random).",
)
@path_option(
    "--forget",
    "forget_file",
    help="Forget file that names the person.",
)
@click.option(
    "--person",
    "people",
    multiple=True,
    metavar="NAME",
    help="A sample id or subject:NAME; may be repeated.",
)
@spec_option("Refuse names that these data do not hold.", required=False)
@received_option("The day on which it came (default: today).")
@click.option("--identity", default="", help="How it was checked who asks, without names.")
@command
@with_ledger
def add(
    opened: Ledger,
    name: str | None,
    forget_file: Path | None,
    people: tuple[str, ...],
    spec: str | None,
    received: date | None,
    identity: str,
    common: Common,
) -> Outcome:
    """Record a request to be forgotten; the same one twice is recorded once.

    Names on the command line can be read by others on the machine and stay in your shell's history:
    a file is better.
    """
    from unplug.sdk.learning.data import read_forget_names

    from .ledger_models import samples_in

    data = samples_in(spec) if spec else {}
    names = [*people, *(read_forget_names(forget_file, data) if forget_file else [])]
    known = KnownNames(data) if spec else None
    request, new = opened.add(names, id=name, received=received, identity=identity, known=known)
    text = (
        f"request {request.id} is entry {request.sequence}: received {request.received}, due "
        f"{request.due}"
    )
    return Outcome(
        value=request_facts(request) | {"new": new},
        text=text if new else f"{text} (it was there already, nothing was added)",
    )


@ledger.command("list")
@click.option(
    "--all", "everything", is_flag=True, help="List answered, refused and withdrawn requests too."
)
@command
@with_ledger
def list_(opened: Ledger, everything: bool, common: Common) -> Outcome:
    """List the requests that wait, and what they wait for."""

    requests = [item for item in opened.requests().values() if everything or item.waiting]
    rows = [
        [item.id, item.state, str(item.received), str(item.due), str(len(item.subjects))]
        for item in requests
    ]
    text = (
        table(["request", "state", "received", "due", "names"], rows)
        if rows
        else "no request waits"
    )
    return Outcome(value=[request_facts(item) for item in requests], text=text)


@ledger.command()
@option(
    "--within",
    type=click.IntRange(0, 3660),
    default=7,
    help="Days that count as soon.",
)
@command
@with_ledger
def due(opened: Ledger, within: int, common: Common) -> Outcome:
    """List what is late or due soon (exit 1: something is late)."""

    today = opened.today()
    waiting = sorted(
        (item for item in opened.requests().values() if item.waiting),
        key=lambda item: (item.due, item.sequence),
    )
    soon = [(item, item.days_left(today)) for item in waiting if item.days_left(today) <= within]
    late = sum(left < 0 for _, left in soon)
    rows = [
        [
            item.id,
            item.state,
            str(item.due),
            f"{counted(-left, 'day')} late" if left < 0 else f"in {counted(left, 'day')}",
        ]
        for item, left in soon
    ]
    text = (
        f"{late} late, {len(soon) - late} due within {counted(within, 'day')}, {len(waiting)} "
        f"waiting in all, on {today}"
    )
    value = {
        "today": str(today),
        "late": late,
        "waiting": len(waiting),
        "due": [request_facts(item) | {"days_left": left} for item, left in soon],
    }
    return Outcome(
        value=value,
        text=f"{table(['request', 'state', 'due', ''], rows)}\n{text}" if rows else text,
        ok=not late,
    )


@ledger.command()
@click.argument("request")
@command
@with_ledger
def status(opened: Ledger, request: str, common: Common) -> Outcome:
    """Show how one request stands, and every entry about it."""
    from unplug.trust.ledger import pick

    asked = pick(opened.requests(), request)
    names = "nobody can tell whom it named" if asked.shredded else f"names {len(asked.subjects)}"
    text = f"request {asked.id}: {asked.state}, received {asked.received}, due {asked.due}, {names}"
    value = request_facts(asked) | {
        "history": [
            {
                "sequence": entry.sequence,
                "at": entry.at,
                "kind": entry.kind,
                "note": entry.note,
                "facts": dict(entry.facts),
            }
            for entry in asked.history
        ]
    }
    return Outcome(value=value, text=f"{text}\n{history_text(asked.history)}")


@ledger.command()
@click.argument("request")
@click.option("--reason", required=True, help="The reason, without names: the person is told.")
@command
@with_ledger
def extend(opened: Ledger, request: str, reason: str, common: Common) -> Outcome:
    """Add two months, within the first and once."""

    entry = opened.extend(request, reason)
    text = (
        f"request {request} is due {entry.due} (entry {entry.sequence}); tell the person, with the "
        "reason"
    )
    return Outcome(value={"request": request, "due": entry.due, "entry": entry.sequence}, text=text)


@ledger.command()
@click.argument("request")
@click.option("--reason", required=True, help="The reason, without names: the person is told.")
@command
@with_ledger
def refuse(opened: Ledger, request: str, reason: str, common: Common) -> Outcome:
    """End a request by a refusal."""

    entry = opened.refuse(request, reason)
    text = (
        f"request {request} is refused (entry {entry.sequence}); tell the person, with the reason "
        "and where to complain"
    )
    return Outcome(value={"request": request, "entry": entry.sequence}, text=text)


@ledger.command()
@click.argument("request")
@click.option("--reason", default="", help="The reason, without names.")
@click.option(
    "--person",
    "people",
    multiple=True,
    metavar="NAME",
    help="Take only this name out of it; may be repeated.",
)
@command
@with_ledger
def withdraw(
    opened: Ledger, request: str, reason: str, people: tuple[str, ...], common: Common
) -> Outcome:
    """End a request that the person has taken back, or take names out of it: a mistyped one, or one
    of other data.
    """

    entry = opened.withdraw(request, reason, people)
    asked = opened.requests()[request]
    text = f"request {request} is {asked.state} (entry {entry.sequence})"
    if asked.waiting:
        text = (
            f"request {request} names {len(asked.subjects)} now (entry {entry.sequence}) and is "
            f"{asked.state}"
        )
    value = {
        "request": request,
        "entry": entry.sequence,
        "state": asked.state,
        "names": len(asked.subjects),
    }
    return Outcome(value=value, text=text)


@ledger.command()
@click.argument("request", default="")
@received_option("The day on which it came; its deadline is counted anew.")
@click.option(
    "--clock",
    is_flag=True,
    help="The clock is right, and was ahead when an earlier entry was written.",
)
@click.option(
    "--rekey",
    "key",
    is_flag=True,
    help="Add requests under the operator's key that is here, or a new one.",
)
@click.option("--reason", required=True, help="The reason, without names.")
@command
@with_ledger
def correct(
    opened: Ledger,
    request: str,
    received: date | None,
    clock: bool,
    key: bool,
    reason: str,
    common: Common,
) -> Outcome:
    """Correct the day on which REQUEST came, or go on after a clock that was ahead or a key that is
    lost.
    """

    entry = opened.correct(reason, id=request, received=received, clock=clock, key=key)
    value = {
        "entry": entry.sequence,
        "request": request or None,
        "due": entry.due,
        "facts": dict(entry.facts),
    }
    lines = [
        f"entry {entry.sequence}: corrected"
        + (f", and {request} is due {entry.due}" if request else "")
    ]
    today = opened.today()
    ahead = {
        item.id: str(item.received)
        for item in opened.requests().values()
        if item.waiting and item.received > today
    }
    lines += [
        f"{id} says that it came on {day}: correct it with --received" for id, day in ahead.items()
    ]
    return Outcome(value=value | {"to_come": ahead}, text="\n".join(lines))


@ledger.command()
@click.argument("kind", type=click.Choice(RECORDED))
@click.argument("requests", nargs=-1)
@click.option("--note", default="", help="The deed, or who was told, without names of people.")
@path_option(
    "--file",
    "files",
    multiple=True,
    help="File whose SHA-256 is kept; no forget file: its names could be guessed. May be repeated.",
)
@click.option(
    "--fact", "pairs", multiple=True, metavar="KEY=VALUE", help="Another fact; may be repeated."
)
@command
@with_ledger
def record(
    opened: Ledger,
    kind: str,
    requests: tuple[str, ...],
    note: str,
    files: tuple[Path, ...],
    pairs: tuple[str, ...],
    common: Common,
) -> Outcome:
    """Record what was done about REQUESTS: an identity check, a step, an audit, a release, a
    recipient informed, an answer.

    With `answered` it warns of what stays of the person, as far as the ledger knows.
    """
    from unplug.trust.certificates import remainder_on_record

    facts = settings(pairs, "pairs") | {f"sha256 {path.name}": sha256_file(path) for path in files}
    entry = opened.record(kind, requests, note=note, facts=facts)
    about = f" about {', '.join(entry.requests)}" if entry.requests else ""
    others = [name for name in dict.fromkeys(requests) if name not in entry.requests]
    known = opened.requests() if kind == "answered" else {}
    stays = {name: remainder_on_record(known[name]) for name in entry.requests if known}
    value = {
        "entry": entry.sequence,
        "kind": kind,
        "requests": list(entry.requests),
        "facts": facts,
    }
    lines = [f"entry {entry.sequence}: {kind}{about}"]
    lines += [f"{name} stays open: other models hold samples of it" for name in others]
    lines += [*(f"warning: {name}: {text}" for name, text in stays.items())]
    return Outcome(value=value | ({"stays": stays} if stays else {}), text="\n".join(lines))


@ledger.command()
@click.argument("request")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@command
@with_ledger
def shred(opened: Ledger, request: str, yes: bool, common: Common) -> Outcome:
    """Delete the salt of a request that is over, so that nobody, with any key, can tell whom it
    named.
    """

    if not yes and (common.as_json or not sys.stdin.isatty()):
        raise InputError(
            f"request {request}",
            "shredding cannot be undone, and there is no terminal to ask on",
            "Add --yes",
        )
    if not yes and not click.confirm(
        f"Shred the salt of {request}? Nobody can then tell whom it named."
    ):
        return Outcome(value=None, text="nothing was shredded")
    entry, emptied = opened.shred(request)
    text = (
        f"the salt of request {request} is shredded (entry {entry.sequence}); delete it in backups "
        "of the ledger as well"
    )
    if not emptied:
        text += (
            "\nA reader kept it in SQLite's log; it goes with the next command that writes while "
            "nobody reads"
        )
    return Outcome(
        value={"request": request, "entry": entry.sequence, "log_emptied": emptied}, text=text
    )
