"""Every entry that somebody edited, removed, moved or cut off is found and named, whoever writes
into the file how.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unplug.core import CheckFailed, InputError
from unplug.trust.ledger import (
    Finding,
    Ledger,
    LedgerCheckpoint,
    LedgerEntry,
    LedgerSigner,
    check_ledger,
    check_proof,
    open_checkpoint,
    open_ledger,
    opening_for,
    prove_inclusion,
)
from unplug.trust.ledger.rows import signed_row

SIZE = 14
SIGNER = LedgerSigner(name="tests.example", seed=bytes(range(32)))


def _refuse() -> LedgerSigner:
    raise AssertionError("checking a ledger takes no secret key")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of `SIZE` entries."""
    path = tmp_path_factory.mktemp("written") / "ledger.db"
    ledger = open_ledger(str(path), signer=lambda: SIGNER)
    ledger.create()
    for number in range(SIZE - 3):
        ledger.add([f"subject:{number}"], id=f"A-{number}")
    ledger.withdraw("A-3", "changed her mind")
    ledger.record("audit", ["A-1", "A-2"], facts={"audit_sha256": "ab" * 32})
    assert len(ledger.entries()) == SIZE
    return path


@pytest.fixture(scope="module")
def kept(written: Path) -> LedgerCheckpoint:
    note = open_ledger(str(written), signer=_refuse).checkpoint()
    return open_checkpoint(note, SIGNER.verifier, "kept")


@contextlib.contextmanager
def tampered(
    written: Path,
) -> Iterator[tuple[sqlite3.Connection, Callable[..., tuple[Finding, ...]]]]:
    """A copy without triggers, as whoever owns the file can have it, and what checking it finds."""
    copy = written.with_name("copy.db")
    for old in written.parent.glob("copy.db*"):
        old.unlink()
    for source in written.parent.glob("ledger.db*"):
        shutil.copy(source, source.with_name(source.name.replace("ledger", "copy")))
    database = sqlite3.connect(copy, isolation_level=None)
    for (name,) in database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall():
        database.execute(f"DROP TRIGGER {name}")

    def found(kept: LedgerCheckpoint | None = None) -> tuple[Finding, ...]:
        return check_ledger(open_ledger(str(copy), signer=_refuse), SIGNER.verifier, kept)[1]

    try:
        yield database, found
    finally:
        database.close()


def named(findings: tuple[Finding, ...]) -> list[int | None]:
    return [finding.sequence for finding in findings]


def change(database: sqlite3.Connection, sequence: int, column: str, value: object) -> object:
    """Writes into one cell; what stood there."""
    where = "WHERE sequence = ?"
    query = f"SELECT {column} FROM ledger_entries {where}"
    (before,) = database.execute(query, [sequence]).fetchone()
    database.execute(f"UPDATE ledger_entries SET {column} = ? {where}", [value, sequence])
    return before


def test_the_untouched_one_is_as_it_was_signed(written: Path, kept: LedgerCheckpoint) -> None:
    with tampered(written) as (_, findings):
        assert findings() == findings(kept) == ()


@settings(max_examples=60)
@given(st.integers(0, SIZE - 1), st.data())
def test_an_edited_body_is_named_and_no_other(
    written: Path, sequence: int, data: st.DataObject
) -> None:
    """One letter, wherever it stands."""
    with tampered(written) as (database, findings):
        (body,) = database.execute(
            "SELECT body FROM ledger_entries WHERE sequence = ?", [sequence]
        ).fetchone()
        place = data.draw(st.integers(0, len(body) - 1))
        letter = data.draw(
            st.sampled_from("x07}é\x00").filter(lambda letter: letter != body[place])
        )
        changed = body[:place] + letter + body[place + 1 :]
        change(database, sequence, "body", changed)
        assert named(findings())[0] == sequence
        assert sequence == 0 or named(findings()) == [sequence]


@settings(max_examples=40)
@given(st.integers(0, SIZE - 1), st.sampled_from(["edge", "signature"]), st.binary(max_size=70))
def test_an_edited_edge_or_signature_is_named(
    written: Path, sequence: int, column: str, value: bytes
) -> None:
    with tampered(written) as (database, findings):
        if change(database, sequence, column, value) != value:
            assert named(findings())[0] == sequence


