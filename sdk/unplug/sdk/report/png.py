"""Thumbnails from a file that anybody may have written: only small, whole PNG files get into a
page.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct

from unplug.core import ReportError

MAX_PNG_BYTES = 64 * 2**10
MAX_SIDE = 512
MAX_THUMBNAILS = 64
# of all thumbnails together: as base64 they then leave room for the plots in a 2 MB page
MAX_TOTAL_BYTES = 2**20
_HEADER = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_FIX = "Write it again with thumbnails of at most 64 KiB and 512 pixels"


def checked_png(text: str, where: str) -> bytes:
    """The bytes of one thumbnail.

    Args:
        text: base64.
        where: names it in an error.

    Raises:
        ReportError: not base64, too large, or not a whole PNG file.
    """
    if len(text) > MAX_PNG_BYTES * 4 // 3 + 4:
        raise ReportError(where, f"the picture is larger than {MAX_PNG_BYTES} bytes", _FIX)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ReportError(where, f"the picture is not base64 ({error})", _FIX) from error
    # 8 bytes of signature, then the header: length, name, 13 bytes, checksum
    if len(data) < 33 or not data.startswith(_HEADER):
        raise ReportError(where, "the picture is not a PNG file", _FIX)
    width, height = struct.unpack(">II", data[16:24])
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise ReportError(where, f"the picture has {width} x {height} pixels", _FIX)
    _verify(data, where)
    return data


def _verify(data: bytes, where: str) -> None:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            image.verify()
    except (
        OSError,
        SyntaxError,
        ValueError,
    ) as error:  # Pillow raises SyntaxError for a broken chunk
        raise ReportError(where, f"the picture is damaged ({error})", _FIX) from error


def data_uri(data: bytes) -> str:
    """A checked PNG as the address of an ``img``."""
    return f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"
