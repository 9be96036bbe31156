"""Tar shards: which files a pattern names, and where in them the members' bytes are. Nothing is
unpacked to disk.
"""

from __future__ import annotations

import io
import itertools
import math
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unplug.core import DataError, check_content, check_there, expanded

MAX_SHARDS = 100_000
MAX_MEMBERS = 2_000_000  # of all shards
# a long name or a PAX header; `tarfile` would read what the archive claims
MAX_HEADER_BYTES = 16 * 2**10
EXPECTED = (
    "Give a .tar file, a folder of them, or a pattern such as shards/{000..003}.tar or "
    "'shards/*.tar'"
)
COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
# What `tarfile` was seen to raise on damaged archives; LookupError and TypeError come from its
# sparse and PAX headers.
TAR_ERRORS = (
    tarfile.TarError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    OverflowError,
    RecursionError,
)
_SHARD = re.compile(r"\.(tar|tgz|tar\.(gz|bz2|xz|zst|lz4))$")
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})")


@dataclass(frozen=True, kw_only=True)
class Member:
    """An entry of a tar file: `size` bytes at `offset`; "other" is a link, a device or a sparse
    file.
    """

    name: str
    offset: int
    size: int
    kind: Literal["file", "folder", "other"]


def shards_of(pattern: str) -> tuple[Path, ...]:
    """The tar files that a pattern names, absolute, in the pattern's order.

    Args:
        pattern: a file, a folder, or either with ``{000..003}``, ``{a,b}``, ``*``, ``?`` and ``[]``
            in it.

    Raises:
        DataError: a file that is not there, or braces that cannot be read.
    """
    named: dict[Path, None] = {}
    try:
        for text in [pattern] if expanded(pattern).exists() else _expanded(pattern):
            matches = _matches(expanded(text).absolute())
            if not matches:
                check_there(expanded(text), DataError)
                raise _refused(pattern, f"no such file or folder, or no .tar in it: {text}")
            named |= dict.fromkeys(matches)
            if len(named) > MAX_SHARDS:
                raise _refused(pattern, f"more than {MAX_SHARDS} shards")
    except (OSError, ValueError) as error:  # a name too long or with a null byte
        raise _refused(pattern, f"no such file ({error})") from error
    return tuple(named)


def _refused(pattern: str, why: str) -> DataError:
    return DataError(f"webdataset:{pattern}", why, EXPECTED)


def _matches(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(
            item
            for item in path.iterdir()
            if _SHARD.search(item.name) and not item.name.startswith(".")
        )
    if path.exists():
        return [path]
    rest = path.relative_to(path.anchor)
    return sorted(
        item for item in Path(path.anchor).glob(str(rest)) if not item.name.startswith(".")
    )


def _expanded(pattern: str) -> Iterator[str]:
    """Every text that a pattern's braces stand for, as a shell expands them."""
    parts = _BRACES.split(pattern)  # texts at even places, the insides of braces at odd ones
    choices = [_choices(pattern, part) if place % 2 else [part] for place, part in enumerate(parts)]
    if math.prod(len(options) for options in choices) > MAX_SHARDS:
        raise _refused(pattern, f"more than {MAX_SHARDS} shards")
    return map("".join, itertools.product(*choices))


def _choices(pattern: str, inside: str) -> list[str]:
    if "," in inside:
        return inside.split(",")
    ends = _RANGE.fullmatch(inside)
    if not ends or not 0 <= int(ends[2]) - int(ends[1]) < MAX_SHARDS:
        raise _refused(pattern, f"cannot read {{{inside}}}")
    # {08..10}: 08 09 10
    width = max(len(end) if end.startswith("0") else 0 for end in ends.groups())
    return [f"{number:0{width}d}" for number in range(int(ends[1]), int(ends[2]) + 1)]


def members(shard: Path, most: int) -> list[Member]:
    """The index of a tar file: every entry, by reading headers only.

    Args:
        shard: an uncompressed tar file (POSIX, GNU or PAX).
        most: entries that are left of `MAX_MEMBERS`.

    Raises:
        DataError: compressed, cut off, damaged or no tar file, or too many entries.
    """
    index: list[Member] = []
    check_content(shard, DataError)
    try:
        if not stat.S_ISREG(shard.stat().st_mode):
            raise DataError(str(shard), "it is not a regular file", "Name a tar file")
        with (
            _Headers(shard) as handle,
            tarfile.open(
                fileobj=handle, mode="r:", encoding="utf-8", errors="backslashreplace"
            ) as archive,
        ):
            for member in _entries(archive, shard.stat().st_size):
                if len(index) == most:
                    why = f"with it there are more than {MAX_MEMBERS} entries"
                    raise DataError(str(shard), why, "Load fewer shards at once")
                index.append(member)
            handle.seek(archive.offset)
            if handle.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
                # `tarfile` takes a damaged header for the end; the rest of the shard would be lost
                # in silence.
                raise tarfile.ReadError(f"damaged or cut off after {len(index)} entries")
    except TAR_ERRORS as error:
        raise DataError(
            str(shard), _reason(shard, error), "Write the shard again, uncompressed"
        ) from error
    return index


def _entries(archive: tarfile.TarFile, total: int) -> Iterator[Member]:
    last = -1
    while (entry := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # else all headers stay in memory
        member = _member(entry)
        if member.size < 0 or member.offset <= last:
            # would send `tarfile` round in circles
            raise tarfile.ReadError("an entry of negative size")
        if member.kind == "file" and member.offset + member.size > total:
            raise tarfile.ReadError("unexpected end of data")
        last = member.offset
        yield member


def _member(entry: tarfile.TarInfo) -> Member:
    kind: Literal["file", "folder", "other"] = "folder" if entry.isdir() else "other"
    if entry.isreg() and not entry.issparse():
        kind = "file"
    return Member(name=entry.name, offset=entry.offset_data, size=entry.size, kind=kind)


def read_member(shard: Path, offset: int, size: int) -> bytes:
    """The bytes of one entry; `DataError` where the file cannot be read or has become shorter."""
    try:
        with shard.open("rb") as handle:
            handle.seek(offset)
            raw = handle.read(size)
    except OSError as error:
        raise DataError(str(shard), error.strerror or str(error), "Check the file") from error
    if len(raw) != size:
        raise DataError(
            str(shard), "it has become shorter while it was read", "Load the data again"
        )
    return raw


def _reason(shard: Path, error: Exception) -> str:
    try:
        with shard.open("rb") as handle:
            start = handle.read(8)
    except OSError:
        start = b""
    kind = next((name for magic, name in COMPRESSED.items() if start.startswith(magic)), None)
    if kind and isinstance(error, tarfile.ReadError):
        return f"it is compressed ({kind}), and images inside cannot be read in any order"
    return f"not a whole tar file ({getattr(error, 'strerror', None) or error})"


class _Headers(io.FileIO):
    """A tar file of which `tarfile` reads headers only, however long these claim to be."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads at most 16 KiB."""
        if size is None or not 0 <= size <= MAX_HEADER_BYTES:
            raise tarfile.ReadError("a header is too long")
        return super().read(size)
