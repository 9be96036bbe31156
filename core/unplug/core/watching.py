"""Who learns how far work is: somebody who looks at standard error, or the log of a command."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextvars import ContextVar

_logged: ContextVar[bool] = ContextVar("logged", default=False)


@contextlib.contextmanager
def progress_in_logs() -> Iterator[None]:
    """While it lasts progress that nobody looks at goes to standard error as lines: the way of
    commands. Functions that a script calls leave its streams alone.
    """
    token = _logged.set(True)
    try:
        yield
    finally:
        _logged.reset(token)


def is_logged() -> bool:
    """Whether this is within `progress_in_logs`."""
    return _logged.get()


def is_watched() -> bool:
    """Whether standard error is a terminal, or the output of a notebook's cell."""
    kinds = type(sys.stderr).__mro__
    return sys.stderr.isatty() or any(kind.__module__.startswith("ipykernel.") for kind in kinds)
