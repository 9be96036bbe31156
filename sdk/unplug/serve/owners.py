"""The owner of a request: its token sees and withdraws it, and has so many open at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from unplug.core import InputError
from unplug.trust.ledger import Ledger, Request, Submission

from .recipe import ServeLimits
from .tables import ServiceTables
from .tables import owners as table

AGAIN_SECONDS = 1.0
"""Between two looks at what a token has open: one at its limit must not have it listed each time.
"""
MANY = 500
"""Rows that are counted in less time than a transaction takes."""
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


class Desk:
    """The desk in front of a ledger.

    Args:
        ledger: the ledger that keeps the requests.
        tables: the tables with their owners, in the same database.
        limits: how much of one token may be open.
    """

    def __init__(self, ledger: Ledger, tables: ServiceTables, limits: ServeLimits) -> None:
        self._ledger, self._tables, self._limits = ledger, tables, limits
        self._closed: dict[str, float] = {}

    def owner(self, id: str) -> str | None:
        """The id of the token that made a request; None where none did."""
        with self._tables.reading() as connection:
            return connection.execute(
                sa.select(table.c.token).where(table.c.request == id)
            ).scalar()

    def add_all(self, items: Sequence[Owned]) -> list[Outcome | InputError]:
        """Adds requests as `Ledger.add_all` does, each with its owner in the same transaction."""
        open_: dict[str, tuple[int, int]] = {}

        def around(
            connection: sa.Connection,
            requests: Mapping[str, Request],
            item: Any,
            add: Callable[[], Outcome],
        ) -> Outcome:
            id, held = str(item.id), requests.get(item.id)
            kept = connection.execute(
                sa.select(table.c.token).where(table.c.request == id)
            ).scalar()
            owner = kept or (item.token if held is None or item.derived else None)
            if (
                owner != item.token and not item.reads
            ):  # in the same words whatever it names: else they tell whom it is about
                raise InputError(f"request {id}", "its id is taken", "Use another id")
            if owner != item.token or kept:
                return add()
            opened = held is None or held.state == "open"
            if opened:
                before = open_.get(item.token) or self._opened(connection, requests, item)
                self._check_room(before, item)
            outcome = add()
            if opened:
                open_[item.token] = before[0] + 1, before[1] + len(item.names)
            made = {
                "request": id,
                "token": item.token,
                "names": len(item.names),
                "over": int(not opened),
            }
            connection.execute(sa.insert(table).values(**made))
            return outcome

        return self._ledger.add_all(items, around)

    def _opened(
        self, connection: sa.Connection, requests: Mapping[str, Request], item: Owned
    ) -> tuple[int, int]:
        """How many requests of a token are open, and names in them; where they are many, what is
        over is counted no more.
        """
        before, now = _count(connection, item.token), time.monotonic()
        if (before[0] > MANY or self._full(before, item)) and now - self._closed.get(
            item.token, float("-inf")
        ) > AGAIN_SECONDS:
            self._closed[item.token] = now
            _close(connection, item.token, requests)
            return _count(connection, item.token)
        return before

    def _check_room(self, before: tuple[int, int], item: Owned) -> None:
        if why := self._full(before, item):
            raise TooMany("this token", why, "Wait for a release, or withdraw some")

    def _full(self, before: tuple[int, int], item: Owned) -> str | None:
        requests, names = before
        if requests >= self._limits.open_requests:
            return f"{requests} requests of it are open, and more may not be at once"
        if names + len(item.names) > self._limits.open_names:
            return f"its open requests would hold more than {self._limits.open_names} names"
        return None


def _count(connection: sa.Connection, token: str) -> tuple[int, int]:
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(table.c.names), 0))
    requests, names = connection.execute(
        query.where(table.c.token == token, table.c.over == 0)
    ).one()
    return int(requests), int(names)


def _close(connection: sa.Connection, token: str, requests: Mapping[str, Request]) -> None:
    """Counts no more what is open no more."""
    rows = connection.execute(
        sa.select(table.c.request).where(table.c.token == token, table.c.over == 0)
    ).scalars()
    over = [{"id": id} for id in rows if (held := requests.get(id)) and held.state != "open"]
    if over:
        connection.execute(
            sa.update(table).values(over=1).where(table.c.request == sa.bindparam("id")), over
        )
