"""Pictures as a network takes them."""

from __future__ import annotations

import numpy as np

from unplug.core import Array, TensorSpec


def scaled(pixels_NHWC: Array, tensor: TensorSpec) -> Array:
    """Pixels of 0 to 255 as the numbers (N, C, H, W) of an input, in its range."""
    low, high = tensor.range or (0.0, 1.0)
    unit_NCHW = np.ascontiguousarray(pixels_NHWC.astype(np.float32).transpose(0, 3, 1, 2)) / np.float32(255.0)
    return unit_NCHW if (low, high) == (0.0, 1.0) else unit_NCHW * np.float32(high - low) + np.float32(low)
