"""The server of the page: one address with a secret in it, a handful of routes, bounded uploads,
and nothing logged.

It serves a benchmark, which has a plan and takes rows, or a generator, whose files lie next to the
page.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from unplug.core import DeviceError, UnplugError

from ..exchange import Exchange

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".wasm": "application/wasm",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
MAX_POSTS = {"progress": 4 * 2**10, "row": 16 * 2**20, "report": 64 * 2**20}
HEAD_S, SOCKET_S, UPLOAD_S = 5.0, 30.0, 120.0
"""Seconds of silence before a request is known, of silence after it, and for a whole upload."""
MAX_CONNECTIONS, MAX_STRANGERS = 64, 8
"""At once, and of one peer whose requests have not named the secret yet: the oldest of those makes
room for a new one.
"""
HEADERS = {
    # Isolated pages get a finer clock and threads.
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; "
    "style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'",
}


class PageRefused(Exception):
    """A request that is answered with an error; private to this module."""

    def __init__(self, status: int, why: str) -> None:
        self.status, self.why = status, why
        super().__init__(why)


class PageServer:
    """Serves the page below a secret path: with the plan and files of a benchmark, whose rows it
    takes, or with files alone.

    Args:
        page: the built page.
        exchange: the benchmark; None where there is nothing to time, and nothing to upload then.
        host, port: the address to listen on; port 0 takes a free port.
        files: the files by their addresses on the page's server; no other file is served.

    Raises:
        DeviceError: nothing can listen there.
    """

    def __init__(
        self,
        page: Path,
        exchange: Exchange | None,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        files: Mapping[str, Path] | None = None,
    ) -> None:
        self.page, self.exchange, self.files = page.resolve(), exchange, dict(files or {})
        self.token = secrets.token_urlsafe(16)
        self.used = False
        outer = self

        class PageHandler(_PageHandler):
            owner = outer

        try:
            self._http = _Server((host, port), PageHandler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise DeviceError(
                f"{host}:{port}", why, "Name another port: `on=web:HOST:PORT`"
            ) from error
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        """The TCP port that the server listens on."""
        return self._http.server_port

    def url(self, host: str = "127.0.0.1") -> str:
        """The address of the page, as seen under the name `host`."""
        return f"http://{host}:{self.port}/{self.token}/"


class _Server(ThreadingHTTPServer):
    """One thread a connection, and a bounded number; a browser that knows the secret never waits
    for those who say nothing.
    """

    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, str] = {}  # in the order of their coming
        self._known: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Takes a connection, in the place of a silent one where there are too many."""
        with self._lock:
            same = [other for other, peer in self._strangers.items() if peer == client_address[0]]
            full = len(self._strangers) + len(self._known) >= MAX_CONNECTIONS
            if len(same) >= MAX_STRANGERS or (full and self._strangers):
                self._hang_up(
                    same[0] if len(same) >= MAX_STRANGERS else next(iter(self._strangers))
                )
            elif full:
                self.shutdown_request(request)
                return
            self._strangers[request] = client_address[0]
        super().process_request(request, client_address)

    def _hang_up(self, stranger: socket.socket) -> None:
        """Ends a connection; its thread finds that out and closes it."""
        del self._strangers[stranger]
        with contextlib.suppress(OSError):
            stranger.shutdown(socket.SHUT_RDWR)

    def know(self, request: Any) -> None:
        """The request on a connection named the secret: it keeps its place, and gets longer pauses."""
        with self._lock:
            if self._strangers.pop(request, None) is not None:
                self._known.add(request)
        request.settimeout(SOCKET_S)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves one connection and frees its place afterwards; see `process_request`."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._strangers.pop(request, None)
                self._known.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke off is the browser's matter."""


