"""API tokens: what each may do, hashed at rest, shown once.

A token is ``unplug_ID_SECRET`` with 256 random bits of secret. The table keeps SHA-256 of it: a
slow password hash guards what people make up, and nobody can try 2^256 secrets.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta

import sqlalchemy as sa

from unplug.core import InputError

from .tables import ServiceTables, time_now
from .tables import tokens as table

SCOPES = {
    "requests:write": "submit and withdraw requests",
    "requests:read": "list requests, deadlines, jobs; follow them",
    "releases": "start a release; fetch bundles and certificates",
    "models": "list models; ask them",
    "metrics": "read metrics",
}
FORM = re.compile(r"unplug_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
FRESH_SECONDS = 2.0
"""How long a token that was looked up is believed: a revoked one works no longer than that."""


@dataclass(frozen=True, kw_only=True)
class ApiToken:
    """What is known of a token.

    Args:
        id: stands in logs.
        label: the token's purpose, in the operator's words; never a person's name.
        scopes: keys of `SCOPES`.
        created, expires, revoked: UTC times, or None.
    """

    id: str
    label: str
    scopes: frozenset[str]
    created: str
    expires: str | None = None
    revoked: str | None = None

    @property
    def valid(self) -> bool:
        """Whether it may be used now."""
        return self.revoked is None and (self.expires is None or time_now() < self.expires)


def add_token(
    tables: ServiceTables, label: str, scopes: Sequence[str], *, days: int | None = None
) -> tuple[ApiToken, str]:
    """Makes a token.

    Args:
        tables: the tables to keep it in.
        label: the token's purpose.
        scopes: the scopes, at least one key of `SCOPES`.
        days: until it expires; None never.

    Returns:
        What is known of it, and the token itself, which nobody can read again.

    Raises:
        InputError: an unknown scope, none, or no such label.
    """
    if LABEL.fullmatch(label) is None:
        raise InputError(
            f"label {label[:60]}",
            "a label has up to 60 letters, digits and . _ -",
            "Say what it is for",
        )
    if unknown := sorted(set(scopes) - SCOPES.keys()):
        raise InputError(f"`scope` {unknown[0]}", "no such scope", f"Known: {', '.join(SCOPES)}")
    if not scopes:
        raise InputError(
            "the token", "it may do nothing", f"Give `scope`, one of {', '.join(SCOPES)}"
        )
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    text = f"unplug_{id}_{secret}"
    until = None if days is None else time_now(timedelta(days=days))
    made = ApiToken(id=id, label=label, scopes=frozenset(scopes), created=time_now(), expires=until)
    kept = {"sha256": _digest(text), "scopes": " ".join(sorted(made.scopes))}
    with tables.writing() as connection:
        connection.execute(sa.insert(table).values(**(asdict(made) | kept)))
    return made, text


def list_tokens(tables: ServiceTables) -> tuple[ApiToken, ...]:
    """All tokens, the oldest first; those of one second in the order of their ids."""
    with tables.reading() as connection:
        rows = connection.execute(sa.select(table).order_by(table.c.created, table.c.id))
        return tuple(map(_token, rows))


def revoke_token(tables: ServiceTables, id: str) -> ApiToken:
    """Ends a token; one that is revoked already stays as it is.

    Raises:
        InputError: there is no such token.
    """
    with tables.writing() as connection:
        connection.execute(
            sa.update(table)
            .where(table.c.id == id, table.c.revoked.is_(None))
            .values(revoked=time_now())
        )
        row = connection.execute(sa.select(table).where(table.c.id == id)).first()
    if row is None:
        raise InputError(
            f"token {id[:60]}",
            "there is no such token",
            "`unplug serve token list` shows their ids",
        )
    return _token(row)


@dataclass(kw_only=True)
class TokenGate:
    """Looks tokens up, and believes what it found for `FRESH_SECONDS`.

    Args:
        tables: the tables that keep them.
    """

    tables: ServiceTables
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: dict[str, tuple[float, str, ApiToken]] = field(default_factory=dict)

    def fresh(self, text: str) -> bool:
        """Whether `who` answers without looking into the database."""
        match = FORM.fullmatch(text)
        kept = self._seen.get(match[1]) if match else None
        return match is None or (kept is not None and time.monotonic() - kept[0] < FRESH_SECONDS)

    def who(self, text: str) -> ApiToken | None:
        """The valid token that a text is; None where it is none."""
        match = FORM.fullmatch(text)
        if match is None:
            return None
        known = self._look_up(match[1])
        if known is None or not hmac.compare_digest(known[0], _digest(text)) or not known[1].valid:
            return None
        return known[1]

    def _look_up(self, id: str) -> tuple[str, ApiToken] | None:
        now = time.monotonic()
        with self._lock:
            kept = self._seen.get(id)
        if kept is not None and now - kept[0] < FRESH_SECONDS:
            return kept[1], kept[2]
        with self.tables.reading() as connection:
            row = connection.execute(sa.select(table).where(table.c.id == id)).first()
        if row is None:  # not kept: made-up ids must not fill the memory
            return None
        known = str(row.sha256), _token(row)
        with self._lock:
            self._seen[id] = (now, *known)
        return known


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _token(row: sa.Row[tuple[str, ...]]) -> ApiToken:
    return ApiToken(
        id=row.id,
        label=row.label,
        scopes=frozenset(row.scopes.split()),
        created=row.created,
        expires=row.expires,
        revoked=row.revoked,
    )
