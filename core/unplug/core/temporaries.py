"""Folders for what is unfinished: locked by who makes them, so that those of the dead can be told
and swept.

The kernel drops a lock with its process, however that ends. A process number would say less: it is
used again, and means nothing in another container that writes to the same disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from .errors import OutputError

ENDING = ".unplug-tmp"
"""The ending of every temporary folder of ours, here and in ``$TMPDIR``; nothing else is ever
swept.
"""
MAX_NAME_BYTES = (
    150  # of a result within a hidden name: file systems end at 255, and something is put after it
)
TRIES = 10

_swept: set[Path] = set()
_sweeping = threading.Lock()


def hidden_name(name: str, ending: str) -> str:
    """``.NAMEending``, as short as a file system takes it: a long name is cut, and told from others
    by its digest.

    Example:
        >>> hidden_name("age", ".lock"), len(hidden_name("é" * 120, ".lock"))
        ('.age.lock', 87)
    """
    raw = os.fsencode(name)
    if len(raw) > MAX_NAME_BYTES:
        name = f"{raw[:128].decode('utf-8', 'ignore')}.{hashlib.sha256(raw).hexdigest()[:16]}"
    return f".{name}{ending}"


def try_lock(handle: int, *, shared: bool = False, wait: bool = False) -> bool | None:
    """Takes the advisory lock of an open file or folder, until it is closed or its process ends.

    Args:
        handle: the handle of the open file or folder.
        shared: whether others may hold the same shared lock.
        wait: until who has it lets go of it.

    Returns:
        False where somebody else has it; None where there are no such locks (Windows, some network
        file systems).
    """
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(
            handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        )
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def temporary_place() -> Path:
    """``$TMPDIR``, or where else this system has its temporary files.

    Raises:
        OutputError: none of these can be written in.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        why = error.strerror or str(error)
        raise OutputError(
            "temporary files", why, "Set TMPDIR to a folder that you can write to"
        ) from error


@contextlib.contextmanager
def temporary_folder(prefix: str, place: Path | None = None) -> Iterator[Path]:
    """A private folder that is gone afterwards, also with Ctrl-C and SIGTERM; one that was killed
    is swept by the next process.

    Args:
        prefix: the start of its name.
        place: the folder to make it in; None takes `temporary_place`.

    Raises:
        OSError: it cannot be made.
        OutputError: see `temporary_place`.

    Example:
        >>> with temporary_folder("unplug-doc-") as folder:
        ...     folder.is_dir()
        True
    """
    where = temporary_place() if place is None else Path(place)
    with _sweeping:
        if where not in _swept:
            _swept.add(where)
            sweep(where)
    folder, handle = _made(prefix, where)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _made(prefix: str, place: Path) -> tuple[Path, int | None]:
    for _ in range(TRIES):
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=ENDING, dir=place))
        if os.name == "nt":  # a folder cannot be opened there
            return folder, None
        handle: int | None = None
        with contextlib.suppress(
            FileNotFoundError
        ):  # swept by another process before it was locked
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            # Between its making and its lock another process may have swept it as one of the dead.
            if try_lock(handle) is not False and os.path.samestat(os.fstat(handle), folder.stat()):
                return folder, handle
        if handle is not None:
            os.close(handle)
    raise FileExistsError(f"{place}: temporary folders vanish as soon as they are made")


def sweep(place: Path) -> list[Path]:
    """Removes the temporary folders that dead processes of this user left in a folder; says which.

    What is locked belongs to somebody alive. Where there are no locks nothing can be told, and
    nothing is removed.
    """
    if os.name == "nt":
        return []
    folders = []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        folders = [
            Path(entry.path)
            for entry in entries
            if entry.name.endswith(ENDING) and _is_own_folder(entry)
        ]
    return [folder for folder in folders if _swept_away(folder)]


def sweep_below(place: Path) -> list[Path]:
    """`sweep` of a folder and of every folder below it: results are published within them as well.
    Links are not followed.

    Example:
        >>> with temporary_folder("unplug-doc-") as folder:
        ...     sweep_below(folder)
        []
    """
    # top down: what was swept is not walked any more
    levels = [sweep(Path(folder)) for folder, _, _ in os.walk(place)]
    return [folder for swept in levels for folder in swept]


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        return (
            entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_uid == os.getuid()
        )
    return False


def _swept_away(folder: Path) -> bool:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not try_lock(handle):
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()
    finally:
        os.close(handle)
