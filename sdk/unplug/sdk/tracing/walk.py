"""Folders and archives of nobody knows what, walked in bounded time and memory; what cannot be opened is said."""

from __future__ import annotations

import bz2
import gzip
import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from unplug.core import InputError
from unplug.sdk.bundle import DAMAGE, open_zip

from .place import Place, unknown

MAX_FILES = 1_000_000
MAX_DEPTH = 200
MAX_BYTES = 64 * 2**20
MAX_MEMBERS = 100_000
MAX_UNPACKED = 512 * 2**20
"""Bytes that one archive may unpack to; nothing is unpacked to disk."""
HEAD = 512


@dataclass(frozen=True, kw_only=True)
class Item:
    """A file, on the disk or in an archive.

    Args:
        path: of the file; of one in an archive, the archive's and the name in it.
        size: bytes, as the folder or the archive says.
        head: the first `HEAD` bytes.
        rest: where the others are read.
    """

    path: Path
    size: int
    head: bytes
    rest: IO[bytes]

    def blocks(self) -> Iterator[bytes]:
        """All bytes from the first on, a MiB at a time, so that a file of any size is hashed in little memory; once."""
        yield self.head
        while block := self.rest.read(2**20):
            yield block

    def whole(self) -> bytes:
        """All bytes; `InputError` beyond `MAX_BYTES`."""
        parts, left = [], MAX_BYTES
        for block in self.blocks():
            left -= len(block)
            if left < 0:
                raise InputError(str(self.path), f"larger than {MAX_BYTES} bytes", "Look into it yourself")
            parts.append(block)
        return b"".join(parts)


def walk(folders: Sequence[Path]) -> Iterator[Path | Place]:
    """Every file below some folders, each once and sorted within its folder, and what cannot be gone into.

    Links are not followed: what one leads to within these folders is found there, and one that leads out of them is said.

    Raises:
        InputError: a folder is not there, or they hold more than `MAX_FILES` files and folders.
    """
    roots = []
    for folder in folders:
        if not folder.is_dir():
            raise InputError(str(folder), "there is no such folder", "Check the path")
        roots.append(os.path.realpath(folder))
    waiting, seen, count = [(root, 0) for root in reversed(roots)], set[str](), 0
    while waiting:
        folder_path, depth = waiting.pop()
        if folder_path in seen:
            continue
        seen.add(folder_path)
        try:
            with os.scandir(folder_path) as entries:
                items = sorted(entries, key=lambda item: item.name)
        except OSError as error:
            yield unknown(folder_path, "folder", InputError("it", error.strerror or str(error)))
            continue
        count += len(items)
        if count > MAX_FILES:
            raise InputError(folder_path, f"there are more than {MAX_FILES} files", "Name the folders one by one")
        for item in items:
            if item.is_symlink():
                if not any(_inside(item.path, root) for root in roots):
                    yield unknown(item.path, "link", InputError("it", "it leads out of what is searched, and is not followed"))
            elif not item.is_dir(follow_symlinks=False):
                yield Path(item.path)
            elif depth >= MAX_DEPTH:
                yield unknown(item.path, "folder", InputError("it", f"it lies more than {MAX_DEPTH} folders deep"))
            else:
                waiting.append((item.path, depth + 1))


def _inside(link: str, root: str) -> bool:
    try:
        target = os.path.realpath(link)
    except (OSError, ValueError):  # a circle
        return False
    return target == root or target.startswith(root.rstrip(os.sep) + os.sep)


def is_archive(head: bytes) -> bool:
    """Whether `members` opens a file that begins so."""
    return head[:4] in (b"PK\3\4", b"PK\5\6") or head[:2] == b"\x1f\x8b" or head[:3] == b"BZh" or head[257:262] == b"ustar"


def members(path: Path, handle: BinaryIO, head: bytes) -> Iterator[Item | Place]:
    """The files of an archive (zip, tar, tar.gz, tar.bz2), and last why not all of it could be read.

    Args:
        path: of the archive.
        handle: it, at any place.
        head: its first bytes.
    """
    handle.seek(0)
    try:
        if head[:2] == b"PK":
            yield from _zip(path, handle)
        else:
            yield from _tar(path, _unpacked(handle, head))
    except (*DAMAGE, tarfile.TarError, RecursionError, OverflowError, MemoryError) as error:
        yield unknown(str(path), "archive", InputError("it", f"it cannot be unpacked ({error})"))


def _zip(path: Path, handle: BinaryIO) -> Iterator[Item | Place]:
    archive = open_zip(handle)
    files = [item for item in archive.infolist() if not item.is_dir()]
    if len(files) > MAX_MEMBERS or sum(item.file_size for item in files) > MAX_UNPACKED:
        raise ValueError(f"more than {MAX_MEMBERS} files or {MAX_UNPACKED} bytes: unpack it and search the folder")
    for item in files:
        label = _label(path, item.filename)
        if item.flag_bits & 1 or item.compress_type not in (0, 8):
            yield unknown(str(label), "file", InputError("it", "it is encrypted, or packed in a way that is not opened"))
            continue
        with archive.open(item) as member:
            yield Item(path=label, size=item.file_size, head=member.read(HEAD), rest=member)


def _tar(path: Path, stream: IO[bytes]) -> Iterator[Item | Place]:
    """As a stream: what leads backwards is damage, and no header makes it read more than `MAX_UNPACKED`."""
    with tarfile.open(fileobj=_Counted(stream), mode="r|") as archive:  # type: ignore[call-overload]
        for number, item in enumerate(archive):
            if number >= MAX_MEMBERS:
                raise ValueError(f"more than {MAX_MEMBERS} files: unpack it and search the folder")
            member = archive.extractfile(item) if item.isreg() else None
            if member is not None:
                label = _label(path, item.name)
                yield Item(path=label, size=item.size, head=member.read(HEAD), rest=member)


def _label(archive: Path, name: str) -> Path:
    """Where a file lies in an archive; a name that leads out of it must not look like a file elsewhere."""
    return archive.joinpath(*(part for part in name.split("/") if part not in ("", ".", "..")))


def _unpacked(handle: BinaryIO, head: bytes) -> IO[bytes]:
    if head[:2] == b"\x1f\x8b":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=handle))
    return cast("IO[bytes]", bz2.BZ2File(handle)) if head[:3] == b"BZh" else handle


class _Counted:
    """Bytes as they are unpacked, up to `MAX_UNPACKED` of them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.left = stream, MAX_UNPACKED

    def read(self, size: int) -> bytes:
        block = self.stream.read(min(size, self.left + 1))
        self.left -= len(block)
        if self.left < 0:
            raise ValueError(f"more than {MAX_UNPACKED} bytes: unpack it and search the folder")
        return block
