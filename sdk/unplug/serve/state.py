"""What one worker process has, and how a request gets at it; who may do what, and how often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from unplug.core import parse_json
from unplug.trust.ledger import Ledger

from .batching import Batcher
from .data_names import DataNames
from .hub import Hub
from .inbox import Inbox
from .jobs import Jobs
from .metrics import Metrics
from .models import Served
from .owners import Desk
from .recipe import ServeSettings
from .shapes import Problem
from .tables import ServiceTables
from .tokens import ApiToken, TokenGate
from .watching import StreamWatch

MOST_BUCKETS = 10_000
BEARER = HTTPBearer(auto_error=False, description="A token of `unplug serve token add`.")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything that answers requests in one process."""

    settings: ServeSettings
    tables: ServiceTables
    ledger: Ledger
    jobs: Jobs
    gate: TokenGate
    metrics: Metrics
    desk: Desk
    inbox: Inbox
    hub: Hub
    batcher: Batcher
    served: Served
    rates: Rates
    names: DataNames | None
    watch: StreamWatch
    probe: Ledger
    decoding: asyncio.Semaphore

    @property
    def today(self) -> date:
        """The day that deadlines count from, at the hub's last look."""
        return self.ledger.day() if self.hub.contents is None else self.hub.contents.today


@dataclass(kw_only=True)
class Rates:
    """Token buckets: `burst` requests at once, and `rate` more a second.

    Args:
        rate, burst: the limits of one token.
    """

    rate: float
    burst: int
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, token: str, now: float) -> float:
        """Takes one request; returns the seconds to wait where none is left, else 0."""
        left, at = self._left.get(token, (float(self.burst), now))
        left = min(float(self.burst), left + (now - at) * self.rate)
        if left < 1.0:
            return (1.0 - left) / self.rate
        if len(self._left) > MOST_BUCKETS:
            self._left.clear()
        self._left[token] = (left - 1.0, now)
        return 0.0


class _StrictRequest(Request):
    async def json(self) -> Any:
        """The body, which has one reading; else 422."""
        try:
            return parse_json(await self.body())
        except ValueError as error:
            raise HTTPException(422, f"body: {error}") from error


class StrictRoute(APIRoute):
    """A route whose JSON body holds no key twice: others may take the other value for it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler as FastAPI makes it, on a request that reads so."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return handle


def parts(request: Request) -> Parts:
    """Those of this process."""
    here: Parts = request.app.state.parts
    return here


HERE = Annotated[Parts, Depends(parts)]


def allowed(scope: str) -> Any:
    """A dependency that asks for a token with a scope."""

    async def check(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
        here: HERE,
    ) -> ApiToken:
        text = given.credentials if given else ""
        token = (
            here.gate.who(text)
            if here.gate.fresh(text)
            else await asyncio.to_thread(here.gate.who, text)
        )
        if token is None:
            raise HTTPException(401, "no valid token", {"WWW-Authenticate": "Bearer"})
        request.state.token = token.id
        if wait := here.rates.take(token.id, time.monotonic()):
            raise HTTPException(
                429, "too many requests of this token", {"Retry-After": str(max(1, round(wait)))}
            )
        if scope not in token.scopes:
            raise HTTPException(403, f"this token may not do that: it lacks the scope {scope}")
        return token

    return Depends(check)


MayRead = Annotated[ApiToken, allowed("requests:read")]
MayWrite = Annotated[ApiToken, allowed("requests:write")]
MayRelease = Annotated[ApiToken, allowed("releases")]
MayAsk = Annotated[ApiToken, allowed("models")]
MayMeasure = Annotated[ApiToken, allowed("metrics")]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers of a route that are no success, for the OpenAPI document."""
    return {
        status: {"model": Problem, "description": WORDS[status]} for status in (*ALWAYS, *statuses)
    }


ALWAYS = (400, 401, 403, 408, 413, 422, 429, 503)
WORDS = {
    400: "Not understood",
    401: "No valid token",
    403: "The token lacks the scope",
    404: "Not there",
    408: "The body took too long",
    409: "Refused as things stand",
    410: "Superseded",
    413: "Too large",
    415: "No picture of a known kind",
    422: "Not of the form that is taken",
    429: "Too many requests",
    503: "Busy, or the database is away",
}
