"""The files of an archive, read in bounded time and memory; bytes that belong to none of them are
said.

zip, tar, and what gzip, bzip2 and xz packed. Nothing is unpacked to the disk, and no field of an
archive makes it read more than `MAX_UNPACKED`.
"""

from __future__ import annotations

import bz2
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from unplug.core import InputError
from unplug.trust.bundle import DAMAGE, open_zip
from unplug.trust.certificates import TracedPlace

from .person import unknown

MAX_BYTES = 64 * 2**20
MAX_MEMBERS = 100_000
MAX_UNPACKED = 512 * 2**20
"""Bytes that one archive may unpack to."""
MAX_HEADER = 2**20
MAX_LOOSE = 512
"""Bytes of comments and fields that hold times and paths; more of them may hold a picture."""
HEAD = 512
BLOCK = 2**20
UNOWNED = "bytes of it belong to no file in it"
TOO_MUCH = f"more than {{}} bytes or {MAX_MEMBERS} files: unpack it and search the folder"
HARMED = (*DAMAGE, tarfile.TarError, lzma.LZMAError, RecursionError, OverflowError, MemoryError)


@dataclass(frozen=True, kw_only=True)
class Item:
    """A file, on the disk or in an archive, or what an archive says besides its files.

    Args:
        path: the path of the file; a file in an archive has the path of the archive and its name in
            it.
        name: the name at its place; empty for an archive's own text.
        head: the first `HEAD` bytes.
        rest: the others, once.
    """

    path: Path
    name: str = ""
    head: bytes
    rest: Iterator[bytes]

    def blocks(self) -> Iterator[bytes]:
        """All bytes from the first on, in pieces, so that a file of any size is hashed in little
        memory; once.
        """
        yield self.head
        yield from self.rest

    def whole(self) -> bytes:
        """All bytes; `InputError` beyond `MAX_BYTES`."""
        parts, left = [], MAX_BYTES
        for block in self.blocks():
            left -= len(block)
            if left < 0:
                raise InputError(
                    str(self.path), f"larger than {MAX_BYTES} bytes", "Look into it yourself"
                )
            parts.append(block)
        return b"".join(parts)


def item_of(path: Path, name: str, blocks: Iterable[bytes]) -> Item:
    """A file by its bytes, whose head is read."""
    stream = _Stream(blocks)
    return Item(
        path=path, name=name, head=stream.read(HEAD), rest=iter(lambda: stream.read(BLOCK), b"")
    )


class _Stream:
    """Exact numbers of bytes out of pieces."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks, self._kept = iter(blocks), memoryview(b"")

    def read(self, size: int) -> bytes:
        """Reads so many bytes, fewer only at the end."""
        parts, left = [], size
        while left and (block := self._kept or memoryview(next(self._blocks, b""))):
            parts.append(block[:left])
            self._kept = block[left:]
            left -= len(parts[-1])
        return b"".join(parts)

    def part(self, size: int) -> Iterator[bytes]:
        """Reads so many bytes in pieces; `EOFError` where there are fewer."""
        while size:
            if not (block := self.read(min(size, BLOCK))):
                raise EOFError("it ends within a file")
            size -= len(block)
            yield block


def blocks_of(handle: BinaryIO, start: int = 0, size: int | None = None) -> Iterator[bytes]:
    """The bytes of an open file from a place on, to the end or so many, wherever others read it
    meanwhile.
    """
    end = None if size is None else start + size
    while end is None or start < end:
        handle.seek(start)
        block = handle.read(BLOCK if end is None else min(BLOCK, end - start))
        if not block:
            return
        start += len(block)
        yield block


class _Zlib:
    """zlib's decompressor with the face that those of bzip2 and xz have."""

    def __init__(self, bits: int) -> None:
        self._zlib = zlib.decompressobj(bits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zlib, name)

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    def decompress(self, block: bytes, most: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + block, most)


_OPENERS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: _Zlib(31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=128 * 2**20),
}


def _opener(head: bytes) -> Callable[[], Any] | None:
    return next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)


