"""Requests over HTTP: submit, withdraw, list, follow; what is due."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import date, timedelta
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Path, Query, Response

from unplug.trust.ledger import Request as LedgerRequest

from .owners import Owned
from .shapes import Deadlines, NewRequest, RequestDetail, RequestPage, RequestState, Withdrawal
from .state import HERE, MayRead, MayWrite, Parts, StrictRoute, problems
from .stream import FOLLOWED, LAST, follow
from .tokens import ApiToken
from .views import detail, shape

router = APIRouter(tags=["requests"], route_class=StrictRoute)
REQUEST = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,99}$", description="The request's id.")
]
KEY = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[A-Za-z0-9._:\-]{8,200}$",
        description="A random text of your own; the same one again, after a lost answer, adds nothing.",
    ),
]
LISTED = 500
"""The most of what is due soon; `soon` counts all."""


@router.post(
    "/requests", status_code=201, responses=problems(409) | {200: {"model": RequestDetail}}
)
async def submit(
    body: NewRequest, key: KEY, here: HERE, response: Response, token: MayWrite
) -> RequestDetail:
    """Adds a request to the ledger, once: 201 where it is new, 200 where it was there. It is on the
    disk when you are told.

    A name that the server's data do not hold is refused (409); its place is told to who may read.
    """
    received = None
    if body.received is not None:
        try:
            received = date.fromisoformat(body.received)
        except ValueError as error:
            raise HTTPException(422, "received is not a day of the calendar") from error
    operator = await asyncio.to_thread(here.ledger.operator_key)
    id = body.id or f"R-{operator.digest(f'{token.id} {key}', 'unplug-serve/1 idempotency')[:24]}"
    known = None if here.names is None else await asyncio.to_thread(here.names.known, body.names)
    reads = "requests:read" in token.scopes
    submission = Owned(
        names=tuple(body.names),
        id=id,
        received=received,
        identity=body.identity,
        known=known,
        places=reads,
        reads=reads,
        token=token.id,
        derived=body.id is None,
    )
    request, new = await asyncio.wrap_future(here.inbox.put(submission))
    if new and here.settings.recipe is not None and here.settings.recipe.automatic:
        await asyncio.to_thread(here.jobs.ask)
    response.status_code = 201 if new else 200
    return detail(request, here.today, new=new)


@router.get("/requests", responses=problems())
async def list_requests(
    here: HERE,
    _: MayRead,
    state: RequestState | None = None,
    after: Annotated[int, Query(ge=-1, le=2**53)] = -1,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> RequestPage:
    """Requests in the order in which they came, a page at a time."""
    contents = await asyncio.to_thread(here.ledger.contents)
    wanted = (
        item
        for item in contents.requests.values()
        if item.sequence > after and (state is None or item.state == state)
    )
    page = list(itertools.islice(wanted, limit + 1))
    more = len(page) > limit
    return RequestPage(
        requests=[shape(item, contents.today) for item in page[:limit]],
        next=page[limit - 1].sequence if more else None,
    )


@router.get("/requests/{id}", responses=problems(404))
async def read_request(id: REQUEST, here: HERE, _: MayRead) -> RequestDetail:
    """One request, and every entry of the ledger about it."""
    return detail(await _find(id, here), here.today)


@router.post("/requests/{id}/withdraw", responses=problems(404, 409))
async def withdraw(id: REQUEST, body: Withdrawal, here: HERE, token: MayWrite) -> RequestDetail:
    """Ends a request that the person has taken back, or takes `names` out of it.

    What is withdrawn already stays so. Without requests:read only what this token made is there.
    """
    if (await _find(id, here, token)).state != "withdrawn":
        await asyncio.to_thread(here.ledger.withdraw, id, body.reason, tuple(body.names))
    return detail(await _find(id, here), here.today)


@router.get("/deadlines", responses=problems())
async def deadlines(
    here: HERE, _: MayRead, within: Annotated[int, Query(ge=0, le=3660)] = 7
) -> Deadlines:
    """Requests that are late or due within some days, the first one first."""
    contents = await asyncio.to_thread(here.ledger.contents)
    today = contents.today
    waiting = [item for item in contents.requests.values() if item.waiting]
    until = today + timedelta(days=within)
    soon = heapq.nsmallest(
        LISTED,
        (item for item in waiting if item.due <= until),
        key=lambda item: (item.due, item.sequence),
    )
    return Deadlines(
        today=today,
        late=sum(item.due < today for item in waiting),
        soon=sum(item.due <= until for item in waiting),
        waiting=len(waiting),
        requests=[shape(item, today) for item in soon],
    )


@router.get("/requests/{id}/events", response_class=Response, responses=problems(404) | FOLLOWED)
async def follow_request(id: REQUEST, here: HERE, _: MayRead, last: LAST = "0-0") -> Response:
    """Entries about a request and the progress of its release, as server-sent events;
    `Last-Event-ID` resumes.
    """
    await _find(id, here)
    return follow(here, last, request=id)


async def _find(id: str, here: Parts, token: ApiToken | None = None) -> LedgerRequest:
    """The request; the same answer after the same work where this token may not know of it."""
    contents, allowed = await asyncio.to_thread(here.ledger.contents), True
    if token is not None and "requests:read" not in token.scopes:
        allowed = await asyncio.to_thread(here.desk.owner, id) == token.id
    if id not in contents.requests or not allowed:
        raise HTTPException(404, "there is no such request")
    return contents.requests[id]
