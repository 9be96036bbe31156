"""Where a ledger lies: a SQLite file or a PostgreSQL database; rows in and out, one writer at a time, one line an error."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from unplug.core import InputError, OutputError, require_modules

from .entries import MAX_BODY_BYTES
from .rows import Row
from .tables import HEAD, KNOWN, entries, salts

WAIT_SECONDS = 60
ADVISORY = 0x756E706C7567  # "unplug": the number of the lock of all writers of one PostgreSQL database
MAX_EDGE_BYTES = 32 * 64
MIGRATIONS = "migrations"


class Session:
    """One transaction.

    Args:
        connection: in which it began.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def rows(self) -> Iterator[Row]:
        """All rows, by their number, one after the other.

        Raises:
            InputError: one is larger than any entry is.
        """
        longest = [sa.func.max(sa.func.length(column)) for column in (entries.c.body, entries.c.edge, entries.c.signature)]
        sizes = self._connection.execute(sa.select(*longest)).one()
        if any(
            (size or 0) > limit for size, limit in zip(sizes, (MAX_BODY_BYTES, MAX_EDGE_BYTES, MAX_EDGE_BYTES), strict=True)
        ):
            raise InputError("the ledger", "it holds a row that is larger than any entry", "Restore it from a copy")
        for row in self._connection.execute(sa.select(entries).order_by(entries.c.sequence)):
            yield _row(row.sequence, row.body, row.edge, row.signature)

    def insert(self, row: Row) -> None:
        """Adds a row."""
        values = {"sequence": row.sequence, "body": row.body, "edge": row.edge, "signature": row.signature}
        self._connection.execute(sa.insert(entries).values(values))

    def salts(self) -> dict[str, str]:
        """Request to salt, of all that were not shredded."""
        return {row.request: row.salt for row in self._connection.execute(sa.select(salts))}

    def put_salt(self, request: str, salt: str) -> None:
        """Keeps the salt of a new request."""
        self._connection.execute(sa.insert(salts).values(request=request, salt=salt))

    def drop_salt(self, request: str) -> None:
        """Deletes the salt of a request; SQLite overwrites it with zeros."""
        self._connection.execute(sa.delete(salts).where(salts.c.request == request))


class Database:
    """The tables of one ledger.

    Args:
        where: a file, or a URL that begins with ``postgresql://``.
        wait_seconds: how long to wait for another writer.
    """

    def __init__(self, where: str, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.is_file = "://" not in where
        self._wait = wait_seconds
        if self.is_file:
            self.path = Path(where).expanduser()
            self.shown = str(self.path)
            self._engine = sa.create_engine("sqlite+pysqlite://", creator=self._connect, poolclass=sa.pool.NullPool)
            sa.event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql(self._begin(connection)))
        else:
            url = _postgresql(where)
            self.shown = url.render_as_string(hide_password=True)
            self._engine = sa.create_engine(url, connect_args={"connect_timeout": 10}, poolclass=sa.pool.NullPool)

    @staticmethod
    def _begin(connection: sa.Connection) -> str:
        return "BEGIN IMMEDIATE" if connection.get_execution_options().get("writing") else "BEGIN"

    def _connect(self) -> sqlite3.Connection:
        query = "mode=rw"
        if not os.access(self.path.parent, os.W_OK) and not self.path.with_name(f"{self.path.name}-wal").exists():
            query = "mode=ro&immutable=1"  # else SQLite wants to write a file of shared memory beside it
        name = urllib.parse.quote(str(self.path.absolute()))
        opened = sqlite3.connect(f"file:{name}?{query}", uri=True, timeout=self._wait, isolation_level=None)
        for pragma in ("synchronous=FULL", "secure_delete=ON", "trusted_schema=OFF", "cell_size_check=ON"):
            opened.execute(f"PRAGMA {pragma}")
        return opened

    def create(self) -> None:
        """Makes what is missing of the tables, or brings those of an older version up to date.

        Raises:
            InputError, OutputError: something else is there, or it cannot be written.
        """
        require_modules(["alembic"], "ledger")
        if self.is_file and not self.path.exists():
            self._make_file()
        with _told(self.shown):
            if self.is_file:
                with contextlib.closing(self._connect()) as opened:
                    opened.execute("PRAGMA journal_mode=WAL")
            with self._transaction(writing=True) as connection:
                if (found := _version(connection)) not in (None, *KNOWN):
                    raise _newer(self.shown, found)
                _migrate(connection)

    def _make_file(self) -> None:
        try:
            self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its two other files the same mode
        except OSError as error:
            raise OutputError(self.shown, error.strerror or str(error), "Choose a place that you can write to") from error

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that sees one state of the ledger, whatever is written meanwhile.

        Raises:
            InputError, OutputError: no ledger is there, it is broken, of another version, or cannot be reached.
        """
        with self._opened(writing=False) as connection:
            yield Session(connection)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction that has the ledger to itself; what it wrote is on the disk when the block ends, or none of it is.

        Raises:
            InputError, OutputError: as for `reading`; another process writes for too long, or it is read-only.
        """
        with self._opened(writing=True) as connection:
            yield Session(connection)

    @contextlib.contextmanager
    def _opened(self, *, writing: bool) -> Iterator[sa.Connection]:
        if self.is_file and not self.path.is_file():
            raise _no_ledger(self.shown)
        with _told(self.shown), self._transaction(writing=writing) as connection:
            found = _version(connection)
            if found is None:
                raise _no_ledger(self.shown)
            if found not in KNOWN:
                raise _newer(self.shown, found)
            if found != HEAD:
                raise InputError(self.shown, f"its tables are of the older version {found}", "Run `unplug ledger init` on it")
            yield connection

    @contextlib.contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[sa.Connection]:
        options: dict[str, Any] = {"writing": writing}
        if not self.is_file and not writing:
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._engine.connect().execution_options(**options) as connection, connection.begin():
            if writing and not self.is_file:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {round(self._wait * 1000)}")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY})")
            yield connection

    def truncate_log(self) -> bool:
        """Has SQLite copy its write-ahead log into the file and empty it, so that what was shredded is in neither.

        Returns:
            False where a reader stood in the way: the log goes with the next write after that.
        """
        if not self.is_file:
            return True
        with _told(self.shown), contextlib.closing(self._connect()) as opened:
            (busy, *_) = opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy


