"""What a process has read of a ledger: a later transaction reads what came since, where the last
row is still the same.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import date, tzinfo
from typing import TYPE_CHECKING

from unplug.core import InputError

from . import clock
from .entries import CLOCK, KEY, LedgerEntry, read_entry
from .requests import Request, requests_of
from .rows import LedgerRow

if TYPE_CHECKING:
    from .database import LedgerTransaction


@dataclass(frozen=True, kw_only=True)
class Contents:
    """A ledger as one transaction saw it.

    Args:
        head: its last row.
        entries: all of them, well-formed.
        requests: id to request, as they stand after the last entry.
        latest: the latest time that an entry says, since the clock was last corrected.
        key: id of the operator's key that requests are added under; None where none was added.
        zone: the operator's, see `zone_named`.
    """

    head: LedgerRow
    entries: tuple[LedgerEntry, ...]
    requests: dict[str, Request]
    latest: str
    key: str | None
    zone: tzinfo | None = None

    @property
    def today(self) -> date:
        """The operator's day by the clock, which deadlines count from."""
        return clock.day_of(clock.now(), self.zone)


@dataclass(kw_only=True)
class ReadSoFar:
    """Reads a ledger and keeps it, so that each entry is parsed once in a process.

    Nothing here says that the entries are those that were added: `check_rows` does, over all of
    them.

    Args:
        where: opens error messages.
        zone: the operator's.
    """

    where: str
    zone: tzinfo | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: Contents | None = None

    def contents(self, session: LedgerTransaction) -> Contents:
        """The ledger as the transaction sees it.

        Raises:
            InputError: it has no entry, or one is not well-formed.
        """
        with self._lock:
            kept = self._kept
        new = list(session.rows(kept.head.sequence if kept else 0))
        if kept and new[:1] == [kept.head]:
            new = new[1:]
            if not new:
                return kept
        elif kept:  # somebody put another ledger there
            kept, new = None, list(session.rows())
        if not new:
            raise InputError(self.where, "it has no entry", "Make it with `unplug ledger init`")
        contents = self._with(kept, new)
        with self._lock:
            if (
                self._kept is None
                or self._kept.head.sequence < contents.head.sequence
                or kept is None
            ):
                self._kept = contents
        return contents

    def _with(self, kept: Contents | None, new: list[LedgerRow]) -> Contents:
        added = [read_entry(row.body, f"{self.where}, entry {row.sequence}") for row in new]
        latest, key = (kept.latest, kept.key) if kept else ("", None)
        for entry in added:
            corrects = entry.kind == "corrected"
            latest = entry.at if corrects and CLOCK in entry.facts else max(latest, entry.at)
            key = (
                entry.facts.get(KEY, key)
                if corrects or entry.kind in ("opened", "request")
                else key
            )
        return Contents(
            head=new[-1],
            entries=(*(kept.entries if kept else ()), *added),
            requests=requests_of(added, kept.requests if kept else None),
            latest=latest,
            key=key,
            zone=self.zone,
        )
