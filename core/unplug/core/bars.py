"""Progress of long work: a bar for people at a terminal, a line now and then in a log."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

from tqdm import tqdm

from .text import printable

EVERY = 30.0
"""Seconds between the lines of a log, and before the first: what is done by then says nothing."""
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
        """Standard error's."""
        sys.stderr.flush()


class _Lines(tqdm):  # type: ignore[misc]
    monitor_interval = 0  # no thread next to our work, which may fork


def progress(
    items: Iterable[Any] | None = None,
    *,
    label: str,
    show: bool,
    unit: str = "img",
    total: int | None = None,
    done: int = 0,
) -> Any:
    """A tqdm bar; where standard error is neither a terminal nor a notebook, a line every `EVERY`
    seconds instead.

    Args:
        items: the items to iterate over, or None where `update` counts.
        label: the text in front.
        show: False for silence.
        unit: the thing counted, in the singular.
        total: the number of items (default: the length of `items`, if it has one).
        done: the number of items done before.

    Example:
        >>> [value for value in progress([1, 2], label="count", show=False)]
        [1, 2]
    """
    usual = {
        "desc": label,
        "unit": unit,
        "total": total,
        "initial": done,
        "disable": not show,
        "leave": False,
    }
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        return tqdm(items, **usual)
    return _Lines(
        items, **usual, file=_Log(), delay=EVERY, mininterval=EVERY, miniters=1, bar_format=LINE
    )


@cache
def tell(line: str) -> None:
    """A line on standard error that people should read, once in a process however often its cause
    is met.
    """
    sys.stderr.write(f"note: {printable(line)}\n")
