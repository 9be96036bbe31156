"""Pictures of a few kilobytes that would keep a decoder busy for minutes, and ordinary ones that
look a little like them.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from unplug.core import DataError
from unplug.sdk.learning.data.decode import decode_bytes
from unplug.sdk.learning.data.picture_cost import (
    MAX_CHUNKS,
    MAX_SCANNED_PIXELS,
    MAX_SEGMENTS,
    check_scans,
)


def saved(kind: str, side: int = 64, **options: object) -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def progressive(scans: int, side: int = 64) -> bytes:
    """One colour, its last scan (14 bytes) so many times more."""
    buffer = io.BytesIO()
    Image.new("L", (side, side), 128).save(buffer, "JPEG", progressive=True)
    raw = buffer.getvalue()
    last, end = raw.rindex(b"\xff\xda"), len(raw) - 2
    return raw[:end] + raw[last:end] * scans + raw[end:]


def jpeg(part: bytes, count: int) -> bytes:
    raw = saved("JPEG")
    return raw[:2] + part * count + raw[2:]


def png(name: bytes, count: int) -> bytes:
    raw, part = saved("PNG"), struct.pack(">I", 0) + name + struct.pack(">I", zlib.crc32(name))
    return raw[:33] + part * count + raw[33:]


def bmp(width: int, height: int, packed: bytes) -> bytes:
    """Eight bits a pixel, run-length encoded."""
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(packed), 0, 0, 256, 0)
    return (
        struct.pack("<2sIHHI", b"BM", 1078 + len(packed), 0, 0, 1078) + info + bytes(1024) + packed
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (lambda: progressive(1 + MAX_SCANNED_PIXELS // 512**2, 512), "scans of 262,144 pixels"),
        (lambda: jpeg(b"\xff\xfe\x00\x02", MAX_SEGMENTS), "segments"),
        (lambda: jpeg(b"\xff", MAX_SEGMENTS), "segments"),
        (lambda: jpeg(b"\x00", MAX_SEGMENTS), "segments"),
        (lambda: png(b"prVt", MAX_CHUNKS), "chunks"),
        (lambda: bmp(2000, 2000, b"\x01\x07" * 10), "run-length encoded"),
        (lambda: bmp(2**31 - 1, -1, b"\x00\x01"), "run-length encoded"),
        (lambda: bmp(64, 64, b"\x01\x07" * 2**20), "run-length encoded"),
    ],
    ids=[
        "scans",
        "segments",
        "fill bytes",
        "junk",
        "chunks",
        "large run lengths",
        "a wide row",
        "many run lengths",
    ],
)
def test_what_would_keep_a_decoder_busy_is_refused_unopened(
    raw: Callable[[], bytes], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = raw()
    if "scans" not in words:  # the size decides how many are too many, and opening tells it
        monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(DataError, match=words) as caught:
        decode_bytes(content, "a", 32)
    assert "a: it " in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        lambda: saved("JPEG"),
        lambda: saved("JPEG", progressive=True),
        lambda: progressive(20),
        lambda: saved("WEBP"),
        lambda: jpeg(b"\xff\xe5\xff\xff" + bytes(65533), 20),
        lambda: png(b"prVt", 1000),
        lambda: saved("BMP"),
        lambda: bmp(64, 64, b"\x40\x07\x00\x00" * 64 + b"\x00\x01"),
        lambda: saved("PNG", 900, compress_level=0),
    ],
)
def test_ordinary_pictures_are_decoded(raw: Callable[[], bytes]) -> None:
    assert decode_bytes(raw(), "a", 32).shape == (32, 32, 3)


def test_the_video_behind_a_phones_picture_holds_no_scans() -> None:
    """By chance it holds their marker; the walk ends where the picture does."""
    behind = b"\xff\xda" * 2000
    check_scans(saved("JPEG") + behind, "a", 12_000_000)
    check_scans(jpeg(b"\xff\xe5\x0f\xa2" + behind[:4000], 1), "a", 12_000_000)
    with pytest.raises(DataError, match="more than 83 scans of 12,000,000 pixels"):
        check_scans(progressive(84), "a", 12_000_000)
