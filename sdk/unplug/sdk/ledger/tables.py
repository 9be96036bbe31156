"""The tables of a ledger, and which versions of them this package knows."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table, Text

HEAD = "0001"
"""The migration (in ``migrations/``) that the tables below are the outcome of."""
KNOWN = (HEAD,)

metadata = MetaData()
entries = Table(
    "ledger_entries",
    metadata,
    Column("sequence", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("edge", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    sqlite_strict=True,
)
"""Append-only. `edge` is the tree's after this entry (see `merkle`), `signature` that of the checkpoint of this size."""
salts = Table(
    "ledger_salts",
    metadata,
    Column("request", Text, primary_key=True),
    Column("salt", Text, nullable=False),
    sqlite_strict=True,
)
"""One row a request until it is shredded: the only thing in a ledger that can be deleted."""
