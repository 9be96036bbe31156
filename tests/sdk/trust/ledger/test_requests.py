"""What may be added, in which order, what it comes to, and what is refused in one line."""

from __future__ import annotations

import calendar
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import InputError, KnownNames, OperatorKey, OutputError, UnplugError, operator_key
from unplug.trust.ledger import (
    Ledger,
    LedgerSigner,
    check_ledger,
    open_ledger,
    open_queue,
    opening_for,
)
from unplug.trust.ledger import clock as ledger_clock
from unplug.trust.ledger.requests import after_months
from unplug.trust.ledger.subjects import digest_of, opens, tag_of, tags_in


def at(monkeypatch: pytest.MonkeyPatch, *when: int) -> None:
    monkeypatch.setattr(ledger_clock, "now", lambda: datetime(*when, tzinfo=UTC))


@pytest.mark.parametrize(
    ("day", "months", "due"),
    [
        ("2027-01-31", 1, "2027-02-28"),
        ("2028-01-31", 1, "2028-02-29"),
        ("2027-12-31", 1, "2028-01-31"),
        ("2027-11-30", 3, "2028-02-29"),
    ],
)
def test_a_month_is_a_calendar_month(day: str, months: int, due: str) -> None:
    assert after_months(date.fromisoformat(day), months) == date.fromisoformat(due)


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.integers(0, 30))
def test_the_day_of_the_month_stays_or_is_the_last(day: date, months: int) -> None:
    due = after_months(day, months)
    assert (due.year * 12 + due.month) - (day.year * 12 + day.month) == months
    assert due.day == min(day.day, calendar.monthrange(due.year, due.month)[1])


def test_a_request_from_its_coming_to_its_answer(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 2027, 1, 31, 23, 59)
    request, new = ledger.add(["subject:anna"], id="A-1", identity="passport seen")
    assert new and request.identity == "passport seen"
    assert (request.received, request.due) == (date(2027, 1, 31), date(2027, 2, 28))
    at(monkeypatch, 2027, 2, 28)
    assert ledger.extend("A-1", "forty requests at once").due == "2027-04-30"
    with pytest.raises(InputError, match="extended to 2027-04-30 already"):
        ledger.extend("A-1", "again")
    ledger.record("informed", ["A-1"], note="the annotators")
    ledger.record("release", ["A-1"], facts={"bundle_sha256": "00" * 32})
    assert ledger.requests()["A-1"].state == "released"
    with pytest.raises(InputError, match="who it names is still needed"):
        ledger.shred("A-1")
    ledger.record("answered", ["A-1"])
    request = ledger.requests()["A-1"]
    assert (request.state, request.due) == ("answered", date(2027, 4, 30))
    kinds = ["request", "extended", "informed", "release", "answered"]
    assert not request.waiting and [entry.kind for entry in request.history] == kinds


@pytest.mark.parametrize("end", ["refuse", "withdraw"])
def test_what_is_over_stays_so(ledger: Ledger, end: str) -> None:
    ledger.add(["subject:anna"], id="A-1")
    getattr(ledger, end)("A-1", "not in our data")
    state = {"refuse": "refused", "withdraw": "withdrawn"}[end]
    for again in (
        lambda: ledger.withdraw("A-1"),
        lambda: ledger.refuse("A-1", "again"),
        lambda: ledger.extend("A-1", "again"),
        lambda: ledger.record("release", ["A-1"]),
    ):
        with pytest.raises(InputError, match=f"request A-1: it is {state}"):
            again()
    assert len(ledger.entries()) == 3


def test_the_same_request_twice_is_one(ledger: Ledger) -> None:
    first, new = ledger.add(["subject:anna", "a.png"], id="A-1")
    again, second = ledger.add(["a.png", "subject:anna", "a.png"], id="A-1")
    assert (new, second) == (True, False) and again.sequence == first.sequence
    with pytest.raises(InputError, match="the ledger holds it with other names"):
        ledger.add(["subject:ben"], id="A-1")
    assert len(ledger.entries()) == 2
    assert len({ledger.add(["subject:anna"])[0].id for _ in range(3)}) == 3