def _row(sequence: object, body: object, edge: object, signature: object) -> Row:
    if isinstance(sequence, int) and isinstance(body, str) and isinstance(edge, bytes) and isinstance(signature, bytes):
        return Row(sequence=sequence, body=body, edge=edge, signature=signature)
    raise InputError("the ledger", "it holds a row of other types than any entry has", "Restore it from a copy")


def _postgresql(where: str) -> sa.URL:
    try:
        url = sa.make_url(where)
    except sa.exc.ArgumentError as error:
        raise InputError("--ledger", "it is neither a file nor a URL", "Write postgresql://USER@HOST/DATABASE") from error
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise InputError(
            f"--ledger {url.drivername}://", "only SQLite and PostgreSQL hold ledgers", "Give a file, or postgresql://"
        )
    require_modules(["psycopg"], "postgresql")
    return url.set(drivername="postgresql+psycopg")


def _migrate(connection: sa.Connection) -> None:
    """Runs the migrations that are missing, in the transaction of the connection."""
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    folder = Path(__file__).with_name(MIGRATIONS)
    scripts = ScriptDirectory(str(folder), version_locations=[str(folder)])
    options = {"fn": lambda current, _: scripts._upgrade_revs("head", current), "transactional_ddl": True}
    context = MigrationContext.configure(connection, opts=options)
    with Operations.context(context):
        context.run_migrations()


def _version(connection: sa.Connection) -> str | None:
    """The migration that the tables are of; None where there are none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalars().first()
    return None if found is None else str(found)[:40]


def _no_ledger(where: str) -> InputError:
    return InputError(where, "no ledger is there", "Make one with `unplug ledger init`, or name it with --ledger")


def _newer(where: str, version: object) -> InputError:
    return InputError(where, f"its tables are of version {version}, which this unplug does not know", "Install a newer unplug")


@contextlib.contextmanager
def _told(where: str) -> Iterator[None]:
    """Turns what drivers raise into one line."""
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        raise _meaning(where, cause) from error


def _meaning(where: str, cause: BaseException | None) -> InputError | OutputError:
    name = str(getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None) or "")
    for beginning, (why, fix, kind) in MEANINGS.items():
        if name.startswith(beginning):
            return kind(where, why, fix)
    said = " ".join(str(cause).split())
    if "append-only" in said:
        return OutputError(where, "the ledger is append-only", "Correct an entry by adding another")
    return InputError(where, said[:200] or "the database failed", "Check that it can be reached, and that it is a ledger")


LOCKED = "another process is writing it, and did not end in time"
READ_ONLY = "it is read-only for you"
BROKEN = "it is no ledger, or the file is damaged"
MEANINGS: dict[str, tuple[str, str, type[InputError | OutputError]]] = {
    "SQLITE_BUSY": (LOCKED, "Wait for it and run the command again", OutputError),
    "SQLITE_LOCKED": (LOCKED, "Wait for it and run the command again", OutputError),
    "55P03": (LOCKED, "Wait for it and run the command again", OutputError),
    "SQLITE_READONLY": (READ_ONLY, "Use an account that may write it", OutputError),
    "25006": (READ_ONLY, "Use an account that may write it", OutputError),
    "42501": ("this role may not do that", "Use a role that `unplug ledger role` wrote the grants for", OutputError),
    "SQLITE_NOTADB": (BROKEN, "Restore it from a copy and verify that", InputError),
    "SQLITE_CORRUPT": (BROKEN, "Restore it from a copy and verify that", InputError),
    "SQLITE_CANTOPEN": ("it cannot be opened, or its folder not be written", "Check the permissions of both", InputError),
    "SQLITE_FULL": ("the disk is full", "Free some space; nothing was left half-written", OutputError),
    "42P01": ("no ledger is there", "Make one with `unplug ledger init`", InputError),
}
"""By the beginning of SQLite's name of an error, or PostgreSQL's code of it."""