class _PageHandler(BaseHTTPRequestHandler):
    owner: PageServer
    server: _Server
    timeout = HEAD_S
    server_version, sys_version = "unplug", ""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: addresses hold the secret."""

    def do_GET(self) -> None:
        """Files of the page, the plan, artifacts and test vectors."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Takes what the page sends: signs of progress, rows, and the finished report."""
        self._answer(self._post)

    def _answer(self, act: Callable[[str], None]) -> None:
        self.close_connection = True
        try:
            act(self._path())
        except PageRefused as refused:
            self._json(refused.status, {"error": refused.why})
        except UnplugError as error:
            self._json(400, {"error": str(error)})

    def _path(self) -> str:
        """Below the secret; without it one learns nothing."""
        first, _, rest = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not secrets.compare_digest(first.encode(), self.owner.token.encode()):
            raise PageRefused(404, "nothing is here")
        self.server.know(self.connection)
        if self.owner.used:
            raise PageRefused(
                410, "this address has been used; run unplug bench again for a new one"
            )
        if self.owner.exchange is not None:
            self.owner.exchange.sign()
        return rest

    @property
    def _exchange(self) -> Exchange:
        """The benchmark. Raises `PageRefused` where there is none."""
        if self.owner.exchange is None:
            raise PageRefused(404, "nothing is here")
        return self.owner.exchange

    def _get(self, path: str) -> None:
        if path in self.owner.files:
            self._file(self.owner.files[path])
        elif path == "plan.json":
            self._send(self._exchange.plan_json(), ".json", store=False)
        elif match := re.fullmatch(r"files/(\d{1,6})", path):
            self._file(self._exchange.jobs[self._number(match[1])].artifact.path)
        elif match := re.fullmatch(r"vectors/(\d{1,6})/([A-Za-z0-9_.-]{1,200})", path):
            exchange, number, name = self._exchange, self._number(match[1]), match[2]
            body = (
                exchange.vectors_json(number)
                if name == "vectors.json"
                else exchange.vector(number, name)
            )
            if body is None:
                raise PageRefused(404, "there is no such test vector")
            self._send(body, ".json" if name == "vectors.json" else "")
        else:
            self._page_file(path or "index.html")

    def _number(self, text: str) -> int:
        if int(text) >= len(self._exchange.jobs):
            raise PageRefused(404, "there is no such job")
        return int(text)

    def _page_file(self, path: str) -> None:
        if not all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", part) for part in path.split("/")):
            raise PageRefused(404, "there is no such file")
        file = (self.owner.page / path).resolve()
        if not file.is_relative_to(self.owner.page) or not file.is_file():
            raise PageRefused(404, "there is no such file")
        self._file(file)

    def _post(self, path: str) -> None:
        match = re.fullmatch(r"(progress|report|row/(\d{1,6}))", path)
        if match is None:
            raise PageRefused(404, "nothing is here")
        exchange = self._exchange
        number = self._number(match[2]) if match[2] else 0
        body = self._body(MAX_POSTS[path.partition("/")[0]])
        if path == "progress":
            exchange.take_progress(body)
        elif path == "report":
            exchange.take_report(body)
            self.owner.used = True
        else:
            exchange.take_row(number, body)
        self._json(200, {"taken": True})
        if path == "report":  # after the answer: the server closes then
            exchange.reported.set()

    def _body(self, limit: int) -> bytes:
        """Reads as many bytes as the upload says, and never more than the limit."""
        told = self.headers.get_all("Content-Length") or []
        if (
            self.headers.get("Transfer-Encoding")
            or len(told) != 1
            or not re.fullmatch(r"[0-9]{1,18}", told[0].strip())
        ):
            raise PageRefused(411, "an upload must give its size, once, in Content-Length")
        size, begun = int(told[0]), time.monotonic()
        if size > limit:
            raise PageRefused(413, f"an upload of {size} bytes is larger than the limit of {limit}")
        parts, left = [], size
        while left:
            try:
                part = self.rfile.read1(min(left, 2**16))
            except (TimeoutError, OSError):
                part = b""
            if not part or time.monotonic() - begun > UPLOAD_S:
                raise PageRefused(
                    400,
                    f"the upload said {size} bytes and {size - left} came; nothing was taken, send "
                    "it again",
                )
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _file(self, file: Path) -> None:
        with file.open("rb") as handle:
            self._head(200, file.suffix, file.stat().st_size, store=True)
            shutil.copyfileobj(handle, self.wfile, 2**20)

    def _send(self, body: bytes, suffix: str, *, store: bool = True) -> None:
        self._head(200, suffix, len(body), store=store)
        self.wfile.write(body)

    def _json(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self._head(status, ".json", len(body), store=False)
        self.wfile.write(body)

    def _head(self, status: int, suffix: str, size: int, *, store: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", TYPES.get(suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(size))
        self.send_header("Cache-Control", "private, max-age=3600" if store else "no-store")
        self.send_header("Connection", "close")
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
