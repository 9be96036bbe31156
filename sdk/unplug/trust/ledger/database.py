"""The tables of a ledger: rows and salts, in and out of the place where they lie, and who may write
them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import sqlalchemy as sa

from unplug.core import InputError

from .entries import MAX_BODY_BYTES
from .rows import LedgerRow
from .store import WAIT_SECONDS, SqlStore, TableVersions

# a hash for each 1 in the number of entries, which has at most 64 bits
MAX_EDGE_BYTES = 32 * 64
HEAD = "0001"
"""The migration (in ``migrations/``) that the tables below are the outcome of."""
VERSIONS = TableVersions(
    scripts=Path(__file__).with_name("migrations"),
    version_table="alembic_version",
    head=HEAD,
    known=(HEAD,),
    absent="no ledger is there",
    make="unplug ledger init",
)

metadata = sa.MetaData()
entries = sa.Table(
    "ledger_entries",
    metadata,
    sa.Column(
        "sequence",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("edge", sa.LargeBinary, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),
    sqlite_strict=True,
)
"""Append-only. `edge` is the tree's after this entry (see `merkle`), `signature` that of the
checkpoint of this size.
"""
salts = sa.Table(
    "ledger_salts",
    metadata,
    sa.Column("request", sa.Text, primary_key=True),
    sa.Column("salt", sa.Text, nullable=False),
    sqlite_strict=True,
)
"""One row a request until it is shredded: the only thing in a ledger that can be deleted."""


class LedgerTransaction:
    """One transaction.

    Args:
        connection: the connection that it began in.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection

    def rows(self, since: int = 0) -> Iterator[LedgerRow]:
        """All rows from a number on, by their number, one after the other.

        Raises:
            InputError: one is larger than any entry is.
        """
        these = entries.c.sequence >= since
        too_large = sa.or_(
            sa.func.length(entries.c.body) > MAX_BODY_BYTES,
            sa.func.length(entries.c.edge) > MAX_EDGE_BYTES,
            sa.func.length(entries.c.signature) > MAX_EDGE_BYTES,
        )
        # asked of the database, so that nothing of such a row is in memory
        if self.connection.execute(sa.select(entries.c.sequence).where(these, too_large)).first():
            why = "it holds a row that is larger than any entry"
            raise InputError("the ledger", why, "Restore it from a copy")
        query = sa.select(entries).where(these).order_by(entries.c.sequence)
        for row in self.connection.execute(query):
            yield _row(row.sequence, row.body, row.edge, row.signature)

    def insert(self, row: LedgerRow) -> None:
        """Adds a row."""
        self.connection.execute(sa.insert(entries).values(asdict(row)))

    def salts(self) -> dict[str, str]:
        """Request to salt, of all that were not shredded."""
        return {row.request: row.salt for row in self.connection.execute(sa.select(salts))}

    def salt(self, request: str) -> str | None:
        """The salt of one request; None where it was shredded."""
        kept: str | None = self.connection.execute(
            sa.select(salts.c.salt).where(salts.c.request == request)
        ).scalar()
        return kept

    def put_salt(self, request: str, salt: str) -> None:
        """Keeps the salt of a new request."""
        self.connection.execute(sa.insert(salts).values(request=request, salt=salt))

    def drop_salt(self, request: str) -> None:
        """Deletes the salt of a request; SQLite overwrites it with zeros."""
        self.connection.execute(sa.delete(salts).where(salts.c.request == request))


class Database:
    """The tables of one ledger.

    Args:
        where: a file, or a URL that begins with ``postgresql://``.
        wait_seconds: how long to wait for another writer.
        pooled: see `SqlStore`.
    """

    def __init__(
        self, where: str, *, wait_seconds: float = WAIT_SECONDS, pooled: bool = False
    ) -> None:
        self._store = SqlStore(where, VERSIONS, wait_seconds=wait_seconds, pooled=pooled)
        self.shown = self._store.shown
        self.create = self._store.create
        self.truncate_log = self._store.truncate_log

    @contextlib.contextmanager
    def reading(self) -> Iterator[LedgerTransaction]:
        """See `SqlStore.reading`."""
        with self._store.reading() as connection:
            yield LedgerTransaction(connection)

    @contextlib.contextmanager
    def writing(self) -> Iterator[LedgerTransaction]:
        """See `SqlStore.writing`."""
        with self._store.writing() as connection:
            yield LedgerTransaction(connection)


def _row(sequence: object, body: object, edge: object, signature: object) -> LedgerRow:
    if (
        isinstance(sequence, int)
        and isinstance(body, str)
        and isinstance(edge, bytes)
        and isinstance(signature, bytes)
    ):
        return LedgerRow(sequence=sequence, body=body, edge=edge, signature=signature)
    raise InputError(
        "the ledger", "it holds a row of other types than any entry has", "Restore it from a copy"
    )
