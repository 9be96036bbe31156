"""The service's tables, which lie next to the ledger's and may be changed, and transactions over
them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

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


def _table(name: str, *texts: str, **others: TypeEngine[Any]) -> Table:
    """A table as queries need it, by the names of its columns; migrations make it with its keys."""
    columns = dict.fromkeys(texts, Text()) | others
    return Table(name, MetaData(), *(Column(column, kind) for column, kind in columns.items()))


tokens = _table(
    "service_tokens", "id", "sha256", "label", "scopes", "created", "expires", "revoked"
)
jobs = _table(
    "service_jobs",
    "id",
    "state",
    "worker",
    "created",
    "started",
    "finished",
    "requests",
    "result",
    "error",
    "recipe",
    "recipe_sha256",
    "certificates",
    number=NUMBER,
    fence=NUMBER,
    attempts=NUMBER,
    lease=Double(),
)
recipes = _table("service_recipes", "name", "sha256", lease=Double())
events = _table("service_events", "job", "at", "kind", "data", number=NUMBER)
models = _table("service_models", "name", "artifact", "sha256", "job", "since")
owners = _table("service_owners", "request", "token", names=NUMBER, over=Integer())


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
