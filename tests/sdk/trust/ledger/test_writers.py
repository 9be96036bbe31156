"""Many writers at once, writers that are killed, and places that cannot be written: on SQLite and
on PostgreSQL.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unplug.core import InputError, OutputError, UnplugError
from unplug.trust.ledger import (
    Ledger,
    LedgerSigner,
    check_ledger,
    open_checkpoint,
    open_ledger,
    role_sql,
)
from unplug.trust.ledger.database import Database

WRITER = Path(__file__).with_name("writer.py")
WRITERS, EACH = 20, 2


def start(place: str, prefix: str, count: int, each: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), place, prefix, str(count), str(each)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def all_at_once(place: str, signer: LedgerSigner) -> None:
    ledger = open_ledger(place, signer=lambda: signer)
    ledger.create()
    process = start(place, "W", WRITERS, EACH)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    told = {name: int(number) for name, number in (line.split() for line in out.splitlines())}
    assert len(told) == len(set(told.values())) == WRITERS * EACH
    requests = ledger.requests()
    assert {name: item.sequence for name, item in requests.items() if name != "shared"} == told
    assert len(ledger.entries()) == 1 + 1 + WRITERS * EACH, "what all of them added is there once"
    assert check_ledger(ledger, signer.verifier)[1] == ()


def killed_at_random(place: str, signer: LedgerSigner, rounds: int, seed: int) -> None:
    """kill -9 at any moment: all that was told is there, and the next writer goes on."""
    ledger = open_ledger(place, signer=lambda: signer)
    ledger.create()
    draw, told = random.Random(seed), {}
    for number in range(rounds):
        kept = open_checkpoint(ledger.checkpoint(), signer.verifier, "kept")
        process = start(place, f"K{number}", 1, 10_000)
        assert process.stdout is not None
        lines = [process.stdout.readline()]  # it has begun
        time.sleep(draw.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().split("\n")
        process.wait(timeout=60)
        told |= {
            match[1]: int(match[2])
            for line in lines
            if (match := re.fullmatch(r"(K\S+) (\d+)\n?", line))
        }
        assert check_ledger(ledger, signer.verifier, kept)[1] == ()
    requests = ledger.requests()
    assert {name: requests[name].sequence for name in told} == told and len(told) >= rounds
    assert len(requests) - 1 - len(told) <= rounds, (
        "at most the one that each was about to tell of is there untold"
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a ledger on either database."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return str(request.getfixturevalue("postgresql"))


def test_many_may_write_at_once(where: str, signer: LedgerSigner) -> None:
    all_at_once(where, signer)


def test_writers_may_be_killed(where: str, signer: LedgerSigner) -> None:
    killed_at_random(where, signer, 4, 1)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("how", ["a copy", "another", "gone", "made again"])
def test_a_file_in_the_place_of_the_open_one_is_noticed(
    tmp_path: Path, signer: LedgerSigner, how: str, *, pooled: bool
) -> None:
    place = tmp_path / "ledger.db"
    ledger = open_ledger(str(place), signer=lambda: signer, pooled=pooled)
    ledger.create()
    ledger.add(["subject:anna"], id="A-1")
    if how == "a copy":
        shutil.copy(place, tmp_path / "copy.db")
        (tmp_path / "copy.db").replace(place)
    elif how == "another":
        open_ledger(str(tmp_path / "other.db"), signer=lambda: signer).create()
        (tmp_path / "other.db").replace(place)
    else:
        place.rename(tmp_path / "aside.db")
    if how == "made again":
        open_ledger(str(place), signer=lambda: signer).create()
    for call in (ledger.requests, lambda: ledger.add(["subject:ben"], id="A-2"), ledger.checkpoint):
        with pytest.raises(
            OutputError,
            match="another file was put in its place since it was opened, or it was removed",
        ):
            call()
    if how != "gone":
        assert "A-2" not in open_ledger(str(place), signer=lambda: signer).requests()


def test_a_file_that_is_exchanged_within_a_transaction_takes_nothing(
    tmp_path: Path, signer: LedgerSigner
) -> None:
    place = tmp_path / "ledger.db"
    ledger = open_ledger(str(place), signer=lambda: signer)
    ledger.create()
    shutil.copy(place, tmp_path / "copy.db")
    database = Database(str(place))
    with (
        pytest.raises(OutputError, match="another file was put in its place"),
        database.writing() as session,
    ):
        session.put_salt("A-1", "00")
        (tmp_path / "copy.db").replace(place)
    assert open_ledger(str(place)).salts() == {}


def test_what_lies_beside_a_ledger_is_its_owners_alone(
    tmp_path: Path, signer: LedgerSigner
) -> None:
    before = os.umask(0)
    try:
        ledger = open_ledger(
            str(tmp_path / "new" / "ledger.db"), signer=lambda: signer, pooled=True
        )
        ledger.create()
        (tmp_path / "new" / "ledger.db").chmod(0o664)  # a copy that was put back
        ledger.add(["subject:anna"])
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()}
    assert modes == dict.fromkeys(["ledger.db", "ledger.db-wal", "ledger.db-shm"], 0o600)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.nightly
def test_sqlite_writers_may_be_killed_a_hundred_times(tmp_path: Path, signer: LedgerSigner) -> None:
    killed_at_random(str(tmp_path / "ledger.db"), signer, 100, 2)


def test_a_postgresql_role_can_add_and_shred_and_nothing_else(
    postgresql: str, signer: LedgerSigner
) -> None:
    import sqlalchemy as sa

    owner = open_ledger(postgresql, signer=lambda: signer)
    owner.create()
    role = f"writer {os.getpid()}"
    engine = sa.create_engine(postgresql.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE \"{role}\" LOGIN PASSWORD 'x'")
        connection.exec_driver_sql(role_sql(role))
    url = sa.make_url(postgresql).set(username=role, password="x")
    ledger = open_ledger(url.render_as_string(hide_password=False), signer=lambda: signer)
    assert "***" in ledger.shown
    ledger.add(["subject:anna"], id="A-1")
    ledger.withdraw("A-1")
    assert ledger.shred("A-1")[1]
    assert check_ledger(ledger, signer.verifier)[1] == () and ledger.salts() == {}
    as_writer = sa.create_engine(url.set(drivername="postgresql+psycopg"))
    # for the owner the triggers refuse what for the role no grant allows
    for user in (as_writer, engine):
        for statement in (
            "UPDATE ledger_entries SET body = 'x'",
            "DELETE FROM ledger_entries",
            "TRUNCATE ledger_entries",
            "UPDATE ledger_salts SET salt = 'x'",
            "INSERT INTO ledger_entries VALUES (9, 'x', '', '')",
        ):
            refused = pytest.raises(sa.exc.DBAPIError, match=r"append-only|permission denied")
            with user.connect() as connection, refused:
                connection.exec_driver_sql(statement)
    with engine.begin() as connection:
        connection.exec_driver_sql(f'REVOKE INSERT ON ledger_entries FROM "{role}"')
    with pytest.raises(OutputError, match="this role may not do that"):
        ledger.add(["subject:ben"])
    as_writer.dispose()
    engine.dispose()


def one_line(call: Callable[[], object], why: str, kind: type[UnplugError]) -> None:
    with pytest.raises(kind, match=why) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1 and "of the tests" not in str(caught.value)


def test_a_postgresql_server_that_is_not_there_is_one_line(server: str, postgresql: str) -> None:
    one_line(open_ledger(postgresql).entries, "no ledger is there", InputError)
    one_line(open_ledger(f"{server}/absent").entries, "does not exist", InputError)
    one_line(open_ledger(re.sub(r":\d+$", ":1", server) + "/x").entries, "refused", InputError)
    one_line(lambda: open_ledger("mysql://x/y"), "only SQLite and PostgreSQL", InputError)


def test_a_locked_ledger_is_waited_for_and_then_one_line(ledger: Ledger, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    one_line(lambda: ledger.add(["subject:anna"]), "another process is writing it", OutputError)
    assert len(ledger.entries()) == 1, "readers do not wait"
    other.close()
    ledger.add(["subject:anna"])


def test_a_ledger_of_a_newer_version_is_one_line(ledger: Ledger, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ledger.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '0999'")
    for call in (ledger.entries, ledger.create, lambda: ledger.add(["subject:anna"])):
        one_line(call, "version 0999, which this unplug does not know", InputError)


def test_what_is_no_ledger_is_one_line(tmp_path: Path, signer: LedgerSigner) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"no database\n" * 400)
    (tmp_path / "empty").touch()
    for name in ("absent", "empty", "."):
        one_line(open_ledger(str(tmp_path / name)).entries, "no ledger is there", InputError)
    for call in (
        open_ledger(str(text)).entries,
        open_ledger(str(text), signer=lambda: signer).create,
    ):
        one_line(call, "it is not a ledger|it is a text", InputError)
    assert not (tmp_path / "absent").exists()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to act as somebody else"
)
def test_a_read_only_ledger_is_read_and_not_written(ledger: Ledger, tmp_path: Path) -> None:
    """Another account may read the files, and write neither them nor their folder."""
    place = Path("/tmp") / f"unplug-read-only-{os.getpid()}"
    place.mkdir(0o755)
    try:
        for source in tmp_path.glob("ledger.db*"):
            shutil.copy(source, place / source.name)
            (place / source.name).chmod(0o644)
        ends = []
        for call in ("ledger.entries()", "ledger.record('step')"):
            if (child := os.fork()) == 0:
                os.setgid(65534)
                os.setuid(65534)
                read_only = open_ledger(
                    str(place / "ledger.db"),
                    signer=lambda: LedgerSigner(name="tests.example", seed=bytes(range(32))),
                )
                try:
                    exec(call, {"ledger": read_only})
                    os._exit(0)
                except OutputError as error:
                    os._exit(3 if "it is read-only for you" in str(error) else 4)
                finally:
                    os._exit(5)
            ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        assert ends == [0, 3]
    finally:
        shutil.rmtree(place)


def test_a_request_that_comes_while_the_ledger_is_checked_is_no_finding(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unplug.trust.ledger import checking

    real = checking.check_rows

    def check_rows(*args: Any) -> Any:
        ledger.add(["subject:anna"])
        return real(*args)

    monkeypatch.setattr(checking, "check_rows", check_rows)
    assert check_ledger(ledger, ledger.identity()[1])[1] == ()