def test_bad_requests_are_one_line_each(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 2027, 3, 1)
    ledger.add(["subject:anna"], id="A-17", received=date(2027, 1, 15))

    def received(*day: int) -> Callable[[], object]:
        return lambda: ledger.add(["subject:anna"], received=date(*day))

    for call, why in (
        (lambda: ledger.add([]), "it names nobody"),
        (lambda: ledger.add(["subject:anna"], id="Anna Smith"), "an id has up to 100"),
        (received(2027, 3, 2), "which is to come"),
        (received(9999, 12, 31), "which is to come"),
        (received(2017, 2, 26), "over ten years ago"),
        (received(1, 1, 1), "over ten years ago"),
        (lambda: ledger.extend("A-17", "late"), "its month ended on 2027-02-15"),
        (lambda: ledger.refuse("A-17", " "), "the reason: it is empty"),
        (lambda: ledger.refuse("A-17", "two\nlines"), "not one plain line"),
        (lambda: ledger.refuse("A-1", "no"), "Did you mean A-17"),
        (lambda: ledger.record("deleted", ["A-17"]), "no such thing is recorded"),
        (lambda: ledger.record("opened"), "no such thing is recorded"),
    ):
        with pytest.raises(InputError, match=why):
            call()
    assert len(ledger.entries()) == 2


