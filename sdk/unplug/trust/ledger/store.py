"""Tables at a place, a SQLite file or a PostgreSQL database: made by migrations, one writer at a
time, one line an error.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import urllib.parse
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from unplug.core import InputError, OutputError, check_content, expanded, is_there, require_modules

WAIT_SECONDS = 60
ADVISORY = (
    0x756E706C7567  # "unplug": the number of the lock of all writers of one PostgreSQL database
)
POOL = 16


@dataclass(frozen=True, kw_only=True)
class TableVersions:
    """Versions of some tables: Alembic scripts, and which of them this package knows.

    Args:
        scripts: folder of them.
        version_table: the table in which the database says which version its tables have.
        head: the newest.
        known: all that can be brought up to date.
        absent: the message if the tables are not there, with advice.
        make: the command that makes them.
    """

    scripts: Path
    version_table: str
    head: str
    known: tuple[str, ...]
    absent: str
    make: str


class SqlStore:
    """Tables at a place, in one of their versions.

    Args:
        where: a file, or a URL that begins with ``postgresql://``.
        versions: the versions of the tables.
        wait_seconds: how long to wait for another writer.
        pooled: keep connections for the next transaction, and look at the version once: for a
            process that serves many.
    """

    def __init__(
        self,
        where: str,
        versions: TableVersions,
        *,
        wait_seconds: float = WAIT_SECONDS,
        pooled: bool = False,
    ) -> None:
        self.is_file = "://" not in where
        self._versions, self._wait, self._pooled, self._known_good = (
            versions,
            wait_seconds,
            pooled,
            False,
        )
        self._file: tuple[int, int] | None = None
        pool: dict[str, Any] = {"poolclass": sa.pool.NullPool}
        if pooled:
            sizes = {"pool_size": POOL, "max_overflow": POOL, "pool_timeout": wait_seconds}
            pool = {"poolclass": sa.pool.QueuePool, **sizes}
        if self.is_file:
            self.path = expanded(where)
            self.shown = str(self.path)
            self._engine = sa.create_engine("sqlite+pysqlite://", creator=self._connect, **pool)
            sa.event.listen(self._engine, "begin", _begin)
        else:
            url = _postgresql(where)
            self.shown = url.render_as_string(hide_password=True)
            self._engine = sa.create_engine(
                url, connect_args={"connect_timeout": 10}, pool_pre_ping=pooled, **pool
            )

    def _connect(self) -> sqlite3.Connection:
        query, log = "mode=rw", self.path.with_name(f"{self.path.name}-wal")
        if not os.access(self.path.parent, os.W_OK) and not log.exists():
            # else SQLite wants to write a file of shared memory next to it
            query = "mode=ro&immutable=1"
        name = urllib.parse.quote(str(self.path.absolute()))
        opened = sqlite3.connect(
            f"file:{name}?{query}",
            uri=True,
            timeout=self._wait,
            isolation_level=None,
            check_same_thread=not self._pooled,
        )
        # What was acknowledged survives a power cut; a shredded salt is overwritten; and a file of
        # strangers neither runs functions of its schema nor is believed in its sizes.
        for pragma in (
            "synchronous=FULL",
            "secure_delete=ON",
            "trusted_schema=OFF",
            "cell_size_check=ON",
        ):
            opened.execute(f"PRAGMA {pragma}")
        return opened

    def close(self) -> None:
        """Ends the connections that are kept."""
        self._engine.dispose()

    def create(self) -> None:
        """Makes what is missing of the tables, or brings those of an older version up to date.

        Raises:
            InputError, OutputError: something else is there, or it cannot be written.
        """
        require_modules(["alembic"], "ledger")
        self._file = None
        if self.is_file and not is_there(self.path):
            self._make_file()
        with told(self.shown):
            if self.is_file:
                with contextlib.closing(self._connect()) as opened:
                    opened.execute("PRAGMA journal_mode=WAL")
            # within the writers' lock: two that start at once must not both migrate
            with self._transaction(writing=True) as connection:
                if (version := self._version(connection)) not in (None, *self._versions.known):
                    raise self._newer(version)
                self._migrate(connection)

    def _make_file(self) -> None:
        try:
            self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
            # SQLite gives its two other files the same mode
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            fix = "Choose a place that you can write to: `ledger` or UNPLUG_LEDGER names it"
            raise OutputError(self.shown, error.strerror or str(error), fix) from error

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that sees one state of the tables, whatever is written meanwhile.

        Raises:
            InputError, OutputError: the tables are not there, broken, of another version, cannot be
                reached or written; or another file lies in the place of the one that was opened
                first.
        """
        return self._opened(writing=False)

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that has the tables to itself: reading and then writing in it is one step.
        What it wrote is on the disk when the block ends, or none of it is.

        Raises:
            InputError, OutputError: as for `reading`; another process writes for too long, or it is
                read-only.
        """
        return self._opened(writing=True)

    @contextlib.contextmanager
    def _opened(self, *, writing: bool) -> Iterator[sa.Connection]:
        first = self.is_file and self._file is None
        if first and not (is_there(self.path) and self.path.is_file()):
            raise self._absent()
        self._check_file(writing=writing)
        with told(self.shown), self._transaction(writing=writing) as connection:
            self._check_file()
            if not self._known_good:
                self._check_version(connection)
            yield connection
            if writing:
                self._check_file()

    def _check_file(self, *, writing: bool = False) -> None:
        """Refuses a file in the place of the first one: what is written to either would be lost to
        who has the other open.

        A file that others can read, a copy that was put back say, is its owner's alone from the
        first write on.
        """
        if not self.is_file:
            return
        with contextlib.suppress(OSError):
            status = self.path.stat()
            if self._file is None:
                self._file = status.st_dev, status.st_ino
            if writing and stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
                for ending in ("", "-wal", "-shm"):
                    with contextlib.suppress(OSError):  # it is not there, or somebody else's
                        self.path.with_name(self.path.name + ending).chmod(0o600)
            if self._file == (status.st_dev, status.st_ino):
                return
        why = "another file was put in its place since it was opened, or it was removed"
        raise OutputError(
            self.shown, why, "Put back the one that was there, or start unplug again on this one"
        )

    def _check_version(self, connection: sa.Connection) -> None:
        version = self._version(connection)
        if version is None:
            raise self._absent()
        if version not in self._versions.known:
            raise self._newer(version)
        if version != self._versions.head:
            raise InputError(
                self.shown,
                f"its tables are of the older version {version}",
                f"Run `{self._versions.make}` on it",
            )
        self._known_good = self._pooled

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
        """Has SQLite copy its write-ahead log into the file and empty it, so that what was deleted
        is in neither.

        Returns:
            False where a reader stood in the way: the log goes with the next write after that.
        """
        if not self.is_file:
            return True
        with told(self.shown), contextlib.closing(self._connect()) as opened:
            (busy, *_) = opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

    def _migrate(self, connection: sa.Connection) -> None:
        """Runs the migrations that are missing, in the transaction of the connection."""
        from alembic.operations import Operations
        from alembic.runtime.migration import MigrationContext
        from alembic.script import ScriptDirectory

        folder = str(self._versions.scripts)
        scripts = ScriptDirectory(folder, version_locations=[folder])
        options = {
            "fn": lambda current, _: scripts._upgrade_revs("head", current),
            "transactional_ddl": True,
            "version_table": self._versions.version_table,
        }
        context = MigrationContext.configure(connection, opts=options)
        with Operations.context(context):
            context.run_migrations()

    def _version(self, connection: sa.Connection) -> str | None:
        """The migration that the tables are of; None where there are none."""
        table = self._versions.version_table
        if not sa.inspect(connection).has_table(table):
            return None
        version = connection.execute(sa.text(f"SELECT version_num FROM {table}")).scalars().first()
        return None if version is None else str(version)[:40]

    def _absent(self) -> InputError:
        return InputError(
            self.shown,
            self._versions.absent,
            f"Make it with `{self._versions.make}`, or name it with `ledger`",
        )

    def _newer(self, version: object) -> InputError:
        why = f"its tables are of version {version}, which this unplug does not know"
        return InputError(self.shown, why, "Install a newer unplug")


def _begin(connection: sa.Connection) -> None:
    """The driver is told to begin none by itself. A writer takes the lock at once: of two that read
    first and write then each waits for the other, and SQLite refuses one.
    """
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _postgresql(where: str) -> sa.URL:
    try:
        url = sa.make_url(where)
    except sa.exc.ArgumentError as error:
        raise InputError(
            "`ledger`", "it is neither a file nor a URL", "Write postgresql://USER@HOST/DATABASE"
        ) from error
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise InputError(
            f"`ledger={url.drivername}://`",
            "only SQLite and PostgreSQL hold ledgers",
            "Give a file, or postgresql://",
        )
    require_modules(["psycopg"], "postgresql")
    return url.set(drivername="postgresql+psycopg")


@contextlib.contextmanager
def told(where: str) -> Iterator[None]:
    """Turns what drivers raise into one line."""
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        raise _meaning(where, cause) from error
    except sa.exc.TimeoutError as error:
        raise OutputError(where, LOCKED, AGAIN) from error


def _meaning(where: str, cause: BaseException | None) -> InputError | OutputError:
    name = str(getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None) or "")
    for beginning, (why, fix, kind) in MEANINGS.items():
        if name.startswith(beginning):
            if why == BROKEN:
                check_content(Path(where))
            return kind(where, why, fix)
    message = " ".join(str(cause).split())
    if "append-only" in message:
        return OutputError(where, "the ledger is append-only", "Correct an entry by adding another")
    return InputError(
        where,
        message[:200] or "the database failed",
        "Check that it can be reached, and that it is a ledger",
    )


AGAIN = "Wait for it and run the command again"
LOCKED = "another process is writing it, and did not end in time"
READ_ONLY = "it is read-only for you"
BROKEN = "it is not a ledger, or the file is damaged"
MEANINGS: dict[str, tuple[str, str, type[InputError | OutputError]]] = {
    "SQLITE_BUSY": (LOCKED, AGAIN, OutputError),
    "SQLITE_LOCKED": (LOCKED, AGAIN, OutputError),
    "55P03": (LOCKED, AGAIN, OutputError),
    "SQLITE_READONLY": (READ_ONLY, "Use an account that may write it", OutputError),
    "25006": (READ_ONLY, "Use an account that may write it", OutputError),
    "42501": (
        "this role may not do that",
        "Use a role that `unplug ledger role` wrote the grants for",
        OutputError,
    ),
    "SQLITE_NOTADB": (BROKEN, "Restore it from a copy and verify that", InputError),
    "SQLITE_CORRUPT": (BROKEN, "Restore it from a copy and verify that", InputError),
    "SQLITE_CANTOPEN": (
        "it cannot be opened, or its folder not be written",
        "Check the permissions of both",
        InputError,
    ),
    "SQLITE_FULL": (
        "the disk is full",
        "Free some space; nothing was left half-written",
        OutputError,
    ),
    "42P01": ("no ledger is there", "Make one with `unplug ledger init`", InputError),
}
"""By the beginning of SQLite's name of an error, or PostgreSQL's code of it."""
