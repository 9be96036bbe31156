"""Journals of JSON lines, which outlive their maker."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import threading
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from .durable import make_folder
from .errors import InputError, OutputError

MAX_BYTES = 2**30
MAX_HEAD_BYTES = 4096
TRIES = 10


class JsonLines:
    """Lines after a head that says of which benchmark; one process at a time has the file. Without
    a path it keeps nothing.

    A line that a killed process left unfinished is cut off, a line that is not JSON passed over,
    and a file with another head or of over `MAX_BYTES` set aside under a numbered name: nothing
    whole is ever lost.

    Args:
        path: the file; its folder is made.
        head: the facts that identify a benchmark, JSON-ready.
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

    def __init__(
        self, path: Path | None, head: Mapping[str, Any], say: Callable[[str], None]
    ) -> None:
        self.path = path
        self.found: list[Any] = []
        self._raw: io.FileIO | None = None
        self._lock = threading.Lock()
        if path is None:
            return
        try:
            make_folder(path.parent)
            self._raw = _hold(path)
            while (why := self._read(self._raw, head)) is not None:
                aside = next(
                    old
                    for number in count(1)
                    if not (old := path.with_name(f"{path.name}.old{number}")).exists()
                )
                path.replace(aside)
                self._raw.close()
                self._raw = _hold(path)
                say(f"{path} is {why}: kept as {aside.name}")
        except OSError as error:
            self.close()
            raise OutputError(str(path), str(error.strerror), "Choose another `out`") from error
        except BaseException:
            self.close()
            raise

    def _read(self, raw: io.FileIO, head: Mapping[str, Any]) -> str | None:
        """Reads what is there and goes to its end, after the head at least; or says what else it
        is.
        """
        first = _line(head)
        if os.fstat(raw.fileno()).st_size > MAX_BYTES:
            return f"of over {MAX_BYTES >> 20} MiB"
        begun = raw.read(MAX_HEAD_BYTES)
        # Compared as bytes: a head is of this benchmark only if it was written alike.
        if not begun.startswith(first):
            if not (first.startswith(begun) or _is_head_alone(begun, head)):
                return "of another benchmark (other files, settings or device)"
            raw.seek(0)
            raw.truncate()
            _write(raw, first)
            return None
        raw.seek(len(first))
        whole, lines = len(first), io.BufferedReader(raw)
        for line in lines:
            # The last write of a killed process: what it was to say, nobody knows.
            if not line.endswith(b"\n"):
                break
            with contextlib.suppress(ValueError, RecursionError):
                self.found.append(json.loads(line))
            whole += len(line)
        lines.detach()
        raw.seek(whole)
        raw.truncate()
        return None

    def add(self, value: Any) -> None:
        """Appends one line.

        Raises:
            OutputError: there is no room, or the file was closed.
        """
        if self.path is None:
            return
        with self._lock:
            if self._raw is None:
                raise OutputError(
                    str(self.path), "the benchmark has ended", "Run the same command again"
                )
            try:
                _write(self._raw, _line(value))
            except OSError as error:
                fix = "Free some space; what was measured so far is kept"
                raise OutputError(str(self.path), str(error.strerror), fix) from error

    def close(self) -> None:
        """Lets go of the file."""
        with self._lock:
            if self._raw is not None:
                self._raw.close()
                self._raw = None

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _line(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"


def _is_head_alone(begun: bytes, own: Mapping[str, Any]) -> bool:
    """Whether it is a head as ours, of whatever benchmark, with no line after it: there is nothing
    to keep.
    """
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(begun)
        return begun.count(b"\n") == 1 and isinstance(value, dict) and value.keys() == own.keys()
    return False


def _write(raw: io.FileIO, line: bytes) -> None:
    """Appends all of it, or nothing: on a full disk the next line begins where this one would have."""
    end, rest = raw.tell(), memoryview(line)
    try:
        while rest:
            rest = rest[raw.write(rest) or 0 :]
    except OSError:
        raw.truncate(end)
        raw.seek(end)
        raise


def _hold(path: Path) -> io.FileIO:
    """The file, open and locked.

    Raises:
        InputError: another process has it.
        OSError: it is not a file, or cannot be opened.
    """
    for _ in range(TRIES):
        # A pipe would be waited for without O_NONBLOCK.
        raw = io.FileIO(
            os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666), "r+"
        )
        try:
            if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
                raise OSError(0, "it is not a plain file")
            _lock(raw, path)
            # Who had it until now may have deleted or renamed it: then this is no longer the file
            # of that name.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(raw.fileno()), path.stat()):
                    return raw
        except BaseException:
            raw.close()
            raise
        raw.close()
    raise _taken(path)


def _lock(raw: io.FileIO, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has another kind of lock, and nobody measures there yet
        return
    try:
        fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _taken(path) from error


def _taken(path: Path) -> InputError:
    return InputError(
        str(path), "another benchmark writes it now", "Wait for it, or choose another `out`"
    )
