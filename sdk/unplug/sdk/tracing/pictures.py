"""What a picture file holds besides its pixels: notes, further pictures, and what follows its end."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|RIFF....WEBP|PK\x03\x04", re.DOTALL)
"""How a picture, or an archive, within another file begins."""
MAX_NOTE, MAX_WITHIN, MAX_PIXEL_BYTES = 2**20, 4, 2**30
_MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.DOTALL)
_TABLES = {*range(0xC0, 0xE0)} - {0xD8, 0xD9, 0xDA}
"""Segments of JPEG: the size of the picture and what its pixels are decoded by."""
_PIXELS = {
    b"IHDR",
    b"PLTE",
    b"IDAT",
    b"IEND",
    b"fdAT",
    b"fcTL",
    b"acTL",
    b"VP8 ",
    b"VP8L",
    b"VP8X",
    b"ALPH",
    b"ANIM",
    b"ANMF",
}
_FRAMES = {b"fdAT", b"ANMF"}


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What is not pixels.

    Args:
        notes: the parts of the file, unpacked where packed, each up to the first picture in it.
        within: the first `MAX_WITHIN` parts of notes that begin like a picture or an archive.
        behind: bytes after the picture's end, without zeros.
        more: whether there are further pictures, or more within notes.
    """

    notes: tuple[bytes, ...]
    within: tuple[bytes, ...]
    behind: int
    more: bool


def is_picture(head: bytes) -> bool:
    """Whether a file that begins so is of a format that the data readers decode (JPEG, PNG, WebP,
    BMP).
    """
    return (
        head.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"))
        or head[:4] + head[8:12] == b"RIFFWEBP"
        or (head[:2] == b"BM" and head[6:10] == bytes(4))
    )


def beside_pixels(raw: bytes) -> Beside:
    """What a picture file holds that no decoder of pixels looks at."""
    if raw[:2] == b"\xff\xd8":
        parts, end = _jpeg(raw)
        named = [(b"", part) for part in parts]
    elif raw[:2] == b"BM":
        named, end = [(b"", raw[54 : _u32(raw, 10)])], _bmp_end(raw)
    else:
        named, end = _chunks(raw)
    behind = len(raw[end:].strip(b"\0")) + _behind_pixels(
        b"".join(part for kind, part in named if kind == b"IDAT")
    )
    notes, within = list[bytes](), list[bytes]()
    more = any(kind in _FRAMES for kind, _ in named)
    for kind, part in named:
        if kind in _PIXELS:
            continue
        note = b"\n".join((part, *_inflated(part))) if kind in (b"zTXt", b"iTXt", b"iCCP") else part
        at = [match.start() for match in itertools.islice(MAGIC.finditer(note), MAX_WITHIN + 1)]
        notes += _read(note[: at[0]] if at else note)
        within += [note[start:] for start in at[: MAX_WITHIN - len(within)]]
        more |= len(at) > MAX_WITHIN
    return Beside(notes=tuple(notes), within=tuple(within), behind=behind, more=more)


def _u32(raw: bytes, at: int) -> int:
    return int.from_bytes(raw[at : at + 4], "little")


def _jpeg(raw: bytes) -> tuple[list[bytes], int]:
    """Segments that no pixel needs, with what stands between segments, and where the picture ends."""
    parts, at, kind = list[bytes](), 2, 0
    while (marker := _MARKER.search(raw, at)) is not None:
        # after 0xDA lie the packed pixels, up to the next marker
        parts += [raw[at : marker.start()]] if kind != 0xDA else []
        kind = marker[1][0]
        if kind == 0xD9:  # the end of the image
            return parts, marker.end()
        length = (
            0
            if kind in (0x01, 0xD8)
            else int.from_bytes(raw[marker.end() : marker.end() + 2], "big")
        )
        if kind not in _TABLES and kind != 0xDA:
            parts.append(raw[marker.end() : marker.end() + length])
        at = marker.end() + length
    return parts, len(raw)


def _chunks(raw: bytes) -> tuple[list[tuple[bytes, bytes]], int]:
    """Names and contents of the chunks of PNG and WebP, and where the picture ends."""
    chunks, is_png = [], raw[:1] == b"\x89"
    end = len(raw) if is_png else 8 + _u32(raw, 4)
    at = 8 if is_png else 12
    while at + 8 <= min(end, len(raw)):
        if is_png:
            kind, size, extra = raw[at + 4 : at + 8], int.from_bytes(raw[at : at + 4], "big"), 4
        else:
            kind, size = raw[at : at + 4], _u32(raw, at + 4)
            extra = size % 2  # RIFF fills odd chunks up
        chunks.append((kind, raw[at + 8 : at + 8 + size]))
        at += 8 + size + extra
        if kind == b"IEND":
            return chunks, at
    return chunks, end


def _bmp_end(raw: bytes) -> int:
    width, height = (
        abs(int.from_bytes(raw[at : at + 4], "little", signed=True)) for at in (18, 22)
    )
    # rows are filled up to four bytes; a negative height turns the picture upside down
    row = (width * int.from_bytes(raw[28:30], "little") + 31) // 32 * 4
    return _u32(raw, 10) + (_u32(raw, 34) if _u32(raw, 30) in (1, 2, 4, 5) else row * height)


def _read(note: bytes) -> list[bytes]:
    """A note as it stands, and as the text of two bytes a letter that it may be."""
    if b"\0" not in note or len(note) > MAX_NOTE:
        return [note]
    shifted = (note, note[1:])
    return [
        note,
        *(
            part.decode(form, "ignore").encode()
            for part in shifted
            for form in ("utf-16-le", "utf-16-be")
        ),
    ]


def _behind_pixels(packed: bytes) -> int:
    """Bytes after the end of a PNG's packed pixels, within the parts that hold those; of larger
    ones than decoders take, 0.
    """
    stream, left = zlib.decompressobj(), MAX_PIXEL_BYTES
    try:
        while packed and not stream.eof and left > 0:
            left -= len(stream.decompress(packed, MAX_NOTE))
            packed = stream.unconsumed_tail
    except zlib.error:
        return 0  # decoding it tells that
    return len(stream.unused_data)


def _inflated(part: bytes) -> Iterator[bytes]:
    """What is packed after the keyword of a chunk."""
    for match in re.finditer(rb"\0", part[:1000]):
        try:
            yield zlib.decompressobj().decompress(part[match.end() :], MAX_NOTE)
        except zlib.error:
            continue
