"""The service's tables, which lie beside the ledger's and may be changed, and transactions over
them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, Table, Text

from unplug.trust.ledger import SqlStore, TableVersions

VERSIONS = TableVersions(
    scripts=Path(__file__).with_name("migrations"),
    version_table="service_version",
    head="0002",
    known=("0001", "0002"),
    absent="no service was set up there",
    make="unplug serve",
)
NUMBER = BigInteger().with_variant(Integer, "sqlite")
metadata = MetaData()
tokens = Table(
    "service_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sha256", Text),
    Column("label", Text),
    Column("scopes", Text),
    Column("created", Text),
    Column("expires", Text),
    Column("revoked", Text),
)
jobs = Table(
    "service_jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("number", NUMBER),
    Column("state", Text),
    Column("fence", NUMBER),
    Column("attempts", NUMBER),
    Column("worker", Text),
    Column("lease", Double),
    Column("created", Text),
    Column("started", Text),
    Column("finished", Text),
    Column("requests", Text),
    Column("result", Text),
    Column("error", Text),
    Column("recipe", Text),
    Column("recipe_sha256", Text),
    Column("certificates", Text),
)
recipes = Table(
    "service_recipes",
    metadata,
    Column("name", Text, primary_key=True),
    Column("sha256", Text),
    Column("lease", Double),
)
events = Table(
    "service_events",
    metadata,
    Column("number", NUMBER, primary_key=True, autoincrement=False),
    Column("job", Text),
    Column("at", Text),
    Column("kind", Text),
    Column("data", Text),
)
models = Table(
    "service_models",
    metadata,
    Column("name", Text, primary_key=True),
    Column("artifact", Text),
    Column("sha256", Text),
    Column("job", Text),
    Column("since", Text),
)
owners = Table(
    "service_owners",
    metadata,
    Column("request", Text, primary_key=True),
    Column("token", Text),
    Column("names", NUMBER),
    Column("over", Integer),
)


def time_now(later: timedelta = timedelta()) -> str:
    """Now or later, as every table says it: UTC, whole seconds."""
    return (datetime.now(UTC) + later).strftime("%Y-%m-%dT%H:%M:%SZ")


class ServiceTables(SqlStore):
    """The tables of a service.

    Args:
        where: the ledger's place: a file, or a URL that begins with ``postgresql://``.
        wait_seconds: how long to wait for another writer.
        pooled: see `SqlStore`.
    """

    def __init__(self, where: str, *, wait_seconds: float = 60, pooled: bool = False) -> None:
        super().__init__(where, VERSIONS, wait_seconds=wait_seconds, pooled=pooled)
