"""The server of one page: this machine only, one secret path, one file, the npm packages, and one
question at a time.
"""

from __future__ import annotations

import queue
import secrets
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from unplug.core import ConversionError

PAGE = Path(__file__).with_name("page.html")
TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".html": "text/html",
}
MAX_ANSWER_BYTES = 2**28
SECONDS = 120
"""To load a runtime and a file, or to answer one question."""
POLL_SECONDS = 0.5


class Server:
    """Serves `page.html`, the file and the packages below a secret path, and passes questions on to
    the page.

    Args:
        model: the file.
        modules: folder of npm packages.
    """

    def __init__(self, model: Path, modules: Path) -> None:
        self.questions: queue.Queue[bytes] = queue.Queue()
        self.answers: queue.Queue[bytes] = queue.Queue()
        self.model, self.modules = model, modules
        self.browser: subprocess.Popen[bytes] | None = None
        self.secret = secrets.token_urlsafe(16)
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the page that the browser is sent to."""
        return f"http://127.0.0.1:{self._http.server_port}/{self.secret}/"

    def ask(self, question: bytes) -> bytes:
        """The page's answer to one question."""
        self.questions.put(question)
        return self.wait()

    def wait(self) -> bytes:
        """What the page says next.

        Raises:
            ConversionError: nothing, for `SECONDS`, or the browser ended.
        """
        until = time.monotonic() + SECONDS
        what = "Open the file in a browser by hand, and look at its console"
        while time.monotonic() < until:
            ended = self.browser is not None and self.browser.poll() is not None
            try:
                return self.answers.get(timeout=POLL_SECONDS)
            except queue.Empty as error:
                if ended:
                    what = "See that this browser starts here; a long TMPDIR ends Chromium"
                    raise ConversionError(self.model.name, "the browser ended", what) from error
        raise ConversionError(
            self.model.name, f"the browser did not answer within {SECONDS} s", what
        )


class _Handler(BaseHTTPRequestHandler):
    server_of: Server

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: standard error belongs to the child process's last words."""

    def do_GET(self) -> None:
        server = self.server_of
        path = self._path()
        if path == "":
            self._send(PAGE.read_bytes().replace(b"SECRET", server.secret.encode()), ".html")
        elif path == "model":
            self._send(server.model.read_bytes(), "")
        elif path == "question":
            self._send(server.questions.get(), "")
        elif path is not None and path.startswith("modules/"):
            file = (server.modules / path.removeprefix("modules/")).resolve()
            if file.is_file() and file.is_relative_to(server.modules):
                self._send(file.read_bytes(), file.suffix)
            else:
                self.send_error(404)
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self._path() != "answer" or not 0 < length <= MAX_ANSWER_BYTES:
            self.send_error(404)
            return
        body = self.rfile.read(length)
        self._send(b"", "")
        self.server_of.answers.put(body)

    def _path(self) -> str | None:
        """Below the secret, without the query; None elsewhere."""
        start = f"/{self.server_of.secret}/"
        path = self.path.partition("?")[0]
        return path.removeprefix(start) if path.startswith(start) else None

    def _send(self, body: bytes, suffix: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", TYPES.get(suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
