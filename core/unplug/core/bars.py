"""Progress of long work: a bar where somebody looks, a line now and then in the log of a command,
and nothing anywhere else.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from tqdm import tqdm

from .processes import Progress
from .text import printable, seconds
from .watching import is_logged, is_watched

EVERY = 30.0
"""Seconds between the lines of a log, and before the first: what is done by then says nothing."""
TICK = 5.0
"""Seconds after which a bar shows the time anew though nothing was done."""
LINE = "{desc}: {n_fmt} of {total_fmt} {unit}, {elapsed} gone, {remaining} left{postfix}"


class _Log(io.TextIOBase):
    """Standard error for tqdm off a terminal: a line for each state, without what moves a cursor."""

    def write(self, text: str) -> int:
        """Writes what is in it but for blanks; returns the length, as all files do."""
        for line in re.split(r"[\r\n]|\x1b\[A", text):
            if line.strip():
                sys.stderr.write(line.strip() + "\n")
        return len(text)

    def flush(self) -> None:
        """Flushes standard error."""
        sys.stderr.flush()


class _Lines(tqdm):  # type: ignore[misc]
    monitor_interval = 0  # tqdm's own thread outlives the bar, and our work may fork


class _Bar(_Lines):
    """Entered as a context it shows the time anew each `TICK`, so that it never stands still."""

    def __enter__(self) -> Any:
        self._left = threading.Event()
        if not self.disable:
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def _tick(self) -> None:
        while not self._left.wait(TICK):
            self.refresh()

    def __exit__(self, *error: object) -> None:
        self._left.set()
        self.close()


def progress(
    items: Iterable[Any] | None = None,
    *,
    label: str,
    show: bool,
    unit: str = "picture",
    total: int | None = None,
    done: int = 0,
) -> Any:
    """A tqdm bar on a terminal and in a notebook; in a command's log (`progress_in_logs`) a line
    every `EVERY` seconds instead; elsewhere nothing.

    Args:
        items: the items to iterate over, or None where `update` counts.
        label: the text in front.
        show: False for silence everywhere.
        unit: the thing counted, in the singular.
        total: the number of items (default: the length of `items`, if it has one).
        done: the number of items done before.

    Example:
        >>> [value for value in progress([1, 2], label="count", show=False)]
        [1, 2]
    """
    usual = {"desc": label, "unit": unit, "total": total, "initial": done, "leave": False}
    if is_watched():
        # tqdm shows nothing on a terminal that tells no size
        columns, rows = shutil.get_terminal_size()
        return _Bar(items, **usual, disable=not show, ncols=columns - 1, nrows=rows)
    usual |= {"disable": not (show and is_logged()), "bar_format": LINE, "unit": f"{unit}s"}
    return _Lines(items, **usual, file=_Log(), delay=EVERY, mininterval=EVERY, miniters=1)


@contextlib.contextmanager
def follow(label: str, *, show: bool) -> Iterator[Progress]:
    """`progress` as the callback (done, total, text) that children report to; in a log each new
    text is a line, with its time.

    Example:
        >>> with follow("export", show=False) as report:
        ...     report(1, 2, "age.fp32.onnx")
    """
    begun, last = time.monotonic(), ""
    with progress(label=label, unit="part", show=show and is_watched()) as bar:

        def report(done: int, total: int, text: str) -> None:
            nonlocal last
            text = printable(text)
            if not bar.disable:
                bar.total, bar.n = total, done
                bar.set_postfix_str(text)
            elif show and is_logged() and text != last:
                last = text
                passed = seconds(time.monotonic() - begun)
                sys.stderr.write(f"{label}: {done} of {total}, {text} ({passed})\n")

        yield report


@cache
def tell(line: str) -> None:
    """A line on standard error that people should read, once in a process however often its cause
    is met.
    """
    sys.stderr.write(f"note: {printable(line)}\n")
