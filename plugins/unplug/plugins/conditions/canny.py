"""Edges by OpenCV's Canny detector, white on black.

Reference: Canny, "A Computational Approach to Edge Detection", IEEE TPAMI 8(6), 1986.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unplug.core import InputError

from .condition import OPENCV, PILLOW, Condition, Parallel
from .picture import Picture, checked


@dataclass(frozen=True, kw_only=True)
class Canny(Condition):
    """Edges where the gradient g = |gx| + |gy| (Sobel, 3x3) of the luminance is a ridge.

    A ridge counts where g > `high`, and where g > `low` and it is connected to one that does.

    Args:
        low, high: thresholds in grey levels, 0 <= low <= high; the usual pair is 100 and 200.

    Raises:
        InputError: thresholds out of order or out of range.

    Example:
        >>> half = np.zeros((32, 32, 3), np.uint8)
        >>> half[:, 16:] = 255
        >>> int((Canny()(half)[:, :, 0] == 255).any(axis=0).sum())
        1
    """

    low: float = 100.0
    high: float = 200.0

    kind: ClassVar[str] = "canny"
    description: ClassVar[str] = "edges by OpenCV's Canny detector, white on black"
    parallel: ClassVar[Parallel] = "thread"
    packages: ClassVar[tuple[tuple[str, ...], ...]] = (OPENCV, PILLOW)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.high) and 0.0 <= self.low <= self.high):
            raise InputError(
                f"canny low={self.low} high={self.high}", "out of range", "Use 0 <= low <= high"
            )

    def __call__(self, image_HWC: Picture) -> Picture:
        """(H, W, 3), 255 on edges and 0 elsewhere. Raises `DataError` if it is not a picture."""
        import cv2

        grey_HW = cv2.cvtColor(checked(image_HWC), cv2.COLOR_RGB2GRAY)
        edges_HW = cv2.Canny(grey_HW, self.low, self.high)
        return np.repeat(edges_HW[:, :, None], 3, axis=2)
