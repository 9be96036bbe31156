"""Standard output and standard error, which must not end the work whose result they only show."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO


class KeptStream:
    """A text stream on which nothing fails: what it cannot spell is escaped, and what it cannot
    take goes elsewhere.

    Args:
        stream: the stream to write to.
        instead: the place to write to once that takes no more (a full disk); nowhere if its reader
            has left (``| head -1``).
    """

    def __init__(self, stream: TextIO, instead: KeptStream | None = None) -> None:
        self._stream, self._instead = stream, instead
        self.failed: OSError | None = None
        """Why nothing is written any more."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def lost(self) -> OSError | None:
        """Why a reader who is still there has not all of it."""
        return None if isinstance(self.failed, BrokenPipeError) else self.failed

    def write(self, text: str) -> int:
        """Writes at once, and what the stream's encoding lacks as Python spells it; returns the
        length, as all files do.
        """
        if self.failed is None:
            try:
                self._stream.write(self._spelled(text))
                # At once, so that what fails fails here and not when Python ends.
                self._stream.flush()
            except OSError as error:
                self.failed = error
                self._let_go()
        if self._instead is not None and self.lost is not None:
            self._instead.write(text)
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""

    def _spelled(self, text: str) -> str:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)

    def _let_go(self) -> None:
        """What the stream still holds, Python writes when it ends: into nothing, or that would fail
        once more.
        """
        with (
            contextlib.suppress(OSError),
            Path(os.devnull).open("wb") as nowhere,
        ):  # it may have no descriptor
            os.dup2(nowhere.fileno(), self._stream.fileno())


@contextlib.contextmanager
def kept_streams() -> Iterator[KeptStream]:
    """Both standard streams as `KeptStream`, of which standard output is given; one that is closed
    leads nowhere.
    """
    before = sys.stdout, sys.stderr
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        err = KeptStream(sys.stderr or nowhere)
        out = KeptStream(sys.stdout or nowhere, err)
        sys.stdout, sys.stderr = out, err
        try:
            yield out
        finally:
            sys.stdout, sys.stderr = before
