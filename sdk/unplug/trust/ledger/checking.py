"""Is this the ledger that was written? Every entry that was edited, removed or moved is found and
named.

Row k holds the body b_k, the edge E_k of the tree over b_0 ... b_k, and a signature of its
checkpoint. Each row is checked alone: its signature is one of E_k, and E_k = push(E_(k-1),
leaf(b_k)). So one edit does not hide another, and who lacks the key cannot make a row that
passes. What no row can tell is that rows are missing at the end: that takes a checkpoint that was
kept elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unplug.core import CheckFailed, InputError

from .entries import LedgerEntry, read_entry
from .ledger import Ledger
from .merkle import push
from .notes import Verifier
from .requests import requests_of
from .rows import LedgerCheckpoint, LedgerRow, identity_of
from .subjects import salt_digest


@dataclass(frozen=True, kw_only=True)
class LedgerCheck:
    """What was checked.

    Args:
        origin: the name of the ledger.
        size: number of its entries.
        kept: number of entries of the checkpoint that it was held against; None without one.
        notes: oddities that are not faults, such as a clock that was set back.
    """

    origin: str
    size: int
    kept: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is not as it was written.

    Args:
        sequence: the number of the entry; None where it is not a single one.
        what: the finding in one line.
    """

    sequence: int | None
    what: str


def check_rows(rows: Sequence[LedgerRow], verifier: Verifier, origin: str) -> tuple[Finding, ...]:
    """Checks every row by its number, its signature and the row before it.

    Args:
        rows: the rows by their number, as stored.
        verifier: the public key, kept elsewhere.
        origin: the name of the ledger.

    Returns:
        What was found, by number; nothing where every entry is as it was signed.
    """
    findings: list[Finding] = []
    before: LedgerRow | None = None
    trusted = True  # of no rows, the edge is empty
    for place, row in enumerate(rows):
        expected = 0 if before is None else before.sequence + 1
        findings += [
            Finding(sequence=number, what="it is missing")
            for number in range(expected, min(row.sequence, expected + 1000))
        ]
        follows = row.sequence == expected
        good = len(row.edge) == 32 * (row.sequence + 1).bit_count() and verifier.verifies(
            row.checkpoint(origin).text, row.signature
        )
        if problem := _problem(
            row,
            before if follows else None,
            trusted=trusted and follows,
            good=good,
            first=place == 0,
        ):
            findings.append(Finding(sequence=row.sequence, what=problem))
        before, trusted = row, good
    return tuple(findings)


def _problem(
    row: LedgerRow, before: LedgerRow | None, *, trusted: bool, good: bool, first: bool
) -> str | None:
    try:
        told = read_entry(row.body, "entry").sequence
    except InputError:
        return "it was edited: it has not the form of an entry"
    if told != row.sequence:
        return f"it was moved: it says of itself that it is entry {told}"
    if not good:
        return "it was edited: its signature is not one of it"
    if trusted or first:
        edge = push(before.hashes if before else (), row.sequence, row.leaf)
        same = b"".join(edge) == row.edge
    elif row.sequence % 2 == 0:  # the last hash of its edge is its own
        same = row.hashes[-1] == row.leaf
    else:
        return "nobody can tell whether it was edited, for the entry before it is not as it was"
    return None if same else "it was edited: it is not what its signature is of"


def check_kept(
    rows: Sequence[LedgerRow], kept: LedgerCheckpoint, origin: str
) -> tuple[Finding, ...]:
    """Holds a ledger against a checkpoint that was kept elsewhere, which shows a cut tail, or a
    ledger that was written anew.

    Args:
        rows: the rows that `check_rows` was content with.
        kept: opened with the public key.
        origin: the name of the ledger.

    Raises:
        InputError: the checkpoint is of another ledger.
    """
    if kept.origin != origin:
        raise InputError(
            "the kept checkpoint",
            f"it is of the ledger {kept.origin}, and this is {origin}",
            "Give the other one",
        )
    if len(rows) < kept.size:
        return tuple(
            Finding(sequence=number, what="it was cut off the end")
            for number in range(len(rows), min(kept.size, len(rows) + 1000))
        )
    if kept.size and rows[kept.size - 1].checkpoint(origin).root != kept.root:
        what = f"the first {kept.size} entries are others than those of the kept checkpoint"
        return (Finding(sequence=None, what=what),)
    return ()


