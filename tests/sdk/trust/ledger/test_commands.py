"""The commands, from a new ledger to its export, and one line for each thing that goes wrong."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main
from unplug.sdk.cli.ledger import RECORDED as KINDS
from unplug.trust.ledger import RECORDED
from unplug.trust.ledger.merkle import leaf_hash, tree_root

SPEC = "synth:n=12,subjects=4,seed=3"
CASES = Path(__file__).resolve().parents[3] / "cases" / "serve-half-known"


def call(*args: object, code: int = 0) -> Any:
    """The JSON of a command that ends with `code`."""
    result = CliRunner().invoke(main, ["ledger", *map(str, args), "--json"])
    assert result.exit_code == code, result.output
    if code == 2:
        assert len(result.stderr.strip().splitlines()) == 1 and result.stderr.startswith("error: ")
        return result.stderr.strip()
    return json.loads(result.stdout)


def say(*args: object) -> str:
    result = CliRunner().invoke(main, ["ledger", *map(str, args)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def made(place: Path) -> dict[str, Any]:
    return dict(call("init", "--name", "example.com"))


def subjects() -> list[str]:
    from unplug.sdk.learning.data import parse_spec

    return sorted({f"subject:{sample.subject}" for sample in parse_spec(SPEC).listing().samples})


def test_the_walk_through(made: dict[str, Any], place: Path) -> None:
    anna, ben, *_ = subjects()
    (place / "anna.txt").write_text(f"{anna}\n")
    first = call(
        "add",
        "--id",
        "A-1",
        "--forget",
        place / "anna.txt",
        "--data",
        SPEC,
        "--identity",
        "passport seen",
    )
    assert first["new"] and not call("add", "--id", "A-1", "--person", anna)["new"]
    call("add", "--id", "A-2", "--person", ben, "--received", "2026-01-31")
    call("checkpoint", "--out", place / "kept")

    queue = call("queue", "--data", SPEC, "--out", place / "forget.json")
    assert queue["requests"] == ["A-1", "A-2"] and queue["names"] == 2
    told = json.loads((place / "forget.json").read_text())
    assert (
        sorted(f"subject:{name}" for name in told["subjects"]) == sorted([anna, ben])
        and told["samples"] == []
    )
    from unplug.sdk.learning.data import read_forget_names

    assert sorted(read_forget_names(place / "forget.json", ())) == sorted([anna, ben])

    call("record", "release", "A-1", "A-2", "--file", place / "kept", "--set", "bundle=7")
    assert call("record", "answered", "A-1")["stays"]["A-1"].startswith(
        "no search says what stays of the person in raw data, "
    )
    states = {item["request"]: item["state"] for item in call("list", "--all")}
    assert states == {"A-1": "answered", "A-2": "released"} and [
        item["request"] for item in call("list")
    ] == ["A-2"]
    history = call("status", "A-1")["history"]
    assert [entry["kind"] for entry in history] == ["request", "release", "answered"]
    assert (
        history[1]["facts"]["sha256 kept"]
        == hashlib.sha256((place / "kept").read_bytes()).hexdigest()
    )

    call("prove", "A-1", "--name", anna, "--out", place / "proof.json")
    (place / "ledger-key").unlink()  # on another machine: the proof and the public key alone
    (place / "ledger.db").rename(place / "elsewhere.db")
    check = ("verify", "--vkey", made["vkey"])
    assert call(*check, "--proof", place / "proof.json", "--name", anna)["entry"]["requests"] == [
        "A-1"
    ]
    (place / "growth.json").write_text(
        '{"schema": "unplug-ledger-growth/1", "older": "", "newer": "", "path": []}'
    )
    refused = CliRunner().invoke(main, ["ledger", *check, "--proof", str(place / "growth.json")])
    assert (
        refused.exit_code == 2
        and "no proof of a ledger of the form unplug-ledger-inclusion/1, but unplug-ledger-growth/1"
        in refused.stderr
    )
    result = CliRunner().invoke(
        main, ["ledger", *check, "--proof", str(place / "proof.json"), "--name", ben]
    )
    assert result.exit_code == 1 and "does not name that person" in result.stderr


def test_due_counts_days_and_ends_with_1_when_late(made: dict[str, Any]) -> None:
    call("add", "--id", "old", "--person", "subject:x", "--received", "2020-01-31")
    late = call("due", code=1)
    assert (
        late["late"] == 1
        and late["due"][0]["due"] == "2020-02-29"
        and late["due"][0]["days_left"] < 0
    )
    call("refuse", "old", "--reason", "not in our data")
    call("add", "--id", "new", "--person", "subject:x")
    assert call("due", "--within", 3)["due"] == [] and len(call("due", "--within", 40)["due"]) == 1
    assert "0 late, 1 due within 40 days, 1 waiting in all" in say("due", "--within", 40)
    assert call("extend", "new", "--reason", "many at once")["due"] > call("status", "old")["due"]


def test_verify_names_what_was_edited(made: dict[str, Any], place: Path) -> None:
    import sqlite3

    call("add", "--id", "A-1", "--person", "subject:x")
    call("refuse", "A-1", "--reason", "we know better")
    call("checkpoint", "--out", place / "kept")
    assert "but without --against" in say("verify") and "begins with the 3" in say(
        "verify", "--against", place / "kept"
    )
    database = sqlite3.connect(place / "ledger.db", isolation_level=None)
    for trigger in ("ledger_entries_no_update", "ledger_entries_no_delete"):
        database.execute(f"DROP TRIGGER {trigger}")
    database.execute(
        "UPDATE ledger_entries SET body = replace(body, 'we know better', 'withdrawn by') WHERE "
        "sequence = 2"
    )
    assert [item["sequence"] for item in call("verify", code=1)["findings"]] == [2]
    database.execute("DELETE FROM ledger_entries WHERE sequence = 2")
    assert call("verify")["findings"] == []
    assert call("verify", "--against", place / "kept", code=1)["findings"] == [
        {"sequence": 2, "what": "it was cut off the end"}
    ]


def test_an_export_can_be_computed_again(made: dict[str, Any], place: Path) -> None:
    call("add", "--id", "A-1", "--person", "subject:x")
    call("refuse", "A-1", "--reason", "=cmd()")
    call("export", "--out", place / "all.json")
    told = json.loads((place / "all.json").read_text())
    leaves = [
        leaf_hash(json.dumps(entry, sort_keys=True, separators=(",", ":")).encode())
        for entry in told["entries"]
    ]
    import base64

    assert told["checkpoint"].split("\n")[1:3] == [
        "3",
        base64.b64encode(tree_root(leaves)).decode(),
    ]
    call("export", "--format", "csv", "--out", place / "all.csv")
    rows = list(csv.DictReader((place / "all.csv").read_text().splitlines()))
    assert [row["kind"] for row in rows] == ["opened", "request", "refused"] and rows[2][
        "note"
    ] == "'=cmd()"


def test_shredding_asks(made: dict[str, Any]) -> None:
    call("add", "--id", "A-1", "--person", "subject:x")
    call("withdraw", "A-1")
    assert "nobody is there to ask" in call("shred", "A-1", code=2)
    assert call("shred", "A-1", "--yes")["log_emptied"]
    assert "nobody can tell whom it named" in say("status", "A-1")


def test_what_goes_wrong_is_one_line(
    made: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("add", "--id", "A-1", "--person", "subject:x")
    call("prove", "A-1", "--out", place / "proof.json")
    (place / "broken.json").write_text('{"schema": "unplug-ledger-inclusion/1"}')
    (place / "other.json").write_text('{"schema": ["unplug-ledger-inclusion/1"]}')
    for args, why in (
        (("add", "--person", "subject:x", "--data", SPEC), "1 of 1 names are unknown"),
        (("add",), "it names nobody"),
        (("status", "B"), "holds no such request"),
        (("queue", "--data", SPEC, "--out", place / "q"), "holds all names of no open request"),
        (("prove", "--out", place / "p"), "Missing argument 'REQUEST'"),
        (
            ("prove", "A-1", "--name", "subject:y", "--out", place / "p"),
            "does not name that person",
        ),
        (("verify", "--vkey", "a+b+c"), "not NAME"),
        (("verify", "--vkey", place / "none"), "No such file"),
        (("verify", "--against", place / "proof.json"), "no signed note"),
        (("verify", "--proof", place / "broken.json"), "does not follow its schema"),
        (("verify", "--proof", place / "other.json"), "no proof of a ledger"),
        (
            ("verify", "--proof", place / "proof.json", "--name", "subject:x"),
            "does not say whom the entry names",
        ),
        (("verify", "--name", "subject:x"), "belongs to a proof"),
        (("list", "--ledger", place / "absent.db"), "no ledger is there"),
        (("list", "--ledger", "mysql://x"), "only SQLite and PostgreSQL"),
    ):
        assert why in call(*args, code=2), args
    (place / "ledger-key").chmod(0o644)
    assert "others can read this key" in call("add", "--person", "subject:x", code=2)
    (place / "ledger-key").unlink()
    assert "no key that signs ledgers is there" in call("add", "--person", "subject:x", code=2)
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", "PRIVATE+KEY+x+y+z")
    assert "no secret key" in call("add", "--person", "subject:x", code=2)


def test_the_command_takes_the_kinds_that_the_ledger_does() -> None:
    assert RECORDED == KINDS


def test_the_role_is_sql() -> None:
    assert (
        call("role", "writer")["sql"].splitlines()[1]
        == 'GRANT SELECT, INSERT ON "public".ledger_entries TO "writer";'
    )
    assert '"a""; DROP"' in call("role", 'a"; DROP')["sql"]


def test_half_a_request_is_told_and_stays_open(made: dict[str, Any], place: Path) -> None:
    anna, ben, *_ = subjects()
    half = json.loads((CASES / "half.json").read_text())["names"]
    (place / "names.txt").write_text(f"{anna}\n {half[1]} \n")
    for way in (("--forget", place / "names.txt"), ("--person", anna, "--person", f"{half[1]} ")):
        told = call("add", *way, "--data", SPEC, code=2)
        assert "1 of 2 names are unknown to the data (number 2)" in told and repr(half[1]) in told
    call("add", "--id", "half", "--person", anna, "--person", half[1])
    call("add", "--id", "blank", "--person", f" {ben.replace(':', ': ')} ", "--data", SPEC)
    assert call("queue", "--data", SPEC, "--out", place / "forget.json")["requests"] == ["blank"]
    lines = say("queue", "--data", SPEC, "--out", place / "forget.json").splitlines()
    assert lines[1:] == [
        "half stays open: 1 of its names is not in these data; `unplug ledger withdraw half "
        "--person NAME` takes out one "
        "that is mistyped, or of other data",
        "`unplug release --all-open` records it; else: unplug ledger record release blank --file "
        "MANIFEST",
    ]
    left = call("withdraw", "half", "--person", half[1], "--reason", "mistyped")
    assert (left["state"], left["names"]) == ("open", 1)
    assert "1 name withdrawn" in say("status", "half")
    assert call("queue", "--data", SPEC, "--out", place / "forget.json")["requests"] == [
        "half",
        "blank",
    ]
    assert (
        say("withdraw", "half", "--person", anna).strip() == "request half is withdrawn (entry 4)"
    )


def test_the_status_says_every_fact_whole(made: dict[str, Any], place: Path) -> None:
    call("add", "--id", "A-1", "--person", "subject:anna")
    facts = {
        "bundle_sha256": "0123456789abcdef" * 4,
        "gate utility": "0.71 <= 0.55: fails; overridden: the old one is as bad",
    }
    call(
        "record",
        "step",
        "A-1",
        *(word for item in facts.items() for word in ("--set", "=".join(item))),
        "--note",
        "by hand",
    )
    lines = say("status", "A-1").splitlines()
    assert all(f"       {name} {value}" in lines for name, value in facts.items())
    assert lines[1].split() == ["entry", "at", "what"] and lines[-3].split()[2:] == [
        "step",
        "by",
        "hand",
    ]


def test_what_was_wrong_is_corrected(
    made: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import timedelta

    from unplug.trust.ledger import clock

    real = clock.now
    with monkeypatch.context() as ahead:
        ahead.setattr(clock, "now", lambda: real() + timedelta(days=400))
        call("add", "--id", "A-1", "--person", "subject:x")
    assert "run `unplug ledger correct --clock`" in call("add", "--person", "subject:y", code=2)
    assert list(call("correct", "--clock", "--reason", "it was ahead")["to_come"]) == ["A-1"]
    assert "over ten years ago" in call(
        "correct", "A-1", "--received", "0001-01-01", "--reason", "by post", code=2
    )
    assert (
        call("correct", "A-1", "--received", "2026-01-31", "--reason", "by post")["due"]
        == "2026-02-28"
    )
    assert call("due", code=1)["late"] == 1
    monkeypatch.setenv("UNPLUG_KEY", str(place / "new"))
    assert "no key is there" in call("add", "--person", subjects()[0], code=2)
    call("correct", "--key", "--reason", "the old one is lost")
    call("add", "--id", "A-2", "--person", subjects()[0])
    told = call("queue", "--data", SPEC, "--out", place / "forget.json")
    assert told["requests"] == ["A-2"] and list(told["unreadable"]) == ["A-1"]


def test_the_zone_of_a_command_is_that_of_its_days(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import datetime

    # which the option replaces until this test is over
    monkeypatch.setenv("UNPLUG_TIMEZONE", "UTC")
    days = {}
    for zone, id in (("+14:00", "T-east"), ("-12:00", "T-west")):
        days[id] = datetime.date.fromisoformat(
            call("add", "--person", "subject:x", "--id", id, "--timezone", zone)["received"]
        )
        assert call("due", "--timezone", zone)["today"] == str(days[id])
        assert f"utc_offset {zone}" in say("status", id)
    assert (days["T-east"] - days["T-west"]).days in (1, 2)
    assert "no such zone is known" in call("due", "--timezone", "Mars/Base", code=2)
