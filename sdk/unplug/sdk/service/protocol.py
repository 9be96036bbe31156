"""uvicorn's HTTP/1.1 protocol with an end to how long headers may take: else slow ones hold every connection."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0


class PatientProtocol(H11Protocol):
    """Closes a connection whose request does not come: its first, or one of which a part has come."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The first request is awaited from here on."""
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Bytes came: either they complete the headers, or the time goes on that began with their first byte."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._await_headers()
        elif self.conn.their_state is not h11.IDLE or self.cycle is not None:
            self._have_headers()

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
