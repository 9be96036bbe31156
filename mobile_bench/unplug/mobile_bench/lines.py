"""An append-only file of JSON lines: what was measured outlives the process that measured it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from unplug.plugins.errors import InputError, OutputError

MAX_BYTES = 2**28


class JsonLines:
    """Lines behind a head that says of which benchmark; one process at a time has the file. Without a path it keeps nothing.

    A line that a killed process left unfinished is cut off, a line that is no JSON passed over, and a file with another head
    or of over `MAX_BYTES` set aside under a numbered name: nothing whole is ever lost.

    Args:
        path: the file; its folder is made.
        head: what makes a benchmark the same, JSON-ready.
        say: takes a line for the user.

    Raises:
        InputError: another process has it open.
        OutputError: it cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.part"
        ...     for _ in range(2):
        ...         with JsonLines(path, {"of": "a"}, print) as lines:
        ...             lines.add({"value": len(lines.found)})
        ...     with JsonLines(path, {"of": "b"}, print) as lines:
        ...         print(path.with_name("a.part.old1").read_text(), lines.found)  # doctest: +ELLIPSIS
        /...a.part is of another benchmark (other files, settings or device): kept as a.part.old1
        {"of": "a"}
        {"value": 0}
        {"value": 1}
         []
    """

    def __init__(self, path: Path | None, head: Mapping[str, Any], say: Callable[[str], None]) -> None:
        self.path = path
        self.found: list[Any] = []
        self._handle: IO[bytes] | None = None
        if path is None:
            return
        own = _line(head)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = _hold(path)
            if not self._read(self._handle, own):
                aside = next(old for number in count(1) if not (old := path.with_name(f"{path.name}.old{number}")).exists())
                path.replace(aside)
                self.close()
                say(f"{path} is of another benchmark (other files, settings or device): kept as {aside.name}")
                self._handle = _hold(path)
            if self._handle.tell() == 0:
                self._write(own)
        except OSError as error:
            self.close()
            raise OutputError(str(path), str(error.strerror), "Choose another --out") from error

    def _read(self, handle: IO[bytes], own: bytes) -> bool:
        """Reads what is there and goes to its end; False where it is of another benchmark."""
        if os.fstat(handle.fileno()).st_size > MAX_BYTES:
            return False
        head, *lines = handle.read().splitlines(keepends=True) or [b""]
        if head != own:
            # A head alone says nothing worth keeping.
            handle.seek(0)
            if not lines:
                handle.truncate()
            return not lines
        whole = len(head)
        for line in lines:
            if not line.endswith(b"\n"):
                break
            with contextlib.suppress(ValueError, RecursionError):
                self.found.append(json.loads(line))
            whole += len(line)
        handle.seek(whole)
        handle.truncate()
        return True

    def add(self, value: Any) -> None:
        """Appends one line.

        Raises:
            OutputError: there is no room.
        """
        if self._handle is None:
            return
        try:
            self._write(_line(value))
        except OSError as error:
            fix = "Free some space; what was measured so far is kept"
            raise OutputError(str(self.path), str(error.strerror), fix) from error

    def _write(self, line: bytes) -> None:
        assert self._handle is not None
        end = self._handle.tell()
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._handle.write(rest) :]
        except OSError:  # a full disk: the next line begins where this one would have
            os.ftruncate(self._handle.fileno(), end)
            self._handle.seek(end)
            raise

    def close(self) -> None:
        """Lets go of the file."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _line(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"


def _hold(path: Path) -> IO[bytes]:
    """The file, open and locked.

    Raises:
        InputError: another process has it.
    """
    while True:
        handle = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        try:
            import fcntl
        except ImportError:  # Windows has another kind of lock, and nobody measures there yet
            return handle
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            handle.close()
            raise InputError(str(path), "another benchmark writes it now", "Wait for it, or choose another --out") from error
        # Who had it until now may have deleted or renamed it: then this is no longer the file of that name.
        if path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat()):
            return handle
        handle.close()
