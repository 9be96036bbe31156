"""Pictures as arrays: what is accepted, the centre square, and windows of a picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from unplug.core import DataError, InputError

Picture = NDArray[np.uint8]
MIN_SIDE = 16  # below, no landmarker finds anything and an edge map is noise
MAX_SIZE = 4096


@dataclass(frozen=True, kw_only=True)
class PictureWindow:
    """A part of a picture, in pixels of the picture; pixel i covers [i, i + 1)."""

    left: float
    top: float
    width: float
    height: float

    def holds(self, point_2: NDArray[np.floating]) -> bool:
        """Whether a point (x, y) lies inside."""
        x, y = float(point_2[0]) - self.left, float(point_2[1]) - self.top
        return 0 <= x < self.width and 0 <= y < self.height


def checked(image_HWC: Picture) -> Picture:
    """The picture itself, contiguous.

    Raises:
        DataError: not (H, W, 3) of uint8, or a side under 16 pixels.
    """
    if image_HWC.ndim != 3 or image_HWC.shape[2] != 3 or image_HWC.dtype != np.uint8:
        why = (
            f"it has the shape {image_HWC.shape} and the type {image_HWC.dtype}, not (height, "
            "width, 3) of uint8"
        )
        raise DataError("picture", why, "Convert it to 8-bit RGB")
    height, width = image_HWC.shape[:2]
    if min(height, width) < MIN_SIDE:
        raise DataError(
            "picture",
            f"{width}x{height} pixels are too few",
            f"Give one of {MIN_SIDE} pixels or more a side",
        )
    return np.ascontiguousarray(image_HWC)


def checked_size(size: int) -> int:
    """The side of a condition.

    Raises:
        InputError: not from 16 to 4096.
    """
    if not MIN_SIDE <= size <= MAX_SIZE:
        raise InputError(f"size {size}", "out of range", f"Use {MIN_SIDE} to {MAX_SIZE}")
    return size


def whole(image_HWC: Picture) -> PictureWindow:
    """The box that holds all of a picture, for conditions that crop nothing."""
    return PictureWindow(
        left=0.0, top=0.0, width=float(image_HWC.shape[1]), height=float(image_HWC.shape[0])
    )


def square_window(image_HWC: Picture) -> PictureWindow:
    """The centre square of a picture, the one that `centre_square` shows.

    Example:
        >>> square_window(np.zeros((40, 65, 3), np.uint8))
        PictureWindow(left=12.5, top=0.0, width=40.0, height=40.0)
    """
    height, width = image_HWC.shape[:2]
    side = float(min(height, width))
    return PictureWindow(left=(width - side) / 2, top=(height - side) / 2, width=side, height=side)


def centre_square(image_HWC: Picture, size: int) -> Picture:
    """The centre square of a picture, resized to (size, size, 3), as `unplug.sdk.learning.data`
    shows it to networks.
    """
    fitted = ImageOps.fit(
        Image.fromarray(checked(image_HWC)), (checked_size(size), size), Image.Resampling.BILINEAR
    )
    return np.asarray(fitted, dtype=np.uint8)
