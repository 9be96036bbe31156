"""One entry of the ledger, the bytes of it that are hashed, and all of them as JSON or CSV for
auditors and spreadsheets.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, InputError

from .clock import day_at

MAX_BODY_BYTES = 2**21
MAX_NOTE = 1000
Kind = Literal[
    "opened",
    "request",
    "identity",
    "extended",
    "refused",
    "withdrawn",
    "touched",
    "informed",
    "step",
    "try",
    "audit",
    "release",
    "revocation",
    "answered",
    "shredded",
    "corrected",
]
"""What an entry records. ``touched``: a model was searched for a request; ``informed``: a recipient
of the data was told; ``corrected``: the day on which a request came, the clock, or the operator's
key.
"""
RECORDED = ("identity", "informed", "step", "try", "audit", "release", "revocation", "answered")
"""Kinds that `unplug ledger record` takes; the others have a command of their own, which checks
more.
"""

OFFSET = "utc_offset"
"""The fact that says by how much the operator's clock, whose days an entry means, was ahead of UTC:
``+02:00``.
"""
KEY = "key"
"""The fact that holds the id of the operator's key: of the first entry, of requests, and of a
correction of it.
"""
CLOCK = "clock"
"""The fact of a correction that says that the clock is right, though it stands before that of an
earlier entry.
"""

EXPORT = "unplug-ledger-export/1"
COLUMNS = (
    "sequence",
    "at",
    "kind",
    "requests",
    "subjects",
    "received",
    "due",
    "note",
    "facts",
    "clock_back_seconds",
)
# a cell that begins so is computed by spreadsheets when the file is opened
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One entry. It never holds a name or a picture of somebody.

    Args:
        sequence: its place, from 0: what orders entries, whatever the clock said.
        kind: the kind of event.
        at: when, as the clock stood, in UTC (``2027-01-31T09:00:00Z``).
        requests: ids of the requests it is about.
        subjects: digests of the people that a request names (see `subjects`).
        received, due: the calendar days of a request or its extension (``2027-01-31``).
        note: a reason, or who was told; free text.
        facts: further facts by name: hashes of models, data and files, the id of the key of the
            digests.
        clock_back_seconds: the seconds by which the clock lagged that of an earlier entry.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    sequence: int
    kind: Kind
    at: str
    requests: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    received: str | None = None
    due: str | None = None
    note: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    clock_back_seconds: int = 0

    @property
    def day(self) -> str | None:
        """The operator's calendar day of it with the offset, as ``2027-01-31+02:00``; None where it
        does not say.

        Raises:
            InputError: what it says is not an offset.
        """
        offset = self.facts.get(OFFSET)
        return None if offset is None else f"{day_at(self.at, offset)}{offset}"

    @property
    def body(self) -> str:
        """The entry as canonical JSON in ASCII: sorted keys, no white space. These bytes are the
        leaf of the tree.
        """
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"))


@cache
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(LedgerEntry)


def read_entry(body: str, where: str) -> LedgerEntry:
    """An entry from its bytes.

    Raises:
        InputError: it is not an entry, or not in canonical form.
    """
    again = "Verify the ledger; restore it from a copy"
    try:
        entry: LedgerEntry = _adapter().validate_json(body)
    except ValueError as error:
        raise InputError(where, "it is not an entry of a ledger", again) from error
    if entry.body != body:
        raise InputError(where, "it is not in canonical form", again)
    return entry


def export_json(entries: Sequence[LedgerEntry], checkpoint: bytes) -> dict[str, Any]:
    """All entries with the checkpoint over them.

    Each entry in canonical JSON (sorted keys, no white space, ASCII) is the leaf that was hashed:
    anybody can compute the root.
    """
    return {
        "schema": EXPORT,
        "checkpoint": checkpoint.decode(),
        "entries": [dataclasses.asdict(entry) for entry in entries],
    }


def export_csv(entries: Sequence[LedgerEntry]) -> str:
    """All entries, one a line; a text that a spreadsheet would compute gets an apostrophe in front.

    Example:
        >>> entry = LedgerEntry(sequence=3, kind="refused", at="2027-01-31T09:00:00Z", requests=("A-1",), note="=1+1")
        >>> export_csv([entry]).splitlines()[1]
        "3,2027-01-31T09:00:00Z,refused,A-1,,,,'=1+1,{},0"
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in entries:
        values = dataclasses.asdict(entry) | {
            "requests": " ".join(entry.requests),
            "subjects": " ".join(entry.subjects),
            "facts": json.dumps(entry.facts, sort_keys=True, separators=(",", ":")),
        }
        writer.writerow([_plain(values[name]) for name in COLUMNS])
    return out.getvalue()


def _plain(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
