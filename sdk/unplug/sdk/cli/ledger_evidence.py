"""``unplug ledger``: checkpoint, prove, verify, export, role: what others can check, and what they
need for it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unplug.core import InputError, atomic_path, counted, read_regular, require_modules, write_json

from .base import Common, Outcome, command
from .ledger_options import ledger_option, with_ledger
from .options import option, out_option, path_option

if TYPE_CHECKING:
    from unplug.trust.ledger import Ledger, Verifier

MAX_KEPT_BYTES = 65536


def _verifier(vkey: str | None) -> Verifier:
    """The public key of --trust, a line or a file that holds one; without it, that of the key which
    signs here.
    """
    from unplug.trust.ledger import Verifier, signing_key

    require_modules(["cryptography"], "ledger")
    if vkey is None:
        return signing_key().verifier
    if vkey.count("+") >= 2:
        return Verifier.parse(vkey)
    return Verifier.parse(
        read_regular(Path(vkey), max_bytes=MAX_KEPT_BYTES).decode("utf-8", "replace")
    )


vkey_option = click.option(
    "--trust",
    "vkey",
    metavar="KEY",
    help=(
        "The public key that `unplug ledger init` printed, or a file with it (default: from your "
        "key)."
    ),
)


@click.command()
@out_option("File to write, to be kept where nobody who can change the ledger can change it.")
@command
@with_ledger
def checkpoint(opened: Ledger, out: Path, common: Common) -> Outcome:
    """Write the newest checkpoint: size and root of the ledger, signed."""

    note = opened.checkpoint()
    with atomic_path(out) as temporary:
        temporary.write_bytes(note)
    origin, size, root = note.decode().split("\n")[:3]
    held = f"{counted(int(size), 'entry', 'entries')} of {origin} in {out}"
    text = f"{held}: keep it elsewhere, for `unplug ledger verify --against`"
    return Outcome(
        value={"out": str(out), "origin": origin, "size": int(size), "root": root}, text=text
    )


@click.command()
@click.argument("request")
@click.option(
    "--person",
    "name",
    metavar="NAME",
    help="Let the proof show this person, and only her, that the request names her.",
)
@out_option("Proof to write.")
@command
@with_ledger
def prove(opened: Ledger, request: str, name: str | None, out: Path, common: Common) -> Outcome:
    """Prove that the entry of REQUEST is in the ledger, without any other."""
    from unplug.trust.ledger import opening_for, pick, prove_inclusion

    note = opened.checkpoint()
    size = int(note.split(b"\n")[1])
    rows = opened.rows()[:size]  # others may have added since
    asked = pick(opened.requests(), request)
    opening = opening_for(opened, asked, name) if name is not None else None
    write_json(
        out, dataclasses.asdict(prove_inclusion(rows, note, asked.sequence, opening)), private=True
    )
    whom = (
        "; it shows that person, and whoever else has it, that the request names her"
        if opening
        else ""
    )
    text = f"entry {asked.sequence} of {size}: {out}{whom}. Send the public key by another way"
    return Outcome(
        value={
            "out": str(out),
            "entry": asked.sequence,
            "size": size,
            "opened": opening is not None,
        },
        text=text,
    )


@click.command()
@ledger_option
@vkey_option
@path_option(
    "--against",
    help="A checkpoint that was kept elsewhere: finds a cut tail.",
)
@path_option(
    "--proof",
    help="Check a proof instead of a ledger; nothing else is needed.",
)
@click.option(
    "--person", "name", metavar="NAME", help="With --proof: the person whom the entry must name."
)
@command
def verify(
    where: str | None,
    vkey: str | None,
    against: Path | None,
    proof: Path | None,
    name: str | None,
    common: Common,
) -> Outcome:
    """Find every entry that was edited, removed or moved, and name it (exit 1: something was); or
    check a proof.
    """
    from unplug.trust.ledger import check_ledger, open_ledger, read_checkpoint

    verifier = _verifier(vkey)
    if proof is not None:
        return _proof(proof, verifier, name)
    if name is not None:
        raise InputError("--person", "it belongs to a proof", "Add --proof FILE")
    opened = open_ledger(where)
    verdict, findings = check_ledger(
        opened, verifier, read_checkpoint(against, verifier) if against else None
    )
    value = dataclasses.asdict(verdict) | {
        "ledger": opened.shown,
        "findings": [dataclasses.asdict(item) for item in findings],
    }
    lines = [
        f"entry {item.sequence}: {item.what}" if item.sequence is not None else item.what
        for item in findings
    ]
    if not findings:
        tail = (
            f"and it begins with the {verdict.kept} of the kept checkpoint"
            if verdict.kept is not None
            else "but without --against a kept checkpoint nobody sees whether entries were cut off its end"
        )
        lines.append(f"{opened.shown}: all {verdict.size} entries are as they were signed, {tail}")
    return Outcome(value=value, text="\n".join([*lines, *verdict.notes]), ok=not findings)


def _proof(path: Path, verifier: Verifier, name: str | None) -> Outcome:
    from unplug.trust.ledger import check_proof, read_proof

    proven = check_proof(read_proof(path), verifier, str(path), name)
    size, entry = proven.checkpoint.size, proven.entry
    named = f", and it names {name}" if name is not None else ""
    text = (
        f"{path}: entry {entry.sequence} of {size}, {entry.kind} of {entry.at}, is in "
        f"{proven.checkpoint.origin}{named}"
    )
    value = {
        "origin": proven.checkpoint.origin,
        "size": size,
        "entry": dataclasses.asdict(entry),
        "names": name is not None,
    }
    return Outcome(value=value, text=text)


@click.command()
@option(
    "--format",
    "form",
    type=click.Choice(["json", "csv"]),
    default="json",
)
@out_option("File to write.")
@command
@with_ledger
def export(opened: Ledger, form: str, out: Path, common: Common) -> Outcome:
    """Write all entries as JSON, with the checkpoint over them, or as CSV. Salts are never in it."""
    from unplug.trust.ledger import export_csv, export_json

    note = opened.checkpoint()
    entries = opened.entries()[: int(note.split(b"\n")[1])]  # others may have added since
    if form == "json":
        write_json(out, export_json(entries, note), private=True)
    else:
        with atomic_path(out, private=True) as temporary:
            temporary.write_text(export_csv(entries), encoding="utf-8")
    return Outcome(
        value={"out": str(out), "entries": len(entries)},
        text=f"{counted(len(entries), 'entry', 'entries')} in {out}",
    )


@click.command()
@click.argument("name")
@option("--schema", default="public", help="In which the tables are.")
@command
def role(name: str, schema: str, common: Common) -> Outcome:
    """Print the SQL that lets the PostgreSQL role NAME add entries and shred salts, and nothing
    else.
    """
    from unplug.trust.ledger import role_sql

    sql = role_sql(name, schema)
    return Outcome(value={"role": name, "sql": sql}, text=sql.rstrip("\n"))
