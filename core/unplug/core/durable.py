"""What must hold after a power cut: bytes and names are on the disk before anybody is told; names
change places at once.

A rename is atomic for those who look; after a power cut it may be there while the bytes of the file
are not, or be gone although it was told. So a file is synced before it is renamed, and its folder
after.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of linux/fcntl.h and linux/fs.h
PRIVATE_FOLDER = 0o700
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
"""What a kernel or a file system says that cannot exchange names (some network and FUSE file
systems, and old kernels).
"""


def sync_file(path: Path) -> None:
    """Returns when the bytes of a file are on the disk.

    Raises:
        OSError: there is no such file, or the disk failed: nothing may then be told of it.
    """
    _sync(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Returns when the names in a folder are on the disk. Windows writes them by itself and cannot
    open folders.

    Raises:
        OSError: there is no such folder, or the disk failed.
    """
    if os.name != "nt":
        _sync(path, os.O_RDONLY)


def sync_tree(path: Path) -> None:
    """Returns when every file and every name below a folder is on the disk.

    Raises:
        OSError: see `sync_file`.
    """
    for entry in path.rglob("*"):
        if entry.is_symlink():
            continue
        if entry.is_file():
            sync_file(entry)
        elif entry.is_dir():
            sync_folder(entry)
    sync_folder(path)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has nothing to sync says so
            raise
    finally:
        os.close(handle)


_made: set[str] = set()


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Makes a folder and those above it that are missing, each on the disk before the next.

    Args:
        folder: one that this process made before is given `mode` where others may use it: its lock
            was there first.
        mode: less the umask.

    Raises:
        OSError: it cannot be made, or something else is there.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode, exist_ok=True)
        sync_folder(place.parent)
        _made.add(os.path.realpath(place))
    if mode == PRIVATE_FOLDER and not missing and os.path.realpath(folder) in _made:
        folder.chmod(mode)


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    # glibc has it from 2.28 on
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        )
    return function  # type: ignore[no-any-return]


def exchange(one: Path, other: Path) -> bool:
    """Two names change places in one step, ``renameat2(RENAME_EXCHANGE)``: at no moment is either
    of them missing.

    Args:
        one, other: files or folders of one file system; both exist.

    Returns:
        False where this system or file system cannot do it; nothing was changed then.

    Raises:
        OSError: one of them is missing, or may not be changed.
    """
    call = _renameat2()
    if call is None:
        return False
    sys.audit("unplug.exchange", str(one), str(other))  # ctypes tells audit hooks nothing
    if call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(one))