def test_nothing_in_a_ledger_is_a_name(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add(["subject:anna-of-the-tests"], id="A-1")
    raw = b"".join(path.read_bytes() for path in tmp_path.glob("ledger.db*"))
    assert b"A-1" in raw and b"anna" not in raw
    # The same person in another request has another digest.
    ledger.add(["subject:anna-of-the-tests"], id="A-2")
    one, two = (item.subjects for item in ledger.requests().values())
    assert one != two


def test_the_queue_is_all_open_requests(ledger: Ledger) -> None:
    known = ["a.png", "b.png", "c.png", "subject:anna", "subject:ben"]
    ledger.add(["subject:anna"], id="A-1")
    ledger.add(["b.png", "elsewhere.png"], id="A-2")
    ledger.add(["subject:ben"], id="A-3")
    ledger.add(["subject:nobody"], id="A-4")
    ledger.withdraw("A-3")
    queue = open_queue(ledger, known)
    assert queue.names == ("b.png", "subject:anna")
    assert queue.of == {"A-1": ("subject:anna",), "A-2": ("b.png",)}
    assert (queue.elsewhere, queue.shredded) == ({"A-2": 1, "A-4": 1}, ())
    assert queue.whole == {"A-1": ("subject:anna",)}
    ledger.record("release", list(queue.of))
    assert open_queue(ledger, known).names == ()


def test_names_are_met_whatever_white_space_was_around_them(ledger: Ledger) -> None:
    def whole(*names: str) -> dict[str, tuple[str, ...]]:
        return open_queue(ledger, names).whole

    ledger.add(["subject: anna ", " a.png\n"], id="A-1")
    request, new = ledger.add(["a.png", "subject:anna"], id="A-1", known=KnownNames([]))
    assert not new and len(request.subjects) == 2, "who is known is asked of new requests alone"
    assert whole(" a.png", "subject:anna") == {"A-1": (" a.png", "subject:anna")}
    assert whole("a.png", "a.png ", "subject:\tanna") == {"A-1": ("a.png", "subject:\tanna")}
    assert open_queue(ledger, ["\ta.png", " a.png"]).of == {}, "it could be either"
    opening = opening_for(ledger, request, " subject:anna")
    assert all(opens(opening, name, request.subjects) for name in ("subject:anna", "subject: anna"))


@pytest.fixture
def add_as_typed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Adds a request as older versions did, which kept names as they were typed."""

    def add(names: list[str], id: str) -> None:
        with monkeypatch.context() as older:
            checked = "unplug.trust.ledger.ledger.checked_names"
            older.setattr(checked, lambda names, *_, **__: tuple(names))
            ledger.add(names, id=id)

    return add


def test_a_ledger_of_names_as_they_were_typed_still_answers(
    ledger: Ledger, add_as_typed: Callable[..., object]
) -> None:
    names = ["subject:anna ", "b.png"]
    add_as_typed(names, "A-1")
    assert open_queue(ledger, names).whole == {"A-1": ("subject:anna ", "b.png")}
    assert open_queue(ledger, ["subject:anna", "b.png"]).elsewhere == {"A-1": 1}
    assert not ledger.add(names, id="A-1")[1]
    ledger.withdraw("A-1", "mistyped", ["subject:anna "])
    assert open_queue(ledger, ["subject:anna", "b.png"]).whole == {"A-1": ("b.png",)}


def test_names_are_met_in_every_unicode_form(
    ledger: Ledger, add_as_typed: Callable[..., object]
) -> None:
    keyboard, mac = "subject:Jos\u00e9", "subject:Jose\u0301"
    ledger.add([mac], id="A-1")
    add_as_typed([mac], "old")
    add_as_typed([keyboard, mac], "both")
    for asked in (keyboard, mac):
        whole = open_queue(ledger, [asked, "subject:ben"]).whole
        assert whole == dict.fromkeys(["A-1", "old", "both"], (asked,))
        assert not ledger.add([asked], id="A-1")[1] and not ledger.add([asked], id="old")[1]
        for request in ledger.requests().values():
            opening = opening_for(ledger, request, asked)
            assert all(opens(opening, name, request.subjects) for name in (keyboard, mac))
    ledger.withdraw("both", "twice", [keyboard])
    assert ledger.requests()["both"].state == "withdrawn"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("subject:1.00012E+11", "a spreadsheet rounded it"),
        ("1,23E+11", "a spreadsheet rounded it"),
        ("subject:#REF!", "a spreadsheet's error"),
        ("subject:01-Mar", "made a date of it"),
        ("subject:NaN", "stands for nobody"),
        ("subject: -", "stands for nobody"),
    ],
)
def test_names_of_nobody_and_of_spreadsheets_are_refused_without_repeating_them(
    ledger: Ledger, name: str, why: str
) -> None:
    with pytest.raises(InputError, match=why) as caught:
        ledger.add(["subject:ben", name])
    assert (
        "number 2" in caught.value.why and name not in str(caught.value) and not ledger.requests()
    )


def test_days_are_the_operators_and_recorded_with_their_offset(
    tmp_path: Path, signer: LedgerSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 2027, 1, 31, 12, 30)
    days = {
        "Pacific/Kiritimati": ("2027-02-01", "2027-03-01", "+14:00"),
        "-12:00": ("2027-01-31", "2027-02-28", "-12:00"),
    }
    for zone, (day, due, offset) in days.items():
        monkeypatch.setenv("UNPLUG_TIMEZONE", zone)
        ledger = open_ledger(str(tmp_path / f"{offset[0]}.db"), signer=lambda: signer)
        ledger.create()
        request, _ = ledger.add(["subject:anna"], id="A-1")
        assert (str(request.received), str(request.due), str(ledger.today())) == (day, due, day)
        assert (
            request.history[0].facts["utc_offset"] == offset
            and request.history[0].at == "2027-01-31T12:30:00Z"
        )
        assert ledger.extend("A-1", "many pictures").facts["utc_offset"] == offset
        assert ledger.record("answered", ["A-1"]).day == f"{day}{offset}"
    for bad in ("Mars/Base", "../etc", "+2", "+25:00"):
        with pytest.raises(InputError, match="no such zone"):
            open_ledger(str(tmp_path / "x.db"), timezone=bad)


def test_the_machines_zone_counts_where_none_is_named(
    tmp_path: Path, signer: LedgerSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 2027, 6, 30, 22, 30)
    try:
        for zone, day in (("Europe/Berlin", "2027-07-01"), ("America/New_York", "2027-06-30")):
            monkeypatch.delenv("UNPLUG_TIMEZONE", raising=False)
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            ledger = open_ledger(str(tmp_path / f"{day}.db"), signer=lambda: signer)
            ledger.create()
            with pytest.raises(InputError, match="is to come"):
                ledger.add(["subject:anna"], received=date(2027, 7, 2))
            assert str(ledger.add(["subject:anna"])[0].received) == day
    finally:
        monkeypatch.undo()
        time.tzset()


def test_names_are_withdrawn_one_by_one(ledger: Ledger, signer: LedgerSigner) -> None:
    names = ["subject:anna", "subject:ana"]
    ledger.add(names, id="A-1")
    with pytest.raises(InputError, match=r"it does not hold 1 of the 2 names \(number 2\)"):
        ledger.withdraw("A-1", "mistyped", ["subject:ana", "subject:anne"])
    before = set(ledger.requests()["A-1"].subjects)
    entry = ledger.withdraw("A-1", "mistyped", [" subject:ana"])
    assert ledger.withdraw("A-1", "mistyped", ["subject:ana"]) == entry, "once"
    request = ledger.requests()["A-1"]
    assert (request.state, len(request.subjects)) == ("open", 1)
    assert before - set(request.subjects) == set(entry.subjects)
    with pytest.raises(InputError, match="does not name that person"):
        opening_for(ledger, request, "subject:ana")
    assert open_queue(ledger, ["subject:anna"]).whole == {"A-1": ("subject:anna",)}
    assert not ledger.add(names, id="A-1")[1], "the same request, sent again"
    ledger.withdraw("A-1", "", ["subject:anna"])
    assert ledger.requests()["A-1"].state == "withdrawn"
    assert check_ledger(ledger, signer.verifier)[1] == ()


def test_after_shredding_nobody_can_link(
    ledger: Ledger, signer: LedgerSigner, tmp_path: Path
) -> None:
    request, _ = ledger.add(["subject:anna"], id="A-1")
    salt = ledger.salts()["A-1"]
    opening = opening_for(ledger, request, "subject:anna")
    assert opens(opening, "subject:anna", request.subjects) and not opens(
        opening, "subject:ben", request.subjects
    )
    with pytest.raises(InputError, match="does not name that person"):
        opening_for(ledger, request, "subject:ben")
    ledger.withdraw("A-1")
    _, emptied = ledger.shred("A-1")
    assert emptied and ledger.salts() == {}
    assert salt.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("ledger.db*"))
    for call in (
        lambda: ledger.shred("A-1"),
        lambda: opening_for(ledger, request, "subject:anna"),
        lambda: ledger.add(["subject:anna"], id="A-1"),
    ):
        with pytest.raises(InputError, match="shredded"):
            call()
    assert check_ledger(ledger, signer.verifier)[1] == ()
    # With a key and no salt: the digest of a guess is another.
    assert digest_of("00" * 32, "subject:anna") not in request.subjects


def test_the_number_orders_and_not_the_clock(
    ledger: Ledger, signer: LedgerSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 2040, 5, 31)
    ledger.add(["subject:anna"], id="A-1")
    at(monkeypatch, 2040, 5, 30)
    request, _ = ledger.add(["subject:ben"], id="A-2")
    entry = request.history[0]
    assert (entry.sequence, entry.at) == (2, "2040-05-30T00:00:00Z")
    assert entry.clock_back_seconds == timedelta(days=1).total_seconds()
    verdict, findings = check_ledger(ledger, signer.verifier)
    assert (
        findings == ()
        and len(verdict.notes) == 1
        and "entry 2: the clock stood 86400 s before" in verdict.notes[0]
    )


def test_a_clock_that_was_ahead_once_is_corrected(
    ledger: Ledger, signer: LedgerSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 2040, 5, 31)
    ledger.add(["subject:anna"], id="A-1")
    at(monkeypatch, 2027, 1, 10)
    assert ledger.today() == ledger.contents().today == date(2027, 1, 10), (
        "deadlines come from the clock"
    )
    for call in (
        lambda: ledger.add(["subject:ben"], id="A-2"),
        lambda: ledger.record("answered", ["A-1"]),
        lambda: ledger.correct("mistyped", id="A-1", received=date(2027, 1, 2)),
    ):
        with pytest.raises(
            OutputError,
            match=r"4,890 days before an entry of 2040-05-31T.* `unplug ledger correct --clock`",
        ):
            call()
    assert ledger.correct("it was ahead", clock=True).clock_back_seconds == 4890 * 86400
    assert ledger.correct("it was ahead", id="A-1", received=date(2027, 1, 2)).due == "2027-02-02"
    assert ledger.requests()["A-1"].days_left(ledger.today()) == 23
    request, _ = ledger.add(["subject:ben"], id="A-2")
    assert request.history[0].clock_back_seconds == 0 and request.due == date(2027, 2, 10)
    ledger.extend("A-1", "many pictures")
    ledger.correct("by post", id="A-1", received=date(2027, 1, 1))
    assert ledger.requests()["A-1"].due == date(2027, 4, 1), "an extension stays"
    verdict, findings = check_ledger(ledger, signer.verifier)
    assert findings == () and len(verdict.notes) == 1


def test_what_cannot_be_corrected(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 2027, 3, 1)
    ledger.add(["subject:anna"], id="A-1")
    for fields, why in (
        ({}, "does not say what to correct"),
        ({"id": "A-1"}, "does not say what to correct"),
        ({"received": date(2027, 1, 1)}, "does not say what to correct"),
        ({"id": "A-1", "received": date(2027, 3, 2)}, "which is to come"),
        ({"id": "A-1", "received": date(1, 1, 1)}, "over ten years ago"),
        ({"id": "B", "received": date(2027, 1, 1)}, "no such request"),
    ):
        with pytest.raises(InputError, match=why):
            ledger.correct("a reason", **fields)
    with pytest.raises(InputError, match="it is empty"):
        ledger.correct(" ", clock=True)
    ledger.withdraw("A-1")
    with pytest.raises(InputError, match="it is withdrawn"):
        ledger.correct("a reason", id="A-1", received=date(2027, 2, 1))


def key_in(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    monkeypatch.setenv("UNPLUG_KEY", str(folder / name))
    return folder / name


def test_the_first_entry_says_which_key_requests_are_added_under(
    tmp_path: Path, signer: LedgerSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = key_in(tmp_path, monkeypatch, "key")
    monkeypatch.setenv("UNPLUG_LEDGER", str(tmp_path / "ledger.db"))
    ledger = open_ledger(signer=lambda: signer)
    assert ledger.create().facts["key"] == operator_key().id == ledger.operator_key().id
    ledger.add(["subject:anna"], id="A-1")
    mine.rename(tmp_path / "lost")
    for call in (lambda: ledger.add(["subject:ben"], id="A-2"), ledger.operator_key, operator_key):
        with pytest.raises(UnplugError, match="no key"):
            call()
    ledger.create()
    assert not mine.exists(), "none is made where a ledger is"
    key_in(tmp_path, monkeypatch, "foreign").touch(0o600)
    (tmp_path / "foreign").write_text(f"unplug-key/1 {'ab' * 32}\n")
    with pytest.raises(
        OutputError, match=r"it is the key .* `unplug ledger correct --rekey` goes on under another"
    ):
        ledger.add(["subject:ben"], id="A-2")
    assert len(ledger.entries()) == 2


def test_the_queue_names_what_it_cannot_read_and_goes_on(
    ledger: Ledger, tmp_path: Path, signer: LedgerSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["subject:anna", "subject:ben", "subject:carl"]
    for name, id in zip(names[:2], ("A-1", "A-2"), strict=True):
        ledger.add([name], id=id)
    lost = operator_key().id
    key_in(tmp_path, monkeypatch, "new")
    assert ledger.correct("the old one is lost", key=True).facts["key"] == operator_key().id != lost
    ledger.add(names[2:], id="A-3")
    queue = open_queue(ledger, names)
    assert queue.whole == {"A-3": ("subject:carl",)} and set(queue.unreadable) == {"A-1", "A-2"}
    assert lost in queue.waiting()[0] and queue.waiting()[0].startswith("A-1 stays open: ")
    monkeypatch.undo()
    assert open_queue(ledger, names).whole == {"A-1": ("subject:anna",), "A-2": ("subject:ben",)}
    database = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    database.execute("DROP TRIGGER ledger_salts_no_update")
    for salt in ("0" * 64, "", "zz" * 32):
        database.execute("UPDATE ledger_salts SET salt = ? WHERE request = 'A-1'", (salt,))
        queue = open_queue(ledger, names)
        assert (
            queue.whole == {"A-2": ("subject:ben",)}
            and "another than when" in queue.unreadable["A-1"]
        )


def test_the_queue_tries_each_name_once_and_not_once_a_request(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number}.png" for number in range(300)]
    for number in range(20):
        ledger.add(names[number : number + 3], id=f"A-{number}")
    tried = []
    digest = OperatorKey.digest
    monkeypatch.setattr(
        OperatorKey, "digest", lambda self, *args: tried.append(1) or digest(self, *args)
    )
    assert open_queue(ledger, names).whole["A-7"] == ("7.png", "8.png", "9.png")
    assert len(tried) < 2 * len(names), "6,000 pairs"


def test_the_tags_of_names_link_nobody(ledger: Ledger) -> None:
    for id in ("A-1", "A-2"):
        ledger.add(["subject:anna"], id=id)
    salts = [*ledger.salts().values()]
    assert salts[0][64:] != salts[1][64:]
    assert {tags_in(operator_key(), salt) for salt in salts} == {
        (tag_of(operator_key(), " subject:anna"),)
    }


def test_another_key_adds_nothing(ledger: Ledger) -> None:
    signer = LedgerSigner(name="other", seed=bytes(32))
    other = open_ledger(ledger.shown, signer=lambda: signer)
    why = r"signed with the key tests.example\+\w+, and yours is other"
    for call in (lambda: other.add(["subject:anna"]), other.create):
        with pytest.raises(InputError, match=why):
            call()
    assert len(other.entries()) == 1
    assert ledger.create() == ledger.entries()[0], "a ledger is made once"
