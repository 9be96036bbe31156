"""Whose a request is: its token sees and withdraws it, and has so many open at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from unplug.core import InputError
from unplug.sdk.ledger import Contents, Ledger, Request, Submission

from .recipe import ServeLimits
from .tables import ServiceTables, time_now
from .tables import owners as table

STALE_SECONDS = 3600
"""After that a request that the ledger does not hold comes no more: its worker was killed."""
AGAIN_SECONDS = 1.0
"""Between two looks at what a token has open: one at its limit must not have it listed each time."""
Outcome = tuple[Request, bool]


class TooMany(InputError):
    """A token has as many open requests, or names in them, as it may."""


@dataclass(frozen=True, kw_only=True)
class Owned(Submission):
    """A request of a token.

    Args:
        token: its id.
        reads: whether it may read all requests.
        derived: whether the id was made from the token and a key, which nobody else can do.
    """

    token: str
    reads: bool
    derived: bool


@dataclass(kw_only=True)
class _Batch:
    """What is known of some submissions before the ledger sees them."""

    connection: sa.Connection
    contents: Contents
    owner: dict[str, str]
    open: dict[str, tuple[int, int]] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)


class Desk:
    """In front of a ledger.

    Args:
        ledger: where requests are kept.
        tables: where their owners are.
        limits: how much of one token may be open.
    """

    def __init__(self, ledger: Ledger, tables: ServiceTables, limits: ServeLimits) -> None:
        self._ledger, self._tables, self._limits = ledger, tables, limits
        self._closed: dict[str, float] = {}

    def owner(self, id: str) -> str | None:
        """The id of the token that made a request; None where none did."""
        with self._tables.reading() as connection:
            return connection.execute(sa.select(table.c.token).where(table.c.request == id)).scalar()

    def add_all(self, items: Sequence[Any]) -> list[Outcome | InputError]:
        """Adds requests as `Ledger.add_all` does. The owner is on the disk before the request is.

        Args:
            items: each an `Owned` with an id.
        """
        refused, new = self._claim(items)
        asked = [item for item, error in zip(items, refused, strict=True) if error is None]
        added = iter(self._ledger.add_all(asked))
        found = [error or next(added) for error in refused]
        failed = {item.id for item, outcome in zip(items, found, strict=True) if isinstance(outcome, InputError)}
        if lost := failed & new:
            self._forget(lost)
        return found

    def _claim(self, items: Sequence[Owned]) -> tuple[list[InputError | None], set[str]]:
        """For each why it may not be added, or None; and the ids that have an owner since now."""
        ids = {str(item.id) for item in items}
        with self._tables.writing() as connection:
            rows = connection.execute(sa.select(table.c.request, table.c.token).where(table.c.request.in_(ids)))
            owner = {row.request: row.token for row in rows}
            batch = _Batch(connection=connection, contents=self._ledger.contents(), owner=owner)
            return [self._refusal(item, batch) for item in items], batch.new

    def _refusal(self, item: Owned, batch: _Batch) -> InputError | None:
        id = str(item.id)
        held = batch.contents.requests.get(id)
        owner = batch.owner.get(id, item.token if held is None or item.derived else None)
        if owner != item.token:  # in the same words whatever it names: else they tell whom it is about
            return None if item.reads else InputError(f"request {id}", "its id is taken", "Use another id")
        if id in batch.owner:
            return None
        opened = held is None or held.state == "open"
        if opened and (why := self._full(item, batch)):
            return TooMany("this token", why, "Wait for a release, or withdraw some")
        batch.owner[id] = item.token
        batch.new.add(id)
        made = {"request": id, "token": item.token, "names": len(item.names), "at": time_now(), "over": int(not opened)}
        batch.connection.execute(sa.insert(table).values(**made))
        return None

    def _full(self, item: Owned, batch: _Batch) -> str | None:
        """Why a token may open no more; else one more request of it is counted."""
        token, now = item.token, time.monotonic()
        before = batch.open.get(token) or _count(batch.connection, token)
        if self._over(before, item) and now - self._closed.get(token, float("-inf")) > AGAIN_SECONDS:
            self._closed[token] = now
            _close(batch.connection, token, batch.contents.requests)
            before = _count(batch.connection, token)
        if why := self._over(before, item):
            return why
        batch.open[token] = before[0] + 1, before[1] + len(item.names)
        return None

    def _over(self, before: tuple[int, int], item: Owned) -> str | None:
        requests, names = before
        if requests >= self._limits.open_requests:
            return f"{requests} requests of it are open, and more may not be at once"
        if names + len(item.names) > self._limits.open_names:
            return f"its open requests would hold more than {self._limits.open_names} names"
        return None

    def _forget(self, ids: set[str]) -> None:
        """Takes back owners of what the ledger refused, unless somebody has added it since."""
        with self._tables.writing() as connection:
            gone = ids - self._ledger.contents().requests.keys()
            connection.execute(sa.delete(table).where(table.c.request.in_(gone)))


def _count(connection: sa.Connection, token: str) -> tuple[int, int]:
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(table.c.names), 0))
    requests, names = connection.execute(query.where(table.c.token == token, table.c.over == 0)).one()
    return int(requests), int(names)


def _close(connection: sa.Connection, token: str, requests: Mapping[str, Request]) -> None:
    """Counts no more what is open no more, and what never came into the ledger."""
    rows = connection.execute(sa.select(table.c.request, table.c.at).where(table.c.token == token, table.c.over == 0)).all()
    limit = time_now(STALE_SECONDS)
    over = [row.request for row in rows if (held := requests.get(row.request)) and held.state != "open"]
    lost = [row.request for row in rows if row.request not in requests and row.at < limit]
    for change, ids in ((sa.update(table).values(over=1), over), (sa.delete(table), lost)):
        if ids:
            connection.execute(change.where(table.c.request == sa.bindparam("id")), [{"id": id} for id in ids])
