"""Files from outside, read in bounded time and memory: regular ones only, of a bounded size, JSON
of a bounded depth.

A device, a pipe, ``/proc/kmsg`` and a sparse file of four terabytes all look like files to
``open``: the first three never end or never begin, and the last one is larger than any memory.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from .errors import InputError
from .stand_ins import HEAD_BYTES, MAX_POINTER_BYTES, pointer_in, why_missing

# the largest weights of a public diffusion model stay below half of it
MAX_HASHED_BYTES = 64 * 2**30
MAX_DEPTH = 64  # of JSON; the deepest file of ours has nine levels
MAX_DIGITS = 40  # of an integer; no count or time has more, and float() ends at 309


NOT_OURS = "This is not a file that unplug wrote"


def open_regular(
    path: Path, *, max_bytes: int, error: type[InputError] = InputError, too_large: str = NOT_OURS
) -> BinaryIO:
    """Opens a regular file for reading, without ever waiting for somebody to write into it.

    Args:
        path: the file; links are followed.
        max_bytes: larger files are refused unread. Sparse ones count with the size that they claim.
        error: the type to raise.
        too_large: advice for a file that is too large.

    Raises:
        InputError: of type `error`: it is missing, cannot be read, is a folder, a device or a pipe,
            is too large, or a pointer to the real file (see `stand_ins`).
    """
    try:
        number = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        )
    except (OSError, ValueError) as problem:  # ValueError: a name with a null byte
        why = getattr(problem, "strerror", None) or str(problem)
        raise error(str(path), *(why_missing(Path(path)) or (why, "Check the path"))) from problem
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise error(str(path), _not_regular(status.st_mode), "Give a regular file")
        if status.st_size > max_bytes:
            raise error(str(path), f"larger than {max_bytes} bytes", too_large)
        if 0 < status.st_size <= MAX_POINTER_BYTES:
            if (told := pointer_in(os.read(number, HEAD_BYTES))) is not None:
                raise error(str(path), *told)
            os.lseek(number, 0, os.SEEK_SET)
        return os.fdopen(number, "rb", buffering=0)
    except BaseException:
        os.close(number)
        raise


def _not_regular(mode: int) -> str:
    return (
        os.strerror(errno.EISDIR)
        if stat.S_ISDIR(mode)
        else "it is a device, a pipe or a socket, which may have no end"
    )


def read_regular(
    path: Path, *, max_bytes: int, error: type[InputError] = InputError, too_large: str = NOT_OURS
) -> bytes:
    """The bytes of a regular file of bounded size.

    Raises:
        InputError: of type `error`; see `open_regular`. Also where it grows beyond `max_bytes`
            while it is read, or has nothing to read now and may have later (``/proc/kmsg``).
    """
    parts, left = [], max_bytes + 1
    with open_regular(path, max_bytes=max_bytes, error=error, too_large=too_large) as handle:
        try:
            while left and (part := os.read(handle.fileno(), min(left, 2**24))):
                parts.append(part)
                left -= len(part)
        except OSError as problem:
            raise error(str(path), problem.strerror or str(problem), "Check the path") from problem
    if not left:
        raise error(str(path), f"larger than {max_bytes} bytes", too_large)
    return b"".join(parts)


def text_encoding(head: bytes) -> str:
    """The encoding of a text that other programs wrote, by its first bytes: UTF-16 where its mark
    is there, else UTF-8.

    Spreadsheets write "Unicode text" so, and Windows' editors and shells.

    Example:
        >>> text_encoding("anna".encode("utf-16")), text_encoding(b"anna")
        ('utf-16', 'utf-8-sig')
    """
    return "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def parse_json(raw: bytes) -> Any:
    """JSON of a bounded depth, with integers of a bounded length.

    Raises:
        ValueError: it is not UTF-8 or not JSON, is nested more than `MAX_DEPTH` deep, has a key
            twice in one object (readers in other languages would take the other value), or an
            integer of more than `MAX_DIGITS` digits, which no number format takes.
    """
    try:
        value = json.loads(raw.decode("utf-8"), parse_int=_integer, object_pairs_hook=_object)
    except RecursionError as problem:
        raise ValueError(_DEEP) from problem
    # Level by level, and not by recursion, which is what deep JSON is written to exhaust.
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(_DEEP)
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return value


_DEEP = f"it is nested more than {MAX_DEPTH} deep, which no schema of unplug is"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("it has a key twice")
    return value


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"it holds an impossible number of {len(text)} digits")
    return int(text)
