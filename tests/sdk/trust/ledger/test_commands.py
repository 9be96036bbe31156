"""The commands, from a new ledger to its export, and one line for each thing that goes wrong."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import sqlite3
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from unplug.sdk.cli.ledger import RECORDED as KINDS
from unplug.sdk.learning.data import parse_spec, read_forget_names
from unplug.trust.ledger import RECORDED, clock
from unplug.trust.ledger.merkle import leaf_hash, tree_root

from .. import commands

DATA = "--data synth:n=12,subjects=4,seed=3"
CASES = Path(__file__).resolve().parents[3] / "cases" / "serve-half-known"


def call(words: str, code: int = 0) -> Any:
    return commands.called(f"ledger {words}", code)


def show(words: str) -> str:
    return commands.shown(f"ledger {words}")


def refused(words: str, code: int = 2) -> str:
    return commands.refused(f"ledger {words}", code)


@pytest.fixture
def made(place: Path) -> dict[str, Any]:
    return dict(call("init --origin example.com"))


def subjects() -> list[str]:
    samples = parse_spec(DATA.split()[1]).listing().samples
    return sorted({f"subject:{sample.subject}" for sample in samples})


def test_the_walk_through(made: dict[str, Any], place: Path) -> None:
    anna, ben, *_ = subjects()
    (place / "anna.txt").write_text(f"{anna}\n")
    new = f"add --id A-1 --forget {place}/anna.txt {DATA} --identity 'passport seen'"
    assert call(new)["new"] and not call(f"add --id A-1 --person {anna}")["new"]
    call(f"add --id A-2 --person {ben} --received 2026-01-31")
    call(f"checkpoint --out {place}/kept")

    queue = call(f"queue {DATA} --out {place}/forget.json")
    assert queue["requests"] == ["A-1", "A-2"] and queue["names"] == 2
    assert sorted(read_forget_names(place / "forget.json", ())) == sorted([anna, ben])
    assert json.loads((place / "forget.json").read_text())["samples"] == []

    call(f"record release A-1 A-2 --file {place}/kept --fact bundle=7")
    stays = call("record answered A-1")["stays"]["A-1"]
    assert stays.startswith("no search says what stays of the person in raw data, ")
    states = {row["request"]: row["state"] for row in call("list --all")}
    assert states == {"A-1": "answered", "A-2": "released"}
    assert [row["request"] for row in call("list")] == ["A-2"]
    history = call("status A-1")["history"]
    assert [entry["kind"] for entry in history] == ["request", "release", "answered"]
    sha256 = hashlib.sha256((place / "kept").read_bytes()).hexdigest()
    assert history[1]["facts"]["sha256 kept"] == sha256

    call(f"prove A-1 --person {anna} --out {place}/proof.json")
    (place / "ledger-key").unlink()  # on another machine: the proof and the public key alone
    (place / "ledger.db").rename(place / "elsewhere.db")
    check = f"verify --trust {made['vkey']} --proof {place}"
    assert call(f"{check}/proof.json --person {anna}")["entry"]["requests"] == ["A-1"]
    growth = '{"schema": "unplug-ledger-growth/1", "older": "", "newer": "", "path": []}'
    (place / "growth.json").write_text(growth)
    other = "of the form unplug-ledger-inclusion/1, but unplug-ledger-growth/1"
    assert f"not a proof of a ledger {other}" in refused(f"{check}/growth.json")
    not_ben = refused(f"{check}/proof.json --person {ben}", code=1)
    assert "does not name that person" in not_ben


def test_due_counts_days_and_ends_with_1_when_late(made: dict[str, Any]) -> None:
    call("add --id old --person subject:x --received 2020-01-31")
    late = call("due", code=1)
    assert late["late"] == 1 and late["due"][0]["due"] == "2020-02-29"
    assert late["due"][0]["days_left"] < 0
    call("refuse old --reason 'not in our data'")
    call("add --id new --person subject:x")
    assert call("due --within 3")["due"] == [] and len(call("due --within 40")["due"]) == 1
    assert "0 late, 1 due within 40 days, 1 waiting in all" in show("due --within 40")
    assert call("extend new --reason 'many at once'")["due"] > call("status old")["due"]


def test_verify_names_what_was_edited(made: dict[str, Any], place: Path) -> None:
    call("add --id A-1 --person subject:x")
    call("refuse A-1 --reason 'we know better'")
    against = f"verify --against {place}/kept"
    call(f"checkpoint --out {place}/kept")
    assert "but without --against" in show("verify") and "begins with the 3" in show(against)
    database = sqlite3.connect(place / "ledger.db", isolation_level=None)
    for trigger in ("ledger_entries_no_update", "ledger_entries_no_delete"):
        database.execute(f"DROP TRIGGER {trigger}")
    edited = "replace(body, 'we know better', 'withdrawn by')"
    database.execute(f"UPDATE ledger_entries SET body = {edited} WHERE sequence = 2")
    assert [row["sequence"] for row in call("verify", code=1)["findings"]] == [2]
    database.execute("DELETE FROM ledger_entries WHERE sequence = 2")
    assert call("verify")["findings"] == []
    cut = {"sequence": 2, "what": "it was cut off the end"}
    assert call(against, code=1)["findings"] == [cut]


def test_an_export_can_be_computed_again(made: dict[str, Any], place: Path) -> None:
    call("add --id A-1 --person subject:x")
    call("refuse A-1 --reason '=cmd()'")
    call(f"export --out {place}/all.json")
    told = json.loads((place / "all.json").read_text())
    bodies = [json.dumps(entry, sort_keys=True, separators=(",", ":")) for entry in told["entries"]]
    root = base64.b64encode(tree_root([leaf_hash(body.encode()) for body in bodies])).decode()
    assert told["checkpoint"].split("\n")[1:3] == ["3", root]
    call(f"export --format csv --out {place}/all.csv")
    rows = list(csv.DictReader((place / "all.csv").read_text().splitlines()))
    assert [row["kind"] for row in rows] == ["opened", "request", "refused"]
    assert rows[2]["note"] == "'=cmd()"


def test_shredding_asks(made: dict[str, Any]) -> None:
    call("add --id A-1 --person subject:x")
    call("withdraw A-1")
    assert "there is no terminal to ask on" in refused("shred A-1")
    assert call("shred A-1 --yes")["log_emptied"]
    assert "nobody can tell whom it named" in show("status A-1")


def test_what_goes_wrong_is_one_line(
    made: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("add --id A-1 --person subject:x")
    call(f"prove A-1 --out {place}/proof.json")
    (place / "broken.json").write_text('{"schema": "unplug-ledger-inclusion/1"}')
    (place / "other.json").write_text('{"schema": ["unplug-ledger-inclusion/1"]}')
    for words, why in (
        (f"add --person subject:x {DATA}", "1 of 1 names are unknown"),
        ("add", "it names nobody"),
        ("status B", "holds no such request"),
        (f"queue {DATA} --out {place}/q", "holds no open request's names in full"),
        (f"prove --out {place}/p", "Missing argument 'REQUEST'"),
        (f"prove A-1 --person subject:y --out {place}/p", "does not name that person"),
        ("verify --trust a+b+c", "not NAME"),
        (f"verify --trust {place}/none", "No such file"),
        (f"verify --against {place}/proof.json", "not a signed note"),
        (f"verify --proof {place}/broken.json", "does not follow its schema"),
        (f"verify --proof {place}/other.json", "not a proof of a ledger"),
        (
            f"verify --proof {place}/proof.json --person subject:x",
            "does not say whom the entry names",
        ),
        ("verify --person subject:x", "belongs to a proof"),
        (f"list --ledger {place}/absent.db", "no ledger is there"),
        ("list --ledger mysql://x", "--ledger mysql://: only SQLite and PostgreSQL"),
    ):
        assert why in refused(words), words
    add = "add --person subject:x"
    (place / "ledger-key").chmod(0o644)
    assert "others can read this key" in refused(add)
    (place / "ledger-key").unlink()
    assert "no key that signs ledgers is there" in refused(add)
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", "PRIVATE+KEY+x+y+z")
    assert "not a secret key" in refused(add)


def test_the_command_takes_the_kinds_that_the_ledger_does() -> None:
    assert RECORDED == KINDS


def test_the_role_is_sql() -> None:
    grant = 'GRANT SELECT, INSERT ON "public".ledger_entries TO "writer";'
    assert call("role writer")["sql"].splitlines()[1] == grant
    assert '"a""; DROP"' in call("role 'a\"; DROP'")["sql"]


def test_half_a_request_is_told_and_stays_open(made: dict[str, Any], place: Path) -> None:
    anna, ben, *_ = subjects()
    wrong = json.loads((CASES / "half.json").read_text())["names"][1]
    (place / "names.txt").write_text(f"{anna}\n {wrong} \n")
    for way in (f"--forget {place}/names.txt", f"--person {anna} --person '{wrong} '"):
        told = refused(f"add {way} {DATA}")
        assert "1 of 2 names are unknown to the data (number 2)" in told and repr(wrong) in told
    call(f"add --id half --person {anna} --person {wrong}")
    call(f"add --id blank --person ' {ben.replace(':', ': ')} ' {DATA}")
    queue = f"queue {DATA} --out {place}/forget.json"
    assert call(queue)["requests"] == ["blank"]
    assert show(queue).splitlines()[1:] == [
        "half stays open: 1 of its names is not in these data; `unplug ledger withdraw half "
        "--person NAME` takes out one that is mistyped, or of other data",
        "`unplug release --all-open` records it; else: unplug ledger record release blank --file "
        "MANIFEST",
    ]
    left = call(f"withdraw half --person {wrong} --reason mistyped")
    assert (left["state"], left["names"]) == ("open", 1)
    assert "1 name withdrawn" in show("status half")
    assert call(queue)["requests"] == ["half", "blank"]
    over = show(f"withdraw half --person {anna}").strip()
    assert over == "request half is withdrawn (entry 4)"


def test_the_status_says_every_fact_whole(made: dict[str, Any]) -> None:
    call("add --id A-1 --person subject:anna")
    facts = {
        "bundle_sha256": "0123456789abcdef" * 4,
        "gate utility": "0.71 <= 0.55: fails; overridden: the old one is as bad",
    }
    settings = " ".join(f"--fact '{name}={value}'" for name, value in facts.items())
    call(f"record step A-1 {settings} --note 'by hand'")
    lines = show("status A-1").splitlines()
    assert all(f"       {name} {value}" in lines for name, value in facts.items())
    assert lines[1].split() == ["entry", "at", "what"]
    assert lines[-3].split()[2:] == ["step", "by", "hand"]


def test_what_was_wrong_is_corrected(
    made: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = clock.now
    with monkeypatch.context() as ahead:
        ahead.setattr(clock, "now", lambda: real() + timedelta(days=400))
        call("add --id A-1 --person subject:x")
    assert "run `unplug ledger correct --clock`" in refused("add --person subject:y")
    assert list(call("correct --clock --reason 'it was ahead'")["to_come"]) == ["A-1"]
    received = "correct A-1 --reason 'by post' --received"
    assert "over ten years ago" in refused(f"{received} 0001-01-01")
    assert call(f"{received} 2026-01-31")["due"] == "2026-02-28"
    assert call("due", code=1)["late"] == 1
    monkeypatch.setenv("UNPLUG_KEY", str(place / "new"))
    anna = subjects()[0]
    assert "no key is there" in refused(f"add --person {anna}")
    call("correct --rekey --reason 'the old one is lost'")
    call(f"add --id A-2 --person {anna}")
    told = call(f"queue {DATA} --out {place}/forget.json")
    assert told["requests"] == ["A-2"] and list(told["unreadable"]) == ["A-1"]


def test_the_zone_that_is_set_is_that_of_the_days(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    days = []
    for number, zone in enumerate(("+14:00", "-12:00")):
        monkeypatch.setenv("UNPLUG_TIMEZONE", zone)
        add = f"add --person subject:x --id T-{number}"
        days.append(date.fromisoformat(call(add)["received"]))
        assert call("due")["today"] == str(days[-1])
        assert f"utc_offset {zone}" in show(f"status T-{number}")
    assert (days[0] - days[1]).days in (1, 2)
    monkeypatch.setenv("UNPLUG_TIMEZONE", "Mars/Base")
    assert "no such zone is known" in refused("due")
