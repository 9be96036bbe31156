"""A ledger as JSON or CSV, for auditors and spreadsheets; the salts, which could link it to people, never leave."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from typing import Any

from .entries import Entry

SCHEMA = "unplug-ledger-export/1"
COLUMNS = ("sequence", "at", "kind", "requests", "subjects", "received", "due", "note", "facts", "clock_back_seconds")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_json(entries: Sequence[Entry], checkpoint: bytes) -> dict[str, Any]:
    """All entries with the checkpoint over them.

    Each entry in canonical JSON (sorted keys, no white space, ASCII) is the leaf that was hashed: anybody can compute the root.
    """
    return {
        "schema": SCHEMA,
        "checkpoint": checkpoint.decode(),
        "entries": [dataclasses.asdict(entry) for entry in entries],
    }


def export_csv(entries: Sequence[Entry]) -> str:
    """All entries, one a line; a text that a spreadsheet would compute gets an apostrophe in front.

    Example:
        >>> entry = Entry(sequence=3, kind="refused", at="2027-01-31T09:00:00Z", requests=("A-1",), note="=1+1")
        >>> export_csv([entry]).splitlines()[1]
        "3,2027-01-31T09:00:00Z,refused,A-1,,,,'=1+1,{},0"
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in entries:
        values = dataclasses.asdict(entry) | {
            "requests": " ".join(entry.requests), "subjects": " ".join(entry.subjects),
            "facts": json.dumps(entry.facts, sort_keys=True, separators=(",", ":")),
        }  # fmt: skip
        writer.writerow([_plain(values[name]) for name in COLUMNS])
    return out.getvalue()


def _plain(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
