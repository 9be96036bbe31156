"""A ledger in a folder of its own, signed with a key of its own; PostgreSQL where Debian's packages
are.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from unplug.trust.ledger import Ledger, LedgerSigner, clock, open_ledger

SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
ACCOUNT = "nobody" if hasattr(os, "geteuid") and os.geteuid() == 0 else None
"""PostgreSQL refuses to run as root."""


@pytest.fixture
def signer() -> LedgerSigner:
    return LedgerSigner(name="tests.example", seed=bytes(range(32)))


@pytest.fixture
def ledger(tmp_path: Path, signer: LedgerSigner, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    made = open_ledger(str(tmp_path / "ledger.db"), signer=lambda: signer, wait_seconds=1)
    with monkeypatch.context() as earlier:  # than any day of the tests
        earlier.setattr(clock, "now", lambda: datetime(2026, 1, 1, tzinfo=UTC))
        made.create()
    return made


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands look for a ledger and its keys; neither is there yet."""
    monkeypatch.setenv("UNPLUG_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", str(tmp_path / "ledger-key"))
    return tmp_path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server on loopback, without its database."""
    if not SERVERS:
        pytest.skip("no PostgreSQL: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="the extra [postgresql] is not installed")
    binaries, folder = SERVERS[-1].parent, Path("/tmp") / f"unplug-pg-{secrets.token_hex(4)}"
    folder.mkdir(0o700)
    password, port = folder / "password", _free_port()
    password.write_text("of the tests\n")
    if ACCOUNT:
        shutil.chown(folder, ACCOUNT)
        shutil.chown(password, ACCOUNT)
    data = folder / "data"

    def call(program: str, *args: str) -> None:
        done = subprocess.run(
            [str(binaries / program), *args],
            user=ACCOUNT,
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]

    made = f"-D {data} -U owner -A scram-sha-256 -E UTF8 --no-sync --pwfile {password}"
    call("initdb", *made.split())
    options = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c "
        "shared_buffers=16MB -c max_connections=40"
    )
    call("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://owner:of%20the%20tests@127.0.0.1:{port}"
    finally:
        call("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture
def postgresql(server: str) -> str:
    """The URL of a new, empty database."""
    import sqlalchemy as sa

    name = f"ledger_{secrets.token_hex(4)}"
    engine = sa.create_engine(
        f"{server}/postgres".replace("postgresql://", "postgresql+psycopg://"),
        isolation_level="AUTOCOMMIT",
    )
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{server}/{name}"
