"""One writer per ``--out``: a lock file next to it, which the kernel frees when its process ends,
however that happens.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import ParamSpec, TypeVar

from .cache import cache_dir
from .durable import make_folder
from .errors import OutputError
from .results import output_error, recover
from .surroundings import settle
from .temporaries import TRIES, hidden_name, sweep, try_lock

UNGUARDED = (
    "%s: this system has no file locks, so nothing stops a second command with the same `out`; do "
    "not start one"
)
MAX_OWNER_BYTES = 4096
P = ParamSpec("P")
R = TypeVar("R")

_held: ContextVar[frozenset[str]] = ContextVar("held", default=frozenset())


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """Has a place for results to itself; what dead writers left next to it is swept and put right
    first.

    Its holder may hold it again (a release holds what its trainings hold). Of the processes of
    one distributed training (``RANK`` above 0) only the first holds: they write one result
    together.

    Args:
        path: a file or folder to be; the lock is ``.NAME.lock`` next to it, removed at the end.

    Raises:
        OutputError: another process or thread has it, and since when; or nothing can be written
            there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, hold(Path(folder) / "out"):
        ...     os.listdir(folder)
        ['.out.lock']
    """
    key = os.path.realpath(path)
    if key in _held.get() or os.environ.get("RANK", "0") != "0":
        yield
        return
    real = Path(key)
    missing = [folder for folder in (real.parent, *real.parent.parents) if not folder.exists()]
    try:
        make_folder(real.parent)
        handle, lock = _taken_lock(real, path)
    except OSError as error:
        raise output_error(path, error) from error
    token = _held.set(_held.get() | {key})
    try:
        for place in (real.parent, real, cache_dir()):
            sweep(place)
        recover(real)
        yield
    finally:
        _held.reset(token)
        lock.unlink(missing_ok=True)
        os.close(handle)
        for folder in missing:
            with contextlib.suppress(OSError):  # something is in it
                folder.rmdir()


def one_writer(function: Callable[P, R]) -> Callable[P, R]:
    """A step (`settled`) that holds the places that its arguments ``out`` and ``work`` name while
    it runs; see `hold`.

    Raises:
        InputError: see `settled`.
        OutputError: another process or thread writes one of them.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def holding(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs).arguments
        with contextlib.ExitStack() as places:
            places.enter_context(settle())
            for name in ("out", "work"):
                if given.get(name) is not None:
                    places.enter_context(hold(given[name]))
            return function(*args, **kwargs)

    return holding


def _taken_lock(real: Path, path: Path) -> tuple[int, Path]:
    lock = real.with_name(hidden_name(real.name, ".lock"))
    if not os.access(real.parent, os.W_OK) and real.is_dir():  # a folder that was mounted for us
        lock = real / ".unplug.lock"
    for _ in range(TRIES):
        # Without O_TRUNC: who loses the race must not empty what the owner says of itself.
        handle = os.open(
            lock,
            os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0),
            0o644,
        )
        got = try_lock(handle)
        if got is False:
            told = _owner(handle)
            os.close(handle)
            raise OutputError(str(path), told, "Wait for it, or choose another `out`")
        if got is None:
            logging.getLogger("unplug").warning(UNGUARDED, path)
        # Who had it until now may have removed it: then this is no longer the file of that name.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), lock.stat()):
                owner = {
                    "pid": os.getpid(),
                    "host": socket.gethostname(),
                    "since": time.strftime("%Y-%m-%d %H:%M:%S"),
                }
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps(owner).encode())
                return handle, lock
        os.close(handle)
    raise OutputError(
        str(path), "other commands keep taking it", "Wait for them, or choose another `out`"
    )


def _owner(handle: int) -> str:
    """The process that says to have it; a lock that was just taken may not say yet."""
    with contextlib.suppress(ValueError, TypeError, KeyError, OverflowError, RecursionError):
        owner = json.loads(os.pread(handle, MAX_OWNER_BYTES, 0))
        return (
            f"process {int(owner['pid'])} on {str(owner['host'])[:80]} writes it since "
            f"{str(owner['since'])[:40]}"
        )
    return "another process has just begun to write it"