def unpacked(
    blocks: Iterable[bytes], opener: Callable[[], Any], *, again: bool = True
) -> Iterator[bytes]:
    """What a decompressor makes of one stream after the other, with nothing but zeros between them."""
    opened, left = opener(), MAX_UNPACKED
    for block in blocks:
        while block:
            if opened.eof:
                block = block.lstrip(b"\0")
                if not block:
                    break
                # flags of gzip: 4 a field, 8 a name, 16 a comment
                if not again or (
                    block.startswith(b"\x1f\x8b") and (len(block) < 4 or block[3] & 28)
                ):
                    raise ValueError(UNOWNED)  # or a later name, comment or field
                opened = opener()
            made = opened.decompress(block, BLOCK)
            while made or not (opened.needs_input or opened.eof):
                left -= len(made)
                if left < 0:
                    raise ValueError(TOO_MUCH.format(MAX_UNPACKED))
                yield made
                made = b"" if opened.eof else opened.decompress(b"", BLOCK)
            block = opened.unused_data if opened.eof else b""
    if not opened.eof:
        raise EOFError("it ends too early")


def _header(block: bytes) -> tarfile.TarInfo | None:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return None


def is_archive(head: bytes) -> bool:
    """Whether `members` opens a file that begins so."""
    return (
        head[:4] in (b"PK\3\4", b"PK\5\6")
        or _opener(head) is not None
        or _header(head[:512]) is not None
    )


def members(path: Path, handle: BinaryIO, head: bytes) -> Iterator[Item | TracedPlace]:
    """The files of an archive, and what it says besides them; last why not all of it could be read.

    Args:
        path: the path of the archive.
        handle: it, at any place.
        head: its first bytes.
    """
    try:
        if head[:2] == b"PK":
            yield from _zip(path, handle)
        elif (opener := _opener(head)) is None:
            yield from _tar(path, blocks_of(handle))
        else:
            yield Item(path=path, head=head, rest=iter(()))  # gzip's holds a name
            # gzip's field of extra bytes, after ten of its head, begins with its length
            if head[:2] == b"\x1f\x8b" and head[3] & 4:
                field = b"".join(blocks_of(handle, 10, 2**16 + 2))
                yield from _loose(path, field[2 : 2 + int.from_bytes(field[:2], "little")])
            inside = item_of(path / path.stem, path.stem, unpacked(blocks_of(handle), opener))
            if _header(inside.head) is None and inside.head.strip(b"\0"):
                yield inside
            else:
                yield from _tar(path, inside.blocks())
    except HARMED as error:
        yield unknown(path, "archive", f"it cannot be unpacked ({error})")


def _zip(path: Path, handle: BinaryIO) -> Iterator[Item | TracedPlace]:
    archive = open_zip(handle)
    files = archive.infolist()
    if len(files) > MAX_MEMBERS or sum(info.file_size for info in files) > MAX_UNPACKED:
        raise ValueError(TOO_MUCH.format(MAX_UNPACKED))
    yield from _loose(path, archive.comment)
    at, unowned, slack = 0, 0, {0}
    for info in sorted(files, key=lambda info: info.header_offset):
        unowned += _between(at, info.header_offset, slack)
        local = b"".join(blocks_of(handle, info.header_offset, 30))
        if local[:4] != b"PK\3\4":
            raise zipfile.BadZipFile("a file of it is not where its directory says")
        names, extra = (int.from_bytes(local[place : place + 2], "little") for place in (26, 28))
        start = info.header_offset + 30 + names + extra
        # Bit 3: sums and sizes follow the file, three numbers of 4 bytes, or one of 4 and
        # two of 8, with a mark of 4 in front or without.
        at, slack = start + info.compress_size, {0, 12, 16, 20, 24} if info.flag_bits & 8 else {0}
        header = b"".join(blocks_of(handle, info.header_offset + 30, names + extra))
        yield from _member(path, info, header, blocks_of(handle, start, info.compress_size))
    if unowned := unowned + _between(at, archive.start_dir, slack):
        yield unknown(path, "archive", f"{unowned} {UNOWNED}")


def _between(end: int, start: int, slack: set[int]) -> int:
    """Bytes between two files; after one whose size was not known when it began stand sums and
    sizes.
    """
    if start < end:
        raise zipfile.BadZipFile("its files lie over each other")
    return 0 if start - end in slack else start - end


