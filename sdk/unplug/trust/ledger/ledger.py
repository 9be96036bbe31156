"""A ledger: where it is, what may be added to it, in which order, and what its entries say."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from unplug.core import (
    VERSION,
    InputError,
    KnownNames,
    OperatorKey,
    OutputError,
    checked_names,
    counted,
    is_there,
    key_file,
    ledger_place,
    operator_key,
    require_modules,
)

from . import clock
from .entries import (
    CLOCK,
    KEY,
    MAX_BODY_BYTES,
    MAX_NOTE,
    OFFSET,
    RECORDED,
    Kind,
    LedgerEntry,
    read_entry,
)
from .notes import LedgerSigner, Verifier
from .read_so_far import Contents, ReadSoFar
from .releases import IN_PART, RELEASE, STAGE, models_left, releases_of
from .requests import Request, check_received, due_of, pick, requests_of
from .rows import LedgerRow, identity_of, signed_row
from .signing import signing_key
from .subjects import digests_of, held_as, new_salt, salt_digest

if TYPE_CHECKING:  # the package that they need is imported when a ledger is opened
    import sqlalchemy as sa

    from .database import Database, LedgerTransaction

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")
MAX_BACK_SECONDS = 86400
"""By how much the clock may stand before an earlier entry's: by more, one of the two is wrong."""


