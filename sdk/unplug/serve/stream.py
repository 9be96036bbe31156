"""Server-sent events: what happened since an event that a reader names, and then what happens.

The id of an event is ``ENTRY-EVENT``: the number of the next ledger entry and of the last job event
that a reader has seen. So one that comes again, to any worker, after a restart too, gets what it
has not seen, and nothing twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from unplug.trust.ledger import LedgerEntry

from .hub import Happening
from .state import Parts
from .views import step

LAST = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        pattern=r"^\d{1,18}-\d{1,18}$",
        description="The id of the last event that was seen.",
    ),
]
EVENT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
}
FOLLOWED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, `data` of each as JSON",
        "content": {"text/event-stream": {"schema": EVENT}},
    }
}
PING_SECONDS = 15
WAIT_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """How far a reader is.

    Args:
        entry: number of the next entry of the ledger that it has not seen.
        event: number of the last event of a job that it has seen.
    """

    entry: int
    event: int

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The inverse of `str`."""
        entry, _, event = text.partition("-")
        return cls(entry=int(entry), event=int(event))

    def __str__(self) -> str:
        return f"{self.entry}-{self.event}"


def follow(
    here: Parts, last: str, *, request: str | None = None, job: str | None = None
) -> Response:
    """A stream of events.

    Args:
        here: the state of this process.
        last: the id of the last event that was seen; "0-0" begins at the beginning.
        request: only what is about this request; its entries come too.
        job: only this job.
    """
    return EventSourceResponse(_events(here, Cursor.parse(last), request, job), ping=PING_SECONDS)


async def _events(
    here: Parts, cursor: Cursor, request: str | None, job: str | None
) -> AsyncIterator[ServerSentEvent]:
    until = time.monotonic() + here.settings.limits.stream_seconds
    while (left := until - time.monotonic()) > 0:
        told = False
        # The events before the entries: the ledger is read after them, so what a job wrote before
        # its event is told before it.
        happened = await here.hub.since(cursor.event)
        for entry in _entries(here, cursor, request):
            cursor, told = Cursor(entry=entry.sequence + 1, event=cursor.event), True
            yield _event(cursor, "entry", step(entry).model_dump())
        for happening in happened:
            cursor = Cursor(entry=cursor.entry, event=happening.event.number)
            if _concerns(happening, request, job):
                told = True
                yield _event(
                    cursor,
                    happening.event.kind,
                    {"job": happening.event.job, "at": happening.event.at, **happening.event.data},
                )
        if not told:  # else something may have come while it was sent
            await here.hub.wait(min(left, WAIT_SECONDS))


def _entries(here: Parts, cursor: Cursor, request: str | None) -> list[LedgerEntry]:
    contents = here.hub.contents
    if request is None or contents is None or request not in contents.requests:
        return []
    return [entry for entry in contents.requests[request].history if entry.sequence >= cursor.entry]


def _concerns(item: Happening, request: str | None, job: str | None) -> bool:
    """A job covers requests from its beginning on: what was before is told to nobody who follows a
    request, early or late.
    """
    begun = item.event.kind not in ("queued", "taken")
    return (request is None or (begun and request in item.requests)) and (
        job is None or job == item.event.job
    )


def _event(cursor: Cursor, kind: str, data: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(data=json.dumps(data), event=kind, id=str(cursor), sep="\n")
