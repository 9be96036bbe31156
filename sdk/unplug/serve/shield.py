"""Around every request: limits on its body and its time, headers for browsers, a line in the log,
and numbers for metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .metrics import Metrics
from .recipe import ServeLimits

LOG = logging.getLogger("unplug.serve")
PICTURES = "/predict"
STREAMS = "/events"
HEALTH = "/health"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
        "'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
QUIET = (HEALTH, "/ready", "/metrics")
"""What is asked all the time is counted, and stands in the log only where it fails."""


DRAIN_SECONDS = 5.0
"""So long a body is read that nobody wants: else its sender sees a reset, and not the answer."""
ONCE = (
    b"authorization",
    b"content-length",
    b"content-type",
    b"idempotency-key",
    b"last-event-id",
    b"transfer-encoding",
)


class _TooLarge(Exception):
    """A body that is longer than it may be."""


class Shield:
    """ASGI middleware.

    Args:
        app: the application to shield.
        limits: the limits of this server.
        metrics: the metrics that count answers.
    """

    def __init__(self, app: ASGIApp, limits: ServeLimits, metrics: Metrics) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._open = {True: 0, False: 0}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's request; lifespan events pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._limits)
        started = time.perf_counter()
        streams = scope["path"].endswith(STREAMS)
        self._open[streams] += 1
        try:
            async with asyncio.timeout(exchange.seconds):
                if why := exchange.misframed():
                    await exchange.refuse(400, why)
                elif self._full(scope["path"]):
                    await exchange.refuse(503, "too many connections", (b"retry-after", b"1"))
                else:
                    await exchange.run(self._app)
        except TimeoutError:
            late, exchange.body_ended = not exchange.body_ended, True  # it had its time
            await exchange.refuse(408 if late else 503, "it took too long")
        except _TooLarge:
            await exchange.refuse(413, f"a body here has at most {exchange.most} bytes")
        except Exception:
            LOG.exception(
                "a request failed", extra={"route": exchange.route, "method": exchange.method}
            )
            await exchange.refuse(500, "something went wrong here, and is in the log")
        finally:
            self._open[streams] -= 1
            self._note(exchange, time.perf_counter() - started)

    def _full(self, path: str) -> bool:
        """Whether no more are answered: `/health` always is, and streams leave half to others."""
        if path == HEALTH:
            return False
        streams, most = self._open[True], self._limits.connections
        return streams + self._open[False] > most or (
            path.endswith(STREAMS) and streams > (most + 1) // 2
        )

    def _note(self, exchange: _Exchange, seconds: float) -> None:
        status = str(exchange.status or 499)  # 499: the client is gone
        self._metrics.requests.labels(exchange.method, exchange.route, status).inc()
        if not exchange.route.endswith(STREAMS):
            self._metrics.seconds.labels(exchange.route).observe(seconds)
        if exchange.route in QUIET and status < "400":
            return
        told = {
            "method": exchange.method,
            "route": exchange.route,
            "status": int(status),
            "ms": round(1000 * seconds, 1),
        }
        LOG.info("answered", extra=told | {"token": exchange.scope.get("state", {}).get("token")})


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: ServeLimits) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        path = scope["path"]
        self.most = limits.picture_bytes if path.endswith(PICTURES) else limits.body_bytes
        self.seconds = (
            limits.stream_seconds if path.endswith(STREAMS) else 0.0
        ) + limits.total_seconds
        given = {name for name, _ in scope["headers"]}
        self.body_ended = given.isdisjoint((b"content-length", b"transfer-encoding"))
        self.status: int | None = None
        self._got, self._over = 0, False

    @property
    def method(self) -> str:
        """One of those that exist: a made-up one is not a label."""
        known = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
        return self.scope["method"] if self.scope["method"] in known else "other"

    @property
    def route(self) -> str:
        """The template of the path, which holds nothing that was sent."""
        matched: Any = self.scope.get("route")
        return getattr(matched, "path", None) or "other"

    def misframed(self) -> str | None:
        """Why a proxy may see another request in these bytes; None where nothing is odd."""
        given = [name for name, _ in self.scope["headers"]]
        if twice := [name.decode() for name in ONCE if given.count(name) > 1]:
            return f"the header {twice[0]} stands there twice"
        if b"transfer-encoding" in given and (
            b"content-length" in given or self.scope["http_version"] < "1.1"
        ):
            return "transfer-encoding stands next to content-length, or in HTTP/1.0"
        return None

    async def run(self, app: ASGIApp) -> None:
        """Lets the application answer."""
        length = next(
            (value for name, value in self.scope["headers"] if name == b"content-length"), b"0"
        )
        if not length.isdigit() or int(length[:20]) > self.most:
            raise _TooLarge
        await app(self.scope, self.receive, self.send)

    async def receive(self) -> Message:
        """The next piece of the body, as long as it is not too long."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.body_ended = not message.get("more_body", False)
            self._got += len(message.get("body", b""))
            if self._got > self.most:
                self._over = True
                raise _TooLarge
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """A piece of the answer, with the headers that every answer has."""
        # FastAPI takes an error while it reads for a body that it cannot parse, and would answer
        # 400
        if self._over:
            raise _TooLarge
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message["headers"]}
            extra = [
                (name.encode(), value.encode())
                for name, value in HEADERS.items()
                if name.encode() not in given
            ]
            message = {**message, "headers": [*message["headers"], *extra]}
        elif not message.get("more_body") and not self.body_ended:
            await self._send({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body"}
        await self._send(message)

    async def _drain(self) -> None:
        """Reads what is still sent, and keeps nothing of it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.body_ended:
                    message = await self._receive()
                    self.body_ended = not message.get("more_body", False)  # as in a disconnection

    async def refuse(self, status: int, why: str, *more: tuple[bytes, bytes]) -> None:
        """An answer of our own, where none has begun, after which the connection ends."""
        if self.status is not None:
            return
        self._over = False
        body = json.dumps({"status": status, "detail": why}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *more,
        ]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
