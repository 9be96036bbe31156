"""Decoding one image file that nobody vouches for: bounded size, typed errors, one resize rule."""

from __future__ import annotations

import contextlib
import hashlib
import io
import struct
import threading
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from unplug.core import DataError, read_regular, stand_in

from .picture_cost import check_scans, check_structure

MAX_FILE_BYTES = 64 * 2**20  # the largest photographs of today's phones stay below this
# phones stop at 50 megapixels for an ordinary picture; a decompression bomb has more
MAX_PIXELS = 64_000_000
LARGE_PIXELS = 16_000_000  # from here on a picture takes 64 MB to 500 MB while it is decoded
BAND_PIXELS = 1_000_000
# of them at once in this process, however many cores there are
_LARGE = threading.BoundedSemaphore(2)
SUFFIXES = frozenset({".jpg", ".jpeg", ".jfif", ".jpe", ".png", ".webp", ".bmp"})
FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
# What Pillow was seen to raise on damaged files; struct.error comes from EXIF blocks.
DECODER_ERRORS = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    struct.error,
    TypeError,
    KeyError,
    Image.DecompressionBombError,
)


def read_bytes(path: Path) -> bytes:
    """The bytes of an image file of bounded size, or a `DataError`."""
    return read_regular(path, max_bytes=MAX_FILE_BYTES, error=DataError, too_large="Shrink it")


def fingerprint_file(path: Path) -> bytes:
    """SHA-256 of the file's bytes."""
    return hashlib.sha256(read_bytes(path)).digest()


def decode_file(path: Path, size: int) -> NDArray[np.uint8]:
    """A centre-cropped square of an image file, in RGB.

    Args:
        path: JPEG, PNG, WebP or BMP; EXIF orientation is applied, alpha is dropped.
        size: side of the result in pixels.

    Returns:
        (size, size, 3) RGB.

    Raises:
        DataError: missing, truncated, not an image, too large, or made to keep a decoder busy.
    """
    return square(decode_upright(path), size)


def decode_bytes(raw: bytes, name: str, size: int) -> NDArray[np.uint8]:
    """Decodes as `decode_file` does, but an image file that is in memory; `name` names it in
    errors.
    """
    return square(decode_image(raw, name), size)


def decode_image(raw: bytes, name: str) -> Image.Image:
    """Decodes as `decode_upright` does, but an image file that is in memory; `name` names it in
    errors.
    """
    if len(raw) > MAX_FILE_BYTES:
        raise DataError(name, f"{len(raw)} bytes are too many for one image", "Shrink it")
    return _upright(raw, name)


def decode_upright(path: Path) -> Image.Image:
    """An image file in RGB, turned as its EXIF orientation says; `DataError` where it is broken or
    too large.
    """
    return _upright(read_bytes(path), str(path))


def _upright(raw: bytes, name: str) -> Image.Image:
    check_structure(raw, name)
    source = io.BytesIO(raw)
    try:
        with Image.open(source, formats=FORMATS) as image:
            pixels = image.width * image.height
            if pixels > MAX_PIXELS:
                raise DataError(
                    name, f"{image.width}x{image.height} pixels are too many", "Shrink it"
                )
            check_scans(raw, name, pixels)
            with _LARGE if pixels > LARGE_PIXELS else contextlib.nullcontext():
                ImageOps.exif_transpose(image, in_place=True)
                eight = _eight_bits(image)
                return eight if eight.mode == "RGB" else eight.convert("RGB")
    except DECODER_ERRORS as error:
        # Pillow names what it was given, which has an address
        seen = str(error).replace(str(source), Path(name).name)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else seen
        told = stand_in(raw) or (f"not a readable image ({reason})", "Replace or remove it")
        raise DataError(name, *told) from error


def _eight_bits(image: Image.Image) -> Image.Image:
    """Pillow's own conversion of 16-bit grey clips at 255, which leaves a white picture; float64 in
    bands, not as a whole.
    """
    image.load()
    if not image.mode.startswith("I"):
        return image
    grey_HW = np.empty((image.height, image.width), np.uint8)
    rows = max(1, BAND_PIXELS // image.width)
    for top in range(0, image.height, rows):
        band = image.crop((0, top, image.width, min(top + rows, image.height)))
        grey_HW[top : top + rows] = (
            (np.asarray(band, dtype=np.float64) / 257.0).round().clip(0, 255)
        )
    return Image.fromarray(grey_HW)


def square(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """The centre square of an image, resized to (size, size, 3)."""
    return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR), dtype=np.uint8)
