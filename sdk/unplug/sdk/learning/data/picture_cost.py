"""What a picture file would make a decoder do, told from its headers: a few bytes a step can take
minutes and gigabytes.

Pillow keeps a Python object for every segment of a JPEG file and every private chunk of a PNG file,
libjpeg walks over the whole picture for every scan (14 bytes), and Pillow unpacks run-length
encoded BMP files in Python.
"""

from __future__ import annotations

import re

from unplug.core import DataError

MAX_SEGMENTS = 10_000  # of JPEG; 64 MiB of profiles and notes, 64 KiB each, are 1,024
MAX_CHUNKS = 20_000  # of PNG; 64 MiB in pieces of 4 KiB are 16,384
# scans times pixels: a progressive picture of 64 megapixels has about ten, 3 ns a pixel each
MAX_SCANNED_PIXELS = 1_000_000_000
MAX_RUN_LENGTH_BYTES, MAX_RUN_LENGTH_PIXELS = 2**20, 2**20
JPEG, PNG, BMP = b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"BM"
SCAN, END = 0xDA, 0xD9
_NEXT = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.DOTALL)
"""A marker within or after the numbers of a scan: not an escaped 255, not a restart."""


def check_structure(raw: bytes, name: str) -> None:
    """Refuses, before a decoder opens it, a file of more parts than pictures have.

    Args:
        raw: JPEG, PNG, BMP; others are left to their decoder, which is in C and bounded by their
            pixels.
        name: the name of the file, for the message.

    Raises:
        DataError: it would take a decoder longer than its size and pixels explain.
    """
    if raw.startswith(JPEG) and not _few_segments(raw):
        raise DataError(
            name, f"it has more than {MAX_SEGMENTS} segments", "Save it again with another program"
        )
    if raw.startswith(PNG) and not _few_chunks(raw):
        raise DataError(
            name, f"it has more than {MAX_CHUNKS} chunks", "Save it again with another program"
        )
    if raw.startswith(BMP) and _run_lengths(raw):
        raise DataError(name, "it is a large run-length encoded BMP", "Save it as PNG")


def check_scans(raw: bytes, name: str, pixels: int) -> None:
    """Refuses a JPEG file whose scans would walk over its pixels more often than any encoder makes
    them.

    Args:
        raw: the file; others than JPEG have no scans.
        name: the name of the file, for the message.
        pixels: the number of the picture's pixels.

    Raises:
        DataError: scans times pixels are more than `MAX_SCANNED_PIXELS`.
    """
    most = max(1, MAX_SCANNED_PIXELS // max(1, pixels))
    # A phone's video after the picture may hold these two bytes by chance: then the segments are
    # walked.
    if raw.startswith(JPEG) and raw.count(bytes([0xFF, SCAN])) > most and _scans(raw, most) > most:
        raise DataError(
            name,
            f"it has more than {most} scans of {pixels:,} pixels",
            "Save it again with another program",
        )


def _few_segments(raw: bytes) -> bool:
    """Whether the first scan is reached in few steps, each as Pillow takes it: a segment, or a byte
    between segments.
    """
    at = 2
    for _ in range(MAX_SEGMENTS):
        if at + 4 > len(raw) or (raw[at], raw[at + 1]) == (0xFF, SCAN):
            return True  # the file ends, or the pixels begin here
        if raw[at] != 0xFF or raw[at + 1] in (0x00, 0xFF):  # what Pillow skips
            at += 1
        elif 0xD0 <= raw[at + 1] <= END or raw[at + 1] == 0x01:  # without a length
            at += 2
        else:
            at += 2 + int.from_bytes(raw[at + 2 : at + 4], "big")
    return False


def _scans(raw: bytes, most: int) -> int:
    """Scans of the picture itself, at most one more than `most`."""
    at, found = 2, 0
    while found <= most and (marker := _NEXT.search(raw, at)) is not None and marker[1][0] != END:
        found += marker[1][0] == SCAN
        at = marker.start() + 2 + int.from_bytes(raw[marker.end() : marker.end() + 2], "big")
    return found


def _few_chunks(raw: bytes) -> bool:
    at = len(PNG)
    for _ in range(MAX_CHUNKS):
        if at >= len(raw):
            return True
        at += 12 + int.from_bytes(raw[at : at + 4], "big")
    return False


def _run_lengths(raw: bytes) -> bool:
    """Whether it is a BMP file of compression 1 or 2 that is not small."""
    width, height = (
        abs(int.from_bytes(raw[at : at + 4], "little", signed=True)) for at in (18, 22)
    )
    small = len(raw) <= MAX_RUN_LENGTH_BYTES and width * height <= MAX_RUN_LENGTH_PIXELS
    return (
        int.from_bytes(raw[30:34], "little") in (1, 2)
        and int.from_bytes(raw[14:18], "little") >= 40
        and not small
    )
