"""Decoding one image file that nobody vouches for: bounded size, typed errors, one resize rule."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from unplug.plugins.errors import DataError

MAX_FILE_BYTES = 64 * 2**20  # the largest photographs of today's phones stay below this
MAX_PIXELS = 100_000_000  # 100 megapixels; a decompression bomb has more
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
FORMATS = ("JPEG", "PNG", "WEBP", "BMP")


def read_bytes(path: Path) -> bytes:
    """The bytes of an image file of bounded size, or a `DataError`."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise DataError(str(path), f"{size} bytes are too many for one image", "Shrink it")
        return path.read_bytes()
    except OSError as error:
        raise DataError(str(path), error.strerror or str(error), "Check the file and its permissions") from error


def fingerprint_file(path: Path) -> bytes:
    """SHA-256 of the file's bytes."""
    return hashlib.sha256(read_bytes(path)).digest()


def decode_file(path: Path, size: int) -> NDArray[np.uint8]:
    """A centre-cropped square of an image file, in RGB.

    Args:
        path: JPEG, PNG, WebP or BMP; EXIF orientation is applied, alpha is dropped onto black.
        size: side of the result in pixels.

    Returns:
        (size, size, 3) RGB.

    Raises:
        DataError: missing, truncated, not an image, or too large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise DataError(str(path), f"{image.width}x{image.height} pixels are too many", "Shrink it")
                upright = ImageOps.exif_transpose(image).convert("RGB")
                square = ImageOps.fit(upright, (size, size), Image.Resampling.BILINEAR)
                return np.asarray(square, dtype=np.uint8)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, EOFError) as error:
        reason = str(error).replace(str(path), path.name) or type(error).__name__
        raise DataError(str(path), f"not a readable image ({reason})", "Replace or remove it") from error