def _member(
    path: Path, item: zipfile.ZipInfo, said: bytes, blocks: Iterator[bytes]
) -> Iterator[Item | TracedPlace]:
    """A file of a zip; `said`, the name and the fields in front of it, may differ from what the
    directory says.
    """
    label, name = _label(path, item.filename), item.orig_filename
    # bit 11: the name is UTF-8; else it is in the code page of DOS
    raw = name.encode("utf-8" if item.flag_bits & 2048 else "cp437", "replace")
    yield from _loose(label, b"\n".join((said.removeprefix(raw), item.extra, item.comment)))
    if item.flag_bits & 1 or item.compress_type not in (0, 8):
        yield unknown(
            label,
            "file",
            "it is encrypted, or packed in a way that is not opened",
        )
        return
    try:
        yield item_of(label, f"{name}\n{raw.decode('utf-8', 'replace')}", _checked(blocks, item))
    except HARMED as error:
        yield unknown(label, "file", error)


def _checked(blocks: Iterator[bytes], item: zipfile.ZipInfo) -> Iterator[bytes]:
    """Reads as many bytes as the directory says, with that sum, and no others packed with them."""
    total, crc = 0, 0
    for block in (
        unpacked(blocks, lambda: _Zlib(-15), again=False) if item.compress_type else blocks
    ):
        total, crc = total + len(block), zlib.crc32(block, crc)
        if total > item.file_size:
            break
        yield block
    if total != item.file_size or crc != item.CRC:
        raise zipfile.BadZipFile("it does not hold what the directory says")


def _loose(path: Path, rest: bytes) -> Iterator[Item | TracedPlace]:
    """What stands in an archive besides the bytes of its files: a time, a path, or what somebody
    put there.
    """
    rest = rest.strip(b"\0\n")
    yield Item(path=path, head=rest, rest=iter(()))
    if len(rest) > MAX_LOOSE:
        why = f"{len(rest)} bytes stand in comments and fields of the archive"
        yield unknown(path, "archive", why)


def _tar(path: Path, blocks: Iterable[bytes]) -> Iterator[Item | TracedPlace]:
    """The files of one tar after the other, with zeros in front, between and after."""
    stream, name, left, number = _Stream(blocks), "", MAX_UNPACKED, 0
    while block := stream.read(512):
        left -= len(block)
        if left > 0 and not block.strip(b"\0"):
            continue
        if (info := _header(block)) is None:
            raise ValueError(UNOWNED)
        left, number = left - info.size, number + 1
        if info.size < 0 or left < 0 or number > MAX_MEMBERS:
            raise ValueError(TOO_MUCH.format(MAX_UNPACKED))
        part = stream.part(info.size)
        yield Item(path=path, head=block.replace(b"\0", b"\n").strip(), rest=iter(()))
        if info.type in _SAYING:
            text = _said(info, part)
            yield Item(path=path, head=text, rest=iter(()))
            name = _long_name(info, text) or name
        elif info.type == tarfile.GNUTYPE_SPARSE:
            raise ValueError("a sparse file is in it, whose holes may have no end")
        else:
            yield item_of(_label(path, name or info.name), name or info.name, part)
            name = ""
        for _ in part:
            pass
        # files are filled up to blocks of 512 with zeros
        if stream.read(-info.size % 512).strip(b"\0"):
            raise ValueError(UNOWNED)


_SAYING = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
"""Headers that only say something of the file after them."""


def _said(info: tarfile.TarInfo, part: Iterator[bytes]) -> bytes:
    if info.size > MAX_HEADER:
        raise ValueError(f"a header of it is larger than {MAX_HEADER} bytes")
    raw = b"".join(part)
    if re.search(rb"(?:^|\n)\d+ (?:size|GNU\.sparse\.[a-z]+)=", raw):
        raise ValueError("a file in it is sparse, or its size stands in another place")
    return raw


def _long_name(info: tarfile.TarInfo, said: bytes) -> str:
    match = re.search(rb"(?:^|\n)\d+ path=([^\n]*)\n", said)
    raw = (
        match[1] if match else said.rstrip(b"\0") if info.type == tarfile.GNUTYPE_LONGNAME else b""
    )
    return raw.decode("utf-8", "surrogateescape")


def _label(archive: Path, name: str) -> Path:
    """Where a file lies in an archive; a name that leads out of it must not look like a file
    elsewhere.
    """
    return archive.joinpath(
        *(part for part in name.replace("\0", "").split("/") if part not in ("", ".", ".."))
    )