@settings(max_examples=40)
@given(st.sets(st.integers(0, SIZE - 2), min_size=1))
def test_removed_ones_are_named(written: Path, gone: set[int]) -> None:
    with tampered(written) as (database, findings):
        database.executemany(
            "DELETE FROM ledger_entries WHERE sequence = ?", [(number,) for number in gone]
        )
        assert {item.sequence for item in findings() if item.what == "it is missing"} == gone


@given(st.integers(1, SIZE - 2))
def test_a_removed_one_that_the_others_close_up_over_is_found(written: Path, gone: int) -> None:
    with tampered(written) as (database, findings):
        database.execute("DELETE FROM ledger_entries WHERE sequence = ?", [gone])
        database.execute(
            "UPDATE ledger_entries SET sequence = -sequence WHERE sequence > ?", [gone]
        )
        database.execute("UPDATE ledger_entries SET sequence = -sequence - 1 WHERE sequence < 0")
        assert (
            named(findings())[0] == gone
            and f"says of itself that it is entry {gone + 1}" in findings()[0].what
        )


@settings(max_examples=20)
@given(st.permutations(range(SIZE)))
def test_moved_ones_are_named(written: Path, order: list[int]) -> None:
    """Bodies change places, or whole rows."""
    moved = [place for place, source in enumerate(order) if place != source]
    for columns in ("body", "body, edge, signature"):
        with tampered(written) as (database, findings):
            rows = database.execute(
                f"SELECT {columns} FROM ledger_entries ORDER BY sequence"
            ).fetchall()
            for place in moved:
                values = ", ".join("?" * len(rows[0]))
                change = f"UPDATE ledger_entries SET ({columns}) = ({values}) WHERE sequence = ?"
                if len(rows[0]) == 1:
                    change = "UPDATE ledger_entries SET body = ? WHERE sequence = ?"
                database.execute(change, [*rows[order[place]], place])
            assert set(moved) <= set(named(findings()))


@given(st.integers(0, SIZE - 1))
def test_a_cut_tail_is_named_by_a_kept_checkpoint_alone(
    written: Path, kept: LedgerCheckpoint, left: int
) -> None:
    with tampered(written) as (database, findings):
        database.execute("DELETE FROM ledger_entries WHERE sequence >= ?", [left])
        database.execute("DELETE FROM ledger_salts WHERE rowid > ?", [max(0, left - 1)])
        if left:
            assert findings() == (), "a cut tail cannot be seen from the inside"
        assert named(findings(kept)) == list(range(left, SIZE))
        assert {item.what for item in findings(kept)} == {"it was cut off the end"}


@given(st.integers(1, SIZE - 1))
def test_whoever_has_the_key_is_found_by_a_kept_checkpoint(
    written: Path, kept: LedgerCheckpoint, first: int
) -> None:
    """All entries from one on are written anew and signed, as only the operator can."""
    with tampered(written) as (database, findings):
        database.execute("UPDATE ledger_entries SET body = replace(body, ':false', ':true')")
        rows = database.execute(
            "SELECT body, edge FROM ledger_entries ORDER BY sequence"
        ).fetchall()
        edge = rows[first - 1][1]
        edges = tuple(edge[start : start + 32] for start in range(0, len(edge), 32))
        for number in range(first, SIZE):
            told = json.loads(rows[number][0]) | {"at": "2031-01-01T00:00:00Z"}
            entry = LedgerEntry(
                **told | {name: tuple(told[name]) for name in ("requests", "subjects")}
            )
            row = signed_row(entry, edges, SIGNER, kept.origin)
            edges = row.hashes
            database.execute(
                "UPDATE ledger_entries SET (body, edge, signature) = (?, ?, ?) WHERE sequence = ?",
                [row.body, row.edge, row.signature, number],
            )
        assert findings() == (), "the key can write what it likes"
        assert [item.what for item in findings(kept)] == [
            f"the first {SIZE} entries are others than those of the kept checkpoint"
        ]


def test_salts_that_are_gone_exchanged_or_back_are_named(written: Path) -> None:
    with tampered(written) as (database, findings):
        (salt,) = database.execute("SELECT salt FROM ledger_salts WHERE request = 'A-4'").fetchone()
        database.execute("DELETE FROM ledger_salts WHERE request = 'A-4'")
        assert findings() == (
            Finding(sequence=5, what="its salt is gone, and no entry says that it was shredded"),
        )
        database.execute("INSERT INTO ledger_salts VALUES ('A-4', ?)", ["0" * 64])
        assert findings() == (
            Finding(sequence=5, what="its salt is another than when it was added"),
        )
        database.execute("UPDATE ledger_salts SET salt = ? WHERE request = 'A-4'", [salt])
        database.execute("INSERT INTO ledger_salts VALUES ('B', 'x')")
        assert findings() == (
            Finding(sequence=None, what="there is a salt of the request B, which no entry holds"),
        )