def check_salts(entries: Sequence[LedgerEntry], salts: Mapping[str, str]) -> tuple[Finding, ...]:
    """Finds salts that were exchanged, lie there though they were shredded, or are gone though
    nobody shredded them.
    """
    findings, requests = [], requests_of(entries)
    for name, request in requests.items():
        salt = salts.get(name)
        if salt is None and not request.shredded:
            what = "its salt is gone, and no entry says that it was shredded"
        elif salt is not None and request.shredded:
            what = "its salt is there, though an entry says that it was shredded"
        elif salt is not None and salt_digest(salt) != request.salt_sha256:
            what = "its salt is another than when it was added"
        else:
            continue
        findings.append(Finding(sequence=request.sequence, what=what))
    for name in sorted(salts.keys() - requests.keys()):
        what = f"there is a salt of the request {name[:100]}, which no entry holds"
        findings.append(Finding(sequence=None, what=what))
    return tuple(findings)


def clock_notes(entries: Sequence[LedgerEntry]) -> tuple[str, ...]:
    """Entries that were written while the clock stood before that of an earlier one."""
    return tuple(
        f"entry {entry.sequence}: the clock stood {entry.clock_back_seconds} s before that of an "
        "earlier entry"
        for entry in entries
        if entry.clock_back_seconds
    )


def refuse_findings(where: str, found: Sequence[Finding]) -> None:
    """Raises `CheckFailed`, which names the first of what was found, where there is anything."""
    if found:
        place = "" if found[0].sequence is None else f"entry {found[0].sequence}: "
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        why = f"{place}{found[0].what}{more}"
        raise CheckFailed(where, why, "Restore it from a copy that verifies")


def check_ledger(
    ledger: Ledger, verifier: Verifier, kept: LedgerCheckpoint | None = None
) -> tuple[LedgerCheck, tuple[Finding, ...]]:
    """Checks a whole ledger: its rows, what they say, its salts, and a checkpoint that was kept
    elsewhere.

    Args:
        ledger: opened for reading.
        verifier: the public key, kept elsewhere.
        kept: opened with that key; None leaves a cut tail unfound.

    Returns:
        What the ledger is, and what was found: nothing where all is as it was written.

    Raises:
        InputError: it has no entry and nothing says that it should, or the kept checkpoint is of
            another ledger.
    """
    rows, salts = ledger.rows_and_salts()
    if not rows and kept is None:
        raise InputError(ledger.shown, "it has no entry", "Make it with `unplug ledger init`")
    origin = _origin(rows, kept)
    findings = check_rows(rows, verifier, origin)
    if not findings and kept is not None:
        findings = check_kept(rows, kept, origin)
    entries: tuple[LedgerEntry, ...] = ()
    if not findings:
        entries = tuple(read_entry(row.body, f"entry {row.sequence}") for row in rows)
        findings = check_salts(entries, salts)
    return LedgerCheck(
        origin=origin, size=len(rows), kept=kept.size if kept else None, notes=clock_notes(entries)
    ), findings


def _origin(rows: Sequence[LedgerRow], kept: LedgerCheckpoint | None) -> str:
    """Which ledger it is: what was kept says so, else its first entry, which `check_rows` then
    checks as all others.
    """
    if rows and rows[0].sequence == 0:
        with contextlib.suppress(InputError):
            return identity_of(read_entry(rows[0].body, "entry 0"), "entry 0")[0]
    return kept.origin if kept else ""
