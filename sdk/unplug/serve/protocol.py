"""uvicorn's HTTP/1.1 protocol with strict lines, where a silent client keeps nobody out."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

from .shield import DRAIN_SECONDS

HEADER_SECONDS = 10.0
ODD_LINE = re.compile(rb"(?<!\r)\n|\n[ \t]")
"""One that ends with a bare LF or goes on below: two programs may read other headers out of it."""


class _StrictLines(ReceiveBuffer):
    """Bytes that came, out of which headers and trailers are taken."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """All lines up to an empty one, where that is there."""
        before = bytes(self)
        lines = super().maybe_extract_lines()
        taken = len(before) - len(self)
        if taken > self._most or ODD_LINE.search(before, 0, taken):
            raise h11.RemoteProtocolError(
                "the headers are too long, or a line does not end with CR LF"
            )
        return lines


class PatientProtocol(H11Protocol):
    """Closes a connection whose request does not come: its first, or one of which a part has come.

    Where more are open than may be, the one whose request has been awaited longest is closed.
    """

    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn._receive_buffer = _StrictLines(self.config.h11_max_incomplete_event_size or 2**14)
        # uvicorn would refuse every request beyond, `/health` too; `Shield` knows which one it is.
        self._most, self.limit_concurrency = self.limit_concurrency, None
        self._since, self._refused = self.loop.time(), False

    def connection_made(self, transport: Any) -> None:
        """The first request is awaited from here on."""
        super().connection_made(transport)
        self._await_headers()
        if self._most is not None and len(self.connections) > self._most:
            others = [
                item
                for item in self.connections
                if isinstance(item, PatientProtocol) and item is not self
            ]
            if waiting := [item for item in others if item.awaited]:
                min(waiting, key=lambda item: item._since)._close()

    @property
    def awaited(self) -> bool:
        """Whether a request is awaited, or the rest of one."""
        begun = self.cycle is not None and not self.cycle.response_complete
        return not self.transport.is_closing() and not (begun and not self.cycle.more_body)

    def on_response_complete(self) -> None:
        """The next request is awaited from here on."""
        self._since = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes came: either they complete the headers, or the time goes on that began with their
        first byte.
        """
        if self._refused:
            return
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._await_headers()
        elif self.conn.their_state is not h11.IDLE or self.cycle is not None:
            self._have_headers()

    def send_400_response(self, msg: str) -> None:
        """Refuses what is not HTTP, and drops what still comes: else its sender would see a reset."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._close()
            return
        body = json.dumps({"status": 400, "detail": msg}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        head = h11.Response(status_code=400, reason=b"Bad Request", headers=headers)
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self._refused = True
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self.transport.write_eof()
        self.loop.call_later(DRAIN_SECONDS, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._have_headers()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._close)

    def _have_headers(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