class _Addition:
    """Adds entries to a ledger that nobody else writes meanwhile."""

    def __init__(
        self, session: LedgerTransaction, contents: Contents, signer: LedgerSigner, origin: str
    ) -> None:
        self.session, self.entries, self.requests = (
            session,
            contents.entries,
            dict(contents.requests),
        )
        self._last, self._signer, self._origin = contents.head, signer, origin
        self._at, self.key = clock.now(), contents.key
        self.today = clock.day_of(self._at, contents.zone)
        self.offset = {OFFSET: clock.offset_of(self._at, contents.zone)}
        self.back = max(0, round((_time_of(contents.latest) - self._at).total_seconds()))

    def append(self, kind: Kind, **fields: Any) -> LedgerEntry:
        """Adds one entry, with the next number; where the clock was set back it says by how much."""
        at = clock.time_text(self._at)
        entry = LedgerEntry(
            sequence=self._last.sequence + 1,
            kind=kind,
            at=at,
            clock_back_seconds=self.back,
            **fields,
        )
        if len(entry.body) > MAX_BODY_BYTES:
            raise InputError(
                "the entry",
                f"it would be larger than {MAX_BODY_BYTES} bytes",
                "Split the request into several",
            )
        self._last = signed_row(entry, self._last.hashes, self._signer, self._origin)
        self.session.insert(self._last)
        self.requests = requests_of([entry], self.requests)
        return entry


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A request that is to be added; see `Ledger.add`, and of `places` `checked_names`."""

    names: tuple[str, ...]
    id: str | None = None
    received: date | None = None
    identity: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    known: KnownNames | None = None
    places: bool = True


Around = Callable[
    ["sa.Connection", Mapping[str, Request], Submission, Callable[[], tuple[Request, bool]]],
    tuple[Request, bool],
]


class Ledger:
    """The ledger at a place, which is opened anew by every call.

    Args:
        database: the database of the ledger.
        signer: gives the key that signs, when something is added; reading needs none.
        zone: the operator's time zone, whose days count; None is the machine's.
    """

    def __init__(
        self,
        database: Database,
        signer: Callable[[], LedgerSigner] = signing_key,
        zone: tzinfo | None = None,
    ) -> None:
        self._database, self._signer, self._zone = database, signer, zone
        self._so_far = ReadSoFar(where=database.shown, zone=zone)

    @property
    def shown(self) -> str:
        """The place where it lies, without a password."""
        return self._database.shown

    def create(self) -> LedgerEntry:
        """Makes the tables and the first entry, which says which key signs; of a ledger that is
        there already, returns that.

        Raises:
            InputError, OutputError: see `Database.create`; the key is missing, or not the one that
                signs this ledger.
        """
        signer = self._signer()
        self._database.create()
        with self._database.writing() as session:
            if (first := next(session.rows(), None)) is not None:
                entry = self._entry(first)
                self._check_key(entry, signer)
                if self._so_far.contents(session).key is None:  # of before, without a request
                    operator_key(make=True)
                return entry
            origin = f"{signer.name}/{secrets.token_hex(4)}"
            facts = {
                "origin": origin,
                "vkey": signer.verifier.text,
                "unplug": VERSION,
                KEY: operator_key(make=True).id,
            }
            entry = LedgerEntry(
                sequence=0, kind="opened", at=clock.time_text(clock.now()), facts=facts
            )
            session.insert(signed_row(entry, (), signer, origin))
            return entry

    def rows(self) -> tuple[LedgerRow, ...]:
        """All rows as they lie there, for who checks them."""
        with self._database.reading() as session:
            return tuple(session.rows())

    def check_open(self) -> None:
        """Refuses where nothing can be added now: another writer, the clock, a key, or a last entry
        that was not signed.
        """
        with self._adding() as adding:
            _own_key(adding.key)

    def rows_and_salts(self) -> tuple[tuple[LedgerRow, ...], dict[str, str]]:
        """All rows, and the salts at the same moment: others may add meanwhile."""
        with self._database.reading() as session:
            return tuple(session.rows()), session.salts()

    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries. They are well-formed; whether they are the ones that were added is for
        `check_rows` to say.
        """
        return self.contents().entries

    def requests(self) -> dict[str, Request]:
        """Id to request; see `requests_of`."""
        return dict(self.contents().requests)

    def contents(self) -> Contents:
        """Entries and requests at one moment; what this object has read before is not read again."""
        with self._database.reading() as session:
            return self._so_far.contents(session)

    def operator_key(self) -> OperatorKey:
        """The key that requests are added under.

        Raises:
            OutputError: the one that is here is another, or none is: nothing can be added.
        """
        return _own_key(self.contents().key)

    def salts(self) -> dict[str, str]:
        """Request to salt, of those that were not shredded."""
        with self._database.reading() as session:
            return session.salts()

    def today(self) -> date:
        """See `Contents.today`."""
        return self.contents().today

    def day(self, at: str | None = None) -> date:
        """The operator's day at the time that an entry says, or now by the clock alone."""
        return clock.day_of(clock.now() if at is None else clock.parse_time(at), self._zone)

    def checkpoint(self) -> bytes:
        """The newest checkpoint, a signed note; that takes no secret, for every entry came with
        one.
        """
        rows = self.rows()
        origin, verifier = self.identity(rows)
        return rows[-1].note(origin, verifier)

    def identity(self, rows: Sequence[LedgerRow] | None = None) -> tuple[str, Verifier]:
        """Which ledger this is, and which key it says that it is signed with: who checks it has the
        key from elsewhere.

        Args:
            rows: read before; None reads them.

        Raises:
            InputError: it has no entry, or its first does not say.
        """
        rows = self.rows() if rows is None else rows
        if not rows:
            raise InputError(self.shown, "it has no entry", "Make it with `unplug ledger init`")
        return identity_of(self._entry(rows[0]), self.shown)

    def add(
        self,
        names: Iterable[str],
        *,
        id: str | None = None,
        received: date | None = None,
        identity: str = "",
        facts: Mapping[str, str] | None = None,
        known: KnownNames | None = None,
    ) -> tuple[Request, bool]:
        """Adds a request, once: the same id with the same names is the same request.

        Args:
            names: sample ids and ``subject:NAME``; the ledger keeps digests of them, in the form
                that `checked_names` gives.
            id: the operator's own number; None makes one up. It stands there in clear and must not
                be a name.
            received: the day on which it came, at the latest today, which is also the default.
            identity: how it was checked who asks.
            facts: further facts.
            known: names of the data that it is about; None leaves open whether they hold those of
                the request.

        Returns:
            The request, and whether it is new.

        Raises:
            InputError: no names, one that is not known, a bad id, a day in the future, or the id is
                another request's.
        """
        submission = Submission(
            names=tuple(names),
            id=id,
            received=received,
            identity=identity,
            facts=dict(facts or {}),
            known=known,
        )
        outcome = self.add_all([submission])[0]
        if isinstance(outcome, InputError):
            raise outcome
        return outcome

    def add_all(
        self, submissions: Sequence[Submission], around: Around | None = None
    ) -> list[tuple[Request, bool] | InputError]:
        """Adds several requests in one transaction; one that is refused holds none of the others
        up.

        Args:
            submissions: see `add`.
            around: called for each in place of adding it, with the transaction's connection, the
                requests that there are, the submission, and what adds it. It may refuse with an
                `InputError` before that, and write into other tables after.

        Returns:
            For each what `add` returns, or the error that it raises.
        """
        checked = [_refusal(submission) for submission in submissions]
        if all(checked):
            return [error for error in checked if error]
        with self._adding() as adding:
            outcomes: list[tuple[Request, bool] | InputError] = []
            for submission, error in zip(submissions, checked, strict=True):
                add = partial(self._add, submission, adding)
                try:
                    through = (
                        add
                        if around is None
                        else partial(
                            around, adding.session.connection, adding.requests, submission, add
                        )
                    )
                    outcomes.append(error or through())
                except InputError as refused:
                    outcomes.append(refused)
            return outcomes

    def _add(self, item: Submission, adding: _Addition) -> tuple[Request, bool]:
        name = item.id or f"R-{secrets.token_hex(6)}"
        if name in adding.requests:
            return self._same(adding.requests[name], item.names, adding), False
        names = checked_names(item.names, item.known, places=item.places)
        day = item.received or adding.today
        check_received(name, day, adding.today)
        key = _own_key(adding.key)
        salt = new_salt(key, names)
        told = {**item.facts, **adding.offset, KEY: key.id, "salt_sha256": salt_digest(salt)}
        fields = {
            "requests": (name,),
            "subjects": digests_of(key, salt, names),
            "received": day.isoformat(),
            "due": due_of(day).isoformat(),
            "note": item.identity,
            "facts": told,
        }
        adding.append("request", **fields)
        adding.session.put_salt(name, salt)
        return adding.requests[name], True

    def extend(self, id: str, reason: str) -> LedgerEntry:
        """Adds two months, which must be told to the person within the first.

        Raises:
            InputError: no reason, no such request, it is over, was extended before, or its month
                has passed.
        """
        _check_reason(reason)
        with self._adding() as adding:
            request = _waiting(adding.requests, id)
            if request.extended is not None:
                raise InputError(
                    f"request {id}",
                    f"it was extended to {request.due} already",
                    "There is one extension",
                )
            if adding.today > request.due:
                why = f"its month ended on {request.due}, and an extension is told within it"
                raise InputError(
                    f"request {id}",
                    why,
                    "Answer it now; `unplug ledger record` can hold why it was late",
                )
            due = due_of(request.received, extended=True).isoformat()
            days = {"received": request.received.isoformat(), "due": due}
            return adding.append(
                "extended", requests=(id,), **days, note=reason, facts=adding.offset
            )

    def refuse(self, id: str, reason: str) -> LedgerEntry:
        """Ends a request by a refusal, with its reason; `InputError` without one, or where the
        request is over.
        """
        _check_reason(reason)
        return self._close("refused", id, reason)

    def withdraw(self, id: str, reason: str = "", names: Sequence[str] = ()) -> LedgerEntry:
        """Ends a request that the person has taken back, or takes some of its names out of it.

        Args:
            id: the id of the request.
            reason: why, without names.
            names: those that no longer belong to it, mistyped ones say; none ends the request, and
                so does its last name. One that was taken out before is passed over.

        Raises:
            InputError: it is over, or never held one of the names.
        """
        if not names:
            return self._close("withdrawn", id, reason)
        _check_note(reason)
        with self._adding() as adding:
            request = _waiting(adding.requests, id)
            gone = [
                digest
                for digest in _held_digests(request, names, adding)
                if digest in request.subjects
            ]
            if not gone:
                return next(
                    entry for entry in reversed(request.history) if entry.kind == "withdrawn"
                )
            return adding.append("withdrawn", requests=(id,), subjects=tuple(gone), note=reason)

    def _close(self, kind: Kind, id: str, reason: str) -> LedgerEntry:
        _check_note(reason)
        with self._adding() as adding:
            _waiting(adding.requests, id)
            return adding.append(kind, requests=(id,), note=reason)

    def correct(
        self,
        reason: str,
        *,
        id: str = "",
        received: date | None = None,
        clock: bool = False,
        key: bool = False,
    ) -> LedgerEntry:
        """Corrects what was wrong from some entry on; that entry stays as it is.

        Args:
            reason: why, without names.
            id, received: a request that waits, and the day on which it came, from which it is due.
            clock: it is right, though it stands over a day before an earlier entry's time: it was
                ahead then.
            key: the operator's key that is here is the one of requests from now on; where none is
                here one is made.

        Raises:
            InputError: no reason, nothing to correct, no such request, it is over, or no such day.
        """
        _check_reason(reason)
        if not (id or clock or key) or bool(id) != bool(received):
            fix = "Give REQUEST with `received`, `clock` or `key`"
            raise InputError("unplug ledger correct", "it does not say what to correct", fix)
        with self._adding(any_clock=clock) as adding:
            facts, fields = dict(adding.offset), {}
            if received is not None:
                request = _waiting(adding.requests, id)
                check_received(id, received, adding.today)
                due = due_of(received, extended=request.extended is not None)
                fields = {
                    "requests": (id,),
                    "received": received.isoformat(),
                    "due": due.isoformat(),
                }
            if clock:
                facts[CLOCK] = "it is right"
            if key:
                facts[KEY] = operator_key(make=True).id
            return adding.append("corrected", **fields, note=reason, facts=facts)

    def record(
        self,
        kind: str,
        ids: Sequence[str] = (),
        *,
        note: str = "",
        facts: Mapping[str, str] | None = None,
        once: str = "",
        along: Callable[[sa.Connection], None] | None = None,
    ) -> LedgerEntry:
        """Adds what was done: a step, a try, an audit, a release (which ends the wait in the
        queue), whom one told.

        A release of one of several models that hold samples of a request is a step for that one;
        see `models_left`.

        Args:
            kind: one of `RECORDED`, or ``touched``.
            ids: the requests that it is about.
            note: free text, without names.
            facts: the facts by name, hashes of what belongs to it; for a release,
                ``original_sha256`` names the weights that it started from.
            once: the name of a fact: an entry of this kind that holds the same value of it is this
                one, and nothing is added.
            along: writes into other tables of this database; that and the entry are there together,
                or neither is. What it raises ends both.

        Raises:
            InputError: an unknown kind or request; or a release or an answer to a request that is
                over; or a release that does not say of which of several models.
        """
        if kind not in (*RECORDED, "touched"):
            raise InputError(
                f"kind {kind}", "no such thing is recorded", f"Use one of {', '.join(RECORDED)}"
            )
        _check_note(note)
        with self._adding() as adding:
            if along is not None:
                along(adding.session.connection)
            for entry in reversed(adding.entries) if once else ():
                if entry.kind == kind and entry.facts.get(once) == (facts or {})[once]:
                    return entry
            wanted = _waiting if kind in ("release", "answered") else pick
            about = tuple(wanted(adding.requests, name).id for name in dict.fromkeys(ids))
            # on which the person was told, in time or not
            day = adding.offset if kind == "answered" else {}
            told = {**(facts or {}), **day}
            if kind == RELEASE and (waiting := _waiting_for_others(adding, about, told)):
                adding.append("step", requests=waiting, note=note, facts={STAGE: IN_PART, **told})
                about = tuple(name for name in about if name not in waiting)
            return adding.append(cast(Kind, kind), requests=about, note=note, facts=told)

    def shred(self, id: str) -> tuple[LedgerEntry, bool]:
        """Deletes the salt of a request that is over: from then on nobody, with any key, can tell
        whom it named.

        Returns:
            The entry, and whether the salt is gone from SQLite's log as well (see
            `Database.truncate_log`).

        Raises:
            InputError: no such request, it is not over, or was shredded before.
        """
        with self._adding() as adding:
            request = pick(adding.requests, id)
            if request.waiting:
                raise InputError(
                    f"request {id}",
                    f"it is {request.state}: who it names is still needed",
                    "Answer it first",
                )
            if request.shredded:
                raise InputError(
                    f"request {id}", "its salt was shredded before", "Nothing is left to shred"
                )
            entry = adding.append("shredded", requests=(id,))
            adding.session.drop_salt(id)
        return entry, self._database.truncate_log()

    def _same(self, request: Request, names: Sequence[str], adding: _Addition) -> Request:
        key, salt, held = (
            operator_key(request.key),
            _salt_of(request, adding),
            request.history[0].subjects,
        )
        matches = [held_as(key, salt, held, name) for name in names]
        if not all(matches) or {digest for own in matches for digest in own} != set(held):
            raise InputError(
                f"request {request.id}", "the ledger holds it with other names", "Use another `id`"
            )
        return request

    @contextlib.contextmanager
    def _adding(self, *, any_clock: bool = False) -> Iterator[_Addition]:
        signer = self._signer()
        with self._database.writing() as session:
            contents = self._so_far.contents(session)
            first, head = contents.entries[0], contents.head
            self._check_key(first, signer)
            origin, verifier = identity_of(first, self.shown)
            if head.sequence != len(contents.entries) - 1 or not verifier.verifies(
                head.checkpoint(origin).text, head.signature
            ):
                why = "its last entry is not what was signed, and nothing may be added to that"
                raise InputError(self.shown, why, "Run `unplug ledger verify`")
            adding = _Addition(session, contents, signer, origin)
            if adding.back > MAX_BACK_SECONDS and not any_clock:
                days = counted(adding.back // MAX_BACK_SECONDS, "day")
                why = (
                    f"it stands {days} before an entry of {contents.latest}, so one of the two is "
                    "wrong"
                )
                raise OutputError(
                    "the clock",
                    why,
                    "Set it; where it is right now, run `unplug ledger correct --clock`",
                )
            yield adding

    def _check_key(self, first: LedgerEntry, signer: LedgerSigner) -> None:
        vkey = identity_of(first, self.shown)[1]
        if vkey != signer.verifier:
            why = f"it is signed with the key {vkey.shown}, and yours is {signer.verifier.shown}"
            raise InputError(
                self.shown,
                why,
                "Use the key that the ledger was made with; UNPLUG_LEDGER_KEY names it",
            )

    def _entry(self, row: LedgerRow) -> LedgerEntry:
        return read_entry(row.body, f"{self.shown}, entry {row.sequence}")


def _own_key(expect: str | None) -> OperatorKey:
    """The operator's key, made by nobody here; that it is missing is not a fault of a request."""
    if expect is None and not is_there(key_file()):
        raise OutputError(str(key_file()), "no key is there", "`unplug ledger init` makes one")
    try:
        return operator_key(expect)
    except InputError as error:
        fix = f"{error.fix}; `unplug ledger correct --rekey` goes on under another"
        raise OutputError(error.what, error.why, fix) from error


def _time_of(text: str) -> datetime:
    try:
        return clock.parse_time(text)
    except ValueError as error:
        raise InputError(
            "the ledger", "an entry has no time", "Run `unplug ledger verify`"
        ) from error


def _salt_of(request: Request, adding: _Addition) -> str:
    salt = adding.session.salt(request.id)
    if salt is None:
        raise InputError(
            f"request {request.id}", "it was shredded, so nobody can compare", "Use another `id`"
        )
    return salt


def _held_digests(request: Request, names: Sequence[str], adding: _Addition) -> tuple[str, ...]:
    """The digests by which a request held some names when it was added."""
    key, salt = operator_key(request.key), _salt_of(request, adding)
    held = [held_as(key, salt, request.history[0].subjects, name) for name in names]
    if missing := [str(place) for place, own in enumerate(held, 1) if not own]:
        why = (
            f"it does not hold {len(missing)} of the {len(names)} names (number "
            f"{', '.join(missing[:5])})"
        )
        raise InputError(
            f"request {request.id}", why, "Write them as they were written when it was added"
        )
    return tuple(sorted({digest for own in held for digest in own}))


def _waiting_for_others(
    adding: _Addition, ids: Sequence[str], facts: Mapping[str, str]
) -> tuple[str, ...]:
    """Those of some requests that a release does not end, for other models hold samples of them as
    well.
    """
    new = LedgerEntry(
        sequence=len(adding.entries), kind="release", at="", requests=tuple(ids), facts=facts
    )
    releases = tuple(releases_of([*adding.entries, new]))
    left = {name: models_left(name, adding.requests[name].history, releases) for name in ids}
    for name, models in left.items():
        if len(models) > 1 and releases[-1].began is None:
            why = (
                f"{len(models)} models hold samples of it, and this does not say from which one it "
                "started"
            )
            raise InputError(
                f"request {name}",
                why,
                "Add `original_sha256=HASH`, as `unplug ledger status` lists them",
            )
    return tuple(name for name, models in left.items() if models and releases[-1].began is not None)


def _waiting(requests: dict[str, Request], id: str) -> Request:
    request = pick(requests, id)
    if not request.waiting:
        raise InputError(
            f"request {id}",
            f"it is {request.state}",
            "A request that is over stays so; add a new one",
        )
    return request


def _refusal(item: Submission) -> InputError | None:
    """What is wrong with a submission that can be seen without the ledger."""
    try:
        checked_names(item.names)
        if item.id is not None:
            _check_id(item.id)
        _check_note(item.identity)
    except InputError as error:
        return error
    return None


def _check_id(name: str) -> None:
    if ID.fullmatch(name) is None:
        why = (
            "an id has up to 100 letters, digits and . _ : / -, and begins with a letter or a digit"
        )
        raise InputError(f"id {name[:60]}", why, "Use your ticket's number; never a name")


def _check_note(note: str) -> None:
    if len(note) > MAX_NOTE or not note.isprintable():
        raise InputError(
            "the text",
            f"it is longer than {MAX_NOTE} characters or not one plain line",
            "Shorten it",
        )


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise InputError("the reason", "it is empty", "Say why with `reason`; the person is told")
    _check_note(reason)


def find_ledger(where: str | None = None) -> Ledger | None:
    """The ledger at a place, see `open_ledger`, for who only reads it; None where no file is there."""
    place = where or ledger_place()
    return open_ledger(place) if "://" in place or Path(place).is_file() else None


def open_ledger(
    where: str | None = None,
    *,
    signer: Callable[[], LedgerSigner] = signing_key,
    wait_seconds: float = 60,
    pooled: bool = False,
    timezone: str | None = None,
) -> Ledger:
    """The ledger at a place.

    Args:
        where: a file or ``postgresql://...``; None takes `ledger_place`.
        signer: gives the key that signs, when something is added.
        wait_seconds: how long to wait for another writer.
        pooled: keep connections for the next call: for a process that serves many.
        timezone: the time zone whose days count, such as ``Europe/Berlin`` or ``+02:00``; None
            takes ``$UNPLUG_TIMEZONE``, else the machine's.

    Raises:
        InputError: neither a file nor such a URL, or no such zone.
        MissingExtraError: ``[ledger]`` is not installed, or ``[postgresql]``.
    """
    require_modules(["sqlalchemy"], "ledger")
    from .database import Database

    zone = clock.zone_named(timezone)
    return Ledger(
        Database(where or ledger_place(), wait_seconds=wait_seconds, pooled=pooled), signer, zone
    )


GRANTS = """\
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT ON {schema}.ledger_entries TO {role};
GRANT SELECT, INSERT, DELETE ON {schema}.ledger_salts TO {role};
GRANT SELECT ON {schema}.alembic_version TO {role};
"""
"""What a PostgreSQL role needs to add to a ledger, and to do nothing else to it."""


def role_sql(role: str, schema: str = "public") -> str:
    """What the owner of a PostgreSQL database runs, so that a role can add to the ledger and shred
    salts, and nothing else.

    Args:
        role, schema: names, which are quoted.

    Example:
        >>> print(role_sql("unplug_writer").splitlines()[1])
        GRANT SELECT, INSERT ON "public".ledger_entries TO "unplug_writer";
    """
    return GRANTS.format(role=_quoted(role), schema=_quoted(schema))


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
