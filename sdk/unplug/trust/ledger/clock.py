"""The clock, which tells when, and never what came first; and the operator's calendar, by which
days and deadlines count.
"""

from __future__ import annotations

import os
import re
import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

from unplug.core import InputError

VARIABLE = "UNPLUG_TIMEZONE"
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")
TIME = "%Y-%m-%dT%H:%M:%SZ"


def now() -> datetime:
    """Now, in UTC and whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def time_text(when: datetime) -> str:
    """How entries say when.

    Example:
        >>> time_text(datetime(2027, 1, 31, 9, tzinfo=UTC))
        '2027-01-31T09:00:00Z'
    """
    return when.strftime(TIME)


def parse_time(text: str) -> datetime:
    """The inverse of `time_text`; `ValueError` for another form."""
    return datetime.strptime(text, TIME).replace(tzinfo=UTC)


def zone_named(name: str | None = None) -> tzinfo | None:
    """The zone whose days count: of a name, or of ``$UNPLUG_TIMEZONE``; None is the machine's.

    Args:
        name: a name such as ``Europe/Berlin``, or an offset such as ``+02:00``.

    Raises:
        InputError: there is no such zone.
    """
    name = name or os.environ.get(VARIABLE) or None
    if name is None:
        return None
    if (offset := _OFFSET.fullmatch(name)) and int(offset[2]) < 24:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(ahead if offset[1] == "+" else -ahead)
    try:
        return zoneinfo.ZoneInfo(name)
    except (
        OSError,
        ValueError,
        zoneinfo.ZoneInfoNotFoundError,
    ) as error:  # a folder, a path that leads out, or none
        why = "no such zone is known on this machine"
        raise InputError(
            f"time zone {name[:60]}", why, "Write for example Europe/Berlin or +02:00"
        ) from error


def day_of(when: datetime, zone: tzinfo | None) -> date:
    """The calendar day of a time, where the operator is.

    Example:
        >>> day_of(datetime(2027, 1, 31, 23, 30, tzinfo=UTC), zone_named("+02:00"))
        datetime.date(2027, 2, 1)
    """
    return when.astimezone(zone).date()


def offset_of(when: datetime, zone: tzinfo | None) -> str:
    """By how much the operator's clock was ahead of UTC at a time, as ``+02:00``."""
    return when.astimezone(zone).isoformat()[-6:]


def day_at(text: str, offset: str) -> str:
    """The calendar day at an entry's time, where the operator's clock was so far ahead of UTC.

    Raises:
        InputError: it is not an offset.

    Example:
        >>> day_at("2027-01-31T23:30:00Z", "+02:00")
        '2027-02-01'
    """
    if _OFFSET.fullmatch(offset) is None:
        raise InputError(
            f"utc_offset {offset[:20]!r}", "it is not an offset as +02:00", "Verify the ledger"
        )
    return day_of(parse_time(text), zone_named(offset)).isoformat()
