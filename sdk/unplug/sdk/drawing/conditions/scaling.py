"""Pixels as networks take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import IOSpec, TensorSpec


def takes_pictures(iospec: IOSpec) -> bool:
    """Whether a model takes nothing but one square RGB picture, channels first or last."""
    sides = dict(zip(iospec.inputs[0].layout, iospec.inputs[0].shape, strict=True))
    square = sorted(sides) == ["C", "H", "N", "W"] and sides["H"] == sides["W"]
    return len(iospec.inputs) == 1 and square and sides["C"] == 3


def scaled(pixels_NHWC: NDArray[Any], tensor: TensorSpec) -> NDArray[np.float32]:
    """Pixels of 0 to 255 in the layout and range of an image input: low + (high - low) x / 255.

    Example:
        >>> spec = TensorSpec(name="x", shape=(1, 1, 1, 2), layout="NCHW", range=(-1.0, 1.0))
        >>> scaled(np.array([[[[0], [255]]]], np.uint8), spec).tolist()
        [[[[-1.0, 1.0]]]]
    """
    low, high = tensor.range or (0.0, 1.0)
    axes = ["NHWC".index(axis) for axis in tensor.layout]
    laid = np.ascontiguousarray(pixels_NHWC.transpose(axes))
    unit = laid.astype(np.float32) / np.float32(255.0)
    # A range of 0 to 1 asks for no second rounding.
    return unit if (low, high) == (0.0, 1.0) else unit * np.float32(high - low) + np.float32(low)
