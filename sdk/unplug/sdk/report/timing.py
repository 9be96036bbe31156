"""What the sections about latency share: which rows belong together, how they are called, and what they came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unplug.core import plain, short, threads

from .inputs import Inputs

if TYPE_CHECKING:
    from unplug.mobile_bench import BenchRow

MAX_CHOICES = 12
"""Devices in the filter; the style sheet has a rule for each. More devices than these are drawn and have no button."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Rows of one device, taken where it is: on the device, emulated, on the host.

    Args:
        device: its name.
        where: "device", "emulated" or "host".
        rows: in the order given.
        number: from 1 on.
    """

    device: str
    where: str
    rows: tuple[BenchRow, ...]
    number: int

    @property
    def pick(self) -> int:
        """Its button in the filter; 0, which no button has, for a device beyond the last one."""
        return self.number if self.number <= MAX_CHOICES else 0

    @property
    def name(self) -> str:
        """For a button and a heading."""
        return plain(self.device, 60) if self.where == "device" else f"{plain(self.device, 60)} ({self.where})"


def places(inputs: Inputs) -> list[Place]:
    """Every device with its rows, in the order of the files."""
    found: dict[tuple[str, str], list[BenchRow]] = {}
    for row in (row for bench in inputs.benches for row in bench.rows):
        found.setdefault((row.device, row.where), []).append(row)
    return [
        Place(device=device, where=where, rows=tuple(rows), number=number)
        for number, ((device, where), rows) in enumerate(found.items(), start=1)
    ]


def row_median(row: BenchRow) -> float | None:
    """What a row is ranked by; the median of all runs together in a report of an older version."""
    return row.median_ms if row.median_ms is not None else row.summary.p50 if row.summary else None


def file_names(rows: Sequence[BenchRow]) -> list[str]:
    """File names, with the beginning of the hash where files of one name differ."""
    known = {name: {row.artifact_sha256 for row in rows if row.file == name} for name in {row.file for row in rows}}
    return [
        f"{plain(row.file, 60)} {short(row.artifact_sha256)[:6]}" if len(known[row.file]) > 1 else plain(row.file, 60)
        for row in rows
    ]


def labels(rows: Sequence[BenchRow], limit: int = 44) -> list[str]:
    """Names that tell the rows of one place apart: file and delegate; mode, threads and hash where these differ."""
    base = [f"{plain(row.file, limit - 18)}, {row.delegate_got or row.delegate_asked}" for row in rows]
    if len({row.mode for row in rows}) > 1:
        base = [f"{text}, full load" if row.mode == "sustained" else text for text, row in zip(base, rows, strict=True)]
    if len({row.threads for row in rows}) > 1:
        base = [f"{text}, {threads(row.threads)}" for text, row in zip(base, rows, strict=True)]
    seen = Counter(base)
    told = [
        f"{text} {short(row.artifact_sha256)[:6]}" if seen[text] > 1 else text for text, row in zip(base, rows, strict=True)
    ]
    return [plain(text, limit) for text in told]


def notes_of(row: BenchRow) -> str:
    """Why a row may not be ranked, and what to know of one that may."""
    return "; ".join(plain(note, 160) for note in _unique((*row.reasons, *row.warnings, *row.interruptions)))


def _unique(notes: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(notes))
