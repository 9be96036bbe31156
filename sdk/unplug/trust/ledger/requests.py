"""The requests in a ledger, how each one stands, and by when it is due: from its entries alone."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

from unplug.core import InputError

from .entries import KEY, Kind, LedgerEntry

State = Literal["open", "released", "answered", "refused", "withdrawn"]
WAITING: tuple[State, ...] = ("open", "released")
"""The states in which the person has not been told yet: their deadline runs."""
FIRST, EXTENDED = 1, 3
"""Months from the day of receipt: one, and two more where the request is extended with a reason."""
OUTCOMES: dict[Kind, State] = {
    "release": "released",
    "answered": "answered",
    "refused": "refused",
    "withdrawn": "withdrawn",
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request.

    Args:
        id: the operator's own number of it, or one that was made up.
        received: the day on which it came.
        due: the day by which the person must be told what was done.
        state: open: nobody was forgotten yet; released: a model without them was; answered, refused
            or withdrawn: it is over.
        extended: the reason of an extension, or None.
        identity: how it was checked who asks, or None where no entry says so.
        shredded: whether its salt was, after which nobody can tell whom it names.
        subjects: digests of those it names, without names that were withdrawn one by one.
        salt_sha256: digest of its salt.
        key: id of the operator's key that the digests are made with.
        history: its entries, from the one that holds the request on.
    """

    id: str
    received: date
    due: date
    state: State = "open"
    extended: str | None = None
    identity: str | None = None
    shredded: bool = False
    subjects: tuple[str, ...]
    salt_sha256: str
    key: str
    history: tuple[LedgerEntry, ...]

    @property
    def sequence(self) -> int:
        """The number of the entry that holds the request."""
        return self.history[0].sequence

    @property
    def waiting(self) -> bool:
        """Whether the person has still to be told."""
        return self.state in WAITING

    def days_left(self, today: date) -> int:
        """Days until it is due; negative ones where it is late."""
        return (self.due - today).days

    def after(self, entry: LedgerEntry) -> Request:
        """The request as it stands after one more entry about it."""
        changed = replace(self, history=(*self.history, entry))
        if entry.kind == "extended":
            return replace(changed, extended=entry.note, due=_day(entry, entry.due))
        if entry.kind == "corrected" and entry.received:
            return replace(
                changed, received=_day(entry, entry.received), due=_day(entry, entry.due)
            )
        if entry.kind == "identity":
            return replace(changed, identity=entry.note)
        if entry.kind == "shredded":
            return replace(changed, shredded=True)
        if (
            entry.kind == "withdrawn"
            and entry.subjects
            and (left := set(self.subjects) - set(entry.subjects))
        ):
            # some of its names; without the last one it is over
            return replace(changed, subjects=tuple(sorted(left)))
        return replace(changed, state=OUTCOMES.get(entry.kind, self.state))


def requests_of(
    entries: Iterable[LedgerEntry], before: Mapping[str, Request] | None = None
) -> dict[str, Request]:
    """Id to request, in the order in which they were added.

    Args:
        entries: entries in their order.
        before: the requests of the entries in front of these.

    Raises:
        InputError: an entry is about a request that no earlier one holds, or says no day.
    """
    requests: dict[str, Request] = dict(before or {})
    for entry in entries:
        if entry.kind == "request":
            received = _day(entry, entry.received)
            (name,) = entry.requests
            requests[name] = Request(
                id=name,
                received=received,
                due=_day(entry, entry.due),
                subjects=entry.subjects,
                salt_sha256=entry.facts.get("salt_sha256", ""),
                key=entry.facts.get(KEY, ""),
                history=(entry,),
                identity=entry.note or None,
            )
            continue
        for name in entry.requests:
            if name not in requests:
                raise InputError(
                    f"entry {entry.sequence}",
                    f"it is about the request {name}, which no entry holds",
                    "Verify",
                )
            requests[name] = requests[name].after(entry)
    return requests


def _day(entry: LedgerEntry, text: str | None) -> date:
    try:
        return date.fromisoformat(text or "")
    except ValueError as error:
        raise InputError(
            f"entry {entry.sequence}", "it lacks a date that it needs", "Verify the ledger"
        ) from error


OLDEST = timedelta(days=3653)
"""How long ago a request may have come at most: ten years."""


def check_received(id: str, day: date, today: date) -> None:
    """Refuses a day on which no request can have come: one to come, or one over ten years ago.

    Raises:
        InputError: the day is to come, or over ten years ago.
    """
    if day > today or day.year == date.max.year:
        when = "which is to come"
    elif today - day > OLDEST:
        when = "over ten years ago"
    else:
        return
    why = f"it was received on {day}, {when}"
    raise InputError(f"request {id}", why, "Check `received` and the clock")


def due_of(received: date, *, extended: bool = False) -> date:
    """One calendar month after the day of receipt, or three where two were added."""
    return after_months(received, EXTENDED if extended else FIRST)


def after_months(day: date, months: int) -> date:
    """The same day of a later month, or its last day where it has no such day.

    Args:
        day: the day of receipt.
        months: how many.

    Example:
        >>> after_months(date(2027, 1, 31), 1), after_months(date(2028, 1, 31), 1)
        (datetime.date(2027, 2, 28), datetime.date(2028, 2, 29))

    Reference: Regulation (EU) 2016/679 (GDPR), article 12(3); Regulation (EEC, Euratom) 1182/71,
        article 3(2)(c). Where
    the last day is a Saturday, a Sunday or a public holiday the latter adds days, which is not
    counted on here.
    """
    years, month = divmod(day.month - 1 + months, 12)
    last = calendar.monthrange(day.year + years, month + 1)[1]
    return date(day.year + years, month + 1, min(day.day, last))


def pick(requests: dict[str, Request], name: str) -> Request:
    """The request of an id; `InputError` with near ones where there is none."""
    if name in requests:
        return requests[name]
    import difflib

    near = difflib.get_close_matches(name, requests, n=1)
    raise InputError(
        f"request {name}",
        "the ledger holds no such request",
        f"Did you mean {near[0]}?" if near else "`unplug ledger list --all` shows the ids",
    )