def test_the_tables_themselves_refuse(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written.parent, tmp_path / "whole")
    database = sqlite3.connect(tmp_path / "whole" / "ledger.db", isolation_level=None)
    (row,) = database.execute("SELECT * FROM ledger_entries WHERE sequence = 3").fetchall()
    for statement, values in (
        ("UPDATE ledger_entries SET body = 'x' WHERE sequence = 3", ()),
        ("DELETE FROM ledger_entries WHERE sequence = 3", ()),
        ("DELETE FROM ledger_entries", ()),
        ("INSERT OR REPLACE INTO ledger_entries VALUES (?, ?, ?, ?)", row),
        ("INSERT INTO ledger_entries VALUES (?, ?, ?, ?)", (SIZE + 1, *row[1:])),
        ("INSERT INTO ledger_entries VALUES (?, ?, ?, ?)", (SIZE, 1.5, b"", "text")),
        ("UPDATE ledger_salts SET salt = 'x'", ()),
        ("INSERT OR REPLACE INTO ledger_salts VALUES ('A-1', 'x')", ()),
    ):
        with pytest.raises(sqlite3.IntegrityError, match=r"append-only|cannot store"):
            database.execute(statement, values)
    database.close()


def test_nothing_is_added_to_what_was_tampered_with(written: Path) -> None:
    with tampered(written) as (database, _):
        change(database, SIZE - 1, "signature", bytes(64))
        with pytest.raises(InputError, match="its last entry is not what was signed"):
            open_ledger(str(written.with_name("copy.db")), signer=lambda: SIGNER).add(["subject:x"])


@pytest.mark.parametrize(
    "value", ["zeroblob(200)", "NULL", "5", "zeroblob(3000000)", "CAST(x'ff' AS TEXT)"]
)
def test_a_hostile_file_is_one_line(tmp_path: Path, value: str) -> None:
    """The same names of tables, and anything in them."""
    database = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    database.execute("CREATE TABLE alembic_version (version_num)")
    database.execute("INSERT INTO alembic_version VALUES ('0001')")
    database.execute("CREATE TABLE ledger_entries (sequence, body, edge, signature)")
    database.execute("CREATE TABLE ledger_salts (request, salt)")
    database.execute(f"INSERT INTO ledger_entries VALUES (0, {value}, {value}, {value})")
    database.close()
    with pytest.raises(InputError):
        check_ledger(open_ledger(str(tmp_path / "ledger.db"), signer=_refuse), SIGNER.verifier)


@given(st.integers(1, SIZE - 3), st.data())
def test_a_proof_shows_one_entry_and_no_other_proof_passes(
    written: Path, sequence: int, data: st.DataObject
) -> None:
    ledger: Ledger = open_ledger(str(written), signer=_refuse)
    rows, note = ledger.rows(), ledger.checkpoint()
    request = ledger.requests()[f"A-{sequence - 1}"]
    name = f"subject:{sequence - 1}"
    proof = prove_inclusion(rows, note, sequence, opening_for(ledger, request, name))
    proven = check_proof(proof, SIGNER.verifier, "proof", name)
    assert proven.entry == request.history[0] and proven.checkpoint.size == SIZE
    text = json.dumps(dataclasses.asdict(proof))
    assert not any(
        item.subjects[0] in text for other, item in ledger.requests().items() if other != request.id
    )
    with pytest.raises(CheckFailed, match="does not name that person"):
        check_proof(proof, SIGNER.verifier, "proof", f"subject:{sequence}")
    other = data.draw(st.integers(0, SIZE - 1).filter(lambda number: number != sequence))
    for changed in (
        {"entry": rows[other].body},
        {"index": other},
        {"path": proof.path[1:]},
        {"entry": rows[other].body, "index": other},
        {"checkpoint": proof.checkpoint.replace(f"\n{SIZE}\n", f"\n{SIZE - 1}\n")},
    ):
        with pytest.raises(CheckFailed):
            check_proof(dataclasses.replace(proof, **changed), SIGNER.verifier, "proof")
