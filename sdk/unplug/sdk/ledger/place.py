"""Which ledger a command means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unplug.core import ledger_place as ledger_place
from unplug.core import require_modules

from .clock import zone_named
from .ledger import Ledger
from .notes import Signer
from .signing import signing_key


def find_ledger(where: str | None = None) -> Ledger | None:
    """The ledger at a place, see `open_ledger`, for who only reads it; None where no file is there."""
    place = where or ledger_place()
    return open_ledger(place) if "://" in place or Path(place).is_file() else None


def open_ledger(
    where: str | None = None,
    *,
    signer: Callable[[], Signer] = signing_key,
    wait_seconds: float = 60,
    pooled: bool = False,
    timezone: str | None = None,
) -> Ledger:
    """The ledger at a place.

    Args:
        where: a file or ``postgresql://...``; None takes `ledger_place`.
        signer: gives the key that signs, when something is added.
        wait_seconds: how long to wait for another writer.
        pooled: keep connections for the next call: for a process that serves many.
        timezone: whose days count, as ``Europe/Berlin`` or ``+02:00``; None takes ``$UNPLUG_TIMEZONE``, else the machine's.

    Raises:
        InputError: neither a file nor such a URL, or no such zone.
        MissingExtraError: ``[ledger]`` is not installed, or ``[postgresql]``.
    """
    require_modules(["sqlalchemy"], "ledger")
    from .database import Database

    zone = zone_named(timezone)
    return Ledger(Database(where or ledger_place(), wait_seconds=wait_seconds, pooled=pooled), signer, zone)
