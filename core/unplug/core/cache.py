"""The cache: what can be made again, decoded faces among it; private to its owner, shown and
emptied by ``unplug cache``.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from .durable import PRIVATE_FOLDER, make_folder
from .errors import OutputError
from .homes import home, is_writable
from .temporaries import ENDING, sweep, temporary_folder, temporary_place, try_lock

PRIVATE_FILE = 0o600
PIXELS = re.compile(r"[0-9a-f]{32}-\d+px\.(npy|json|people)")
FOLDERS = {
    "diffusion": re.compile(r"(latents|text|condition|judge)-\S+|\.condition-\S+\.partial"),
    "web-page": re.compile(r"[0-9a-f]{12}"),
}
"""The cache's folders with other contents; the others hold decoded pictures alone."""

_used: tuple[Path, int] | None = None
_FOLDER = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0)
"""To open a folder, and nothing else: a pipe in its place would be waited for."""
_using = threading.Lock()


def cache_dir() -> Path:
    """``$UNPLUG_CACHE``, or ``$XDG_CACHE_HOME/unplug``, or ``~/.cache/unplug``.

    Where there is no home that can be written in, a private folder in ``$TMPDIR``, which is made.

    Raises:
        OutputError: there is neither a home nor a place for temporary files.
    """
    if explicit := os.environ.get("UNPLUG_CACHE"):
        return Path(explicit)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "unplug"
    place = home()
    if place is not None and is_writable(place / ".cache" / "unplug"):
        return place / ".cache" / "unplug"
    return _cache_without_home(temporary_place())


def _cache_without_home(place: Path) -> Path:
    """A folder that this user alone can read, the same for all processes; a new one where somebody
    else has its name.
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = place / f"unplug-cache-{user}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(PRIVATE_FOLDER)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user:
        return _cache_of_this_process(place)
    if status.st_mode & 0o077:
        folder.chmod(PRIVATE_FOLDER)
    return folder


@functools.cache
def _cache_of_this_process(place: Path) -> Path:
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(temporary_folder("unplug-cache-", place))


def cache_error(path: Path, error: OSError) -> OutputError:
    """What a failure to use something in the cache means to the user, in one line, with the
    variable that says where it is.
    """
    variable = next(
        (name for name in ("UNPLUG_CACHE", "XDG_CACHE_HOME") if os.environ.get(name)), None
    )
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = f"{'the disk is full' if full else error.strerror or error}: the cache lies there"
    why += f" (so says {variable})" if variable else ""
    return OutputError(
        str(path),
        why,
        f"{'Free some space, or set' if full else 'Set'} UNPLUG_CACHE to a folder that you can "
        "write to",
    )


def in_cache(path: Path) -> bool:
    """Whether a path is the cache or lies in it."""
    return Path(path).resolve().is_relative_to(cache_dir().resolve())


def use_cache() -> Path:
    """The cache, which nobody else may purge from now until this process ends.

    The first use by a process sweeps what killed processes left unfinished, and takes from
    everybody but the owner what an older version had let all read. Nothing is raised where there is
    no cache yet: who writes into it finds out.
    """
    global _used
    root = cache_dir()
    with _using:
        if _used is not None and _used[0] == root.absolute():
            return root
        _let_go()
        with contextlib.suppress(OSError):
            make_folder(root, PRIVATE_FOLDER)
            handle = os.open(root, os.O_RDONLY | _FOLDER)
            try_lock(handle, shared=True, wait=True)
            # Open until this process ends: the kernel then drops the lock, however it ends.
            _used = root.absolute(), handle
            for place in (root, *(root / name for name in FOLDERS)):
                if place.is_dir() and not (place != root and place.is_symlink()):
                    sweep(place)
            _make_private(root)
    return root


@contextlib.contextmanager
def cache_alone() -> Iterator[Path]:
    """The cache while no other process uses it; those that begin to use it meanwhile wait.

    Raises:
        OutputError: a process uses it, or it cannot be opened.
    """
    root = cache_dir()
    if (
        os.name == "nt"
    ):  # a folder cannot be opened there, and Windows refuses to delete what somebody has open
        yield root
        return
    with _using:
        _let_go()
        try:
            make_folder(root, PRIVATE_FOLDER)
            handle = os.open(root, os.O_RDONLY | _FOLDER)
        except OSError as error:
            raise cache_error(root, error) from error
        try:
            if try_lock(handle) is False:
                raise OutputError(
                    str(root),
                    "another unplug command uses this cache now",
                    "Wait until it has ended",
                )
            yield root
        finally:
            os.close(handle)


def _let_go() -> None:
    global _used
    if _used is not None:
        os.close(_used[1])
        _used = None


def cache_entries(root: Path) -> tuple[list[Path], list[Path]]:
    """What lies in a cache: files and folders that we wrote, told by their names, and everything
    else. Links are never ours.

    Raises:
        OutputError: it cannot be looked into.

    Example:
        >>> cache_entries(Path("/nowhere"))
        ([], [])
    """
    try:
        return _entries(root)
    except OSError as error:
        raise cache_error(root, error) from error


def _entries(root: Path) -> tuple[list[Path], list[Path]]:
    ours: list[Path] = []
    others: list[Path] = []
    for place, names in ((root, PIXELS), *((root / name, own) for name, own in FOLDERS.items())):
        if not place.is_dir() or (place != root and place.is_symlink()):
            continue
        for entry in sorted(place.iterdir()):
            if (
                place == root
                and entry.name in FOLDERS
                and entry.is_dir()
                and not entry.is_symlink()
            ):
                continue
            known = names.fullmatch(entry.name) or entry.name.endswith(ENDING)
            (ours if known and not entry.is_symlink() else others).append(entry)
    return ours, others


def _make_private(root: Path) -> None:
    """Modes 0700 and 0600 for what is ours; for a folder only where nothing of others is in it (it
    may be a home).
    """
    ours, others = cache_entries(root)
    kept = {place for item in others for place in item.parents}
    for folder in {root, *(item.parent for item in ours)} - kept:
        _narrow(folder)
    for entry in ours:
        _narrow(entry)
        for place, folders, files in os.walk(entry):
            for name in (*folders, *files):
                _narrow(Path(place, name))


def _narrow(item: Path) -> None:
    if item.is_symlink():
        return
    mode = PRIVATE_FOLDER if item.is_dir() else PRIVATE_FILE
    with contextlib.suppress(OSError):  # somebody else's
        if item.stat().st_mode & 0o077:
            item.chmod(mode)
