"""The clock, which tells when, and never what came first."""

from __future__ import annotations

from datetime import UTC, datetime

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
