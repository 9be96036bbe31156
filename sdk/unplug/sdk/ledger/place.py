"""Which ledger a command means."""

from __future__ import annotations

import os
from collections.abc import Callable

from unplug.core import lasting_place, require_modules

from .clock import zone_named
from .ledger import Ledger
from .notes import Signer
from .signing import signing_key

VARIABLE = "UNPLUG_LEDGER"


def ledger_place() -> str:
    """``$UNPLUG_LEDGER``, or ``$XDG_DATA_HOME/unplug/ledger.db``, or ``~/.local/share/unplug/ledger.db``.

    Raises:
        OutputError: there is no home.
    """
    if explicit := os.environ.get(VARIABLE):
        return explicit
    return str(lasting_place("the ledger", VARIABLE, "XDG_DATA_HOME", ".local/share") / "ledger.db")


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
