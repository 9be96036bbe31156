"""Small drawing tools over OpenCV: smooth outlines, soft masks, blending.

Legend: points_N2 are x, y in canvas pixels, where 0 is the outer edge of the first pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
I32 = NDArray[np.int32]
Colour = tuple[float, float, float]

# Fixed-point bits of OpenCV's sub-pixel coordinates.
_SHIFT = 4
_ONE = 1 << _SHIFT


@lru_cache(maxsize=256)
def _basis(n: int, per: int, closed: bool) -> F32:
    """Matrix (M, n) that turns n control points into a Catmull-Rom curve."""
    segments = n if closed else n - 1
    t = np.arange(per, dtype=np.float64) / per
    weights = 0.5 * np.stack(
        [-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3],
        axis=1,
    )
    out = np.zeros((segments * per + (0 if closed else 1), n))
    for s in range(segments):
        for k in range(4):
            i = s - 1 + k
            i = i % n if closed else min(max(i, 0), n - 1)
            out[s * per : (s + 1) * per, i] += weights[:, k]
    if not closed:
        out[-1, n - 1] = 1.0
    return out.astype(np.float32)


def curve(points: F32, per: int = 6, *, closed: bool = False) -> F32:
    """Smooth curve through (..., N, D) control points."""
    result: F32 = _basis(points.shape[-2], per, closed) @ points
    return result


def fixed(points: F32) -> I32:
    """Continuous coordinates to OpenCV's fixed point (whose integers are pixel centres)."""
    out: I32 = np.rint((points - 0.5) * _ONE).astype(np.int32)
    return out


def ribbon(path: F32, widths: F32) -> F32:
    """Outline of a brush stroke along (N, 2) with (N,) full widths."""
    d = np.empty_like(path)
    d[1:-1] = path[2:] - path[:-2]
    d[0], d[-1] = path[1] - path[0], path[-1] - path[-2]
    half = np.empty_like(path)
    k = 0.5 * widths / np.maximum(np.hypot(d[:, 0], d[:, 1]), 1e-6)
    half[:, 0], half[:, 1] = -d[:, 1] * k, d[:, 0] * k
    return np.concatenate([path + half, (path - half)[::-1]])


@lru_cache(maxsize=64)
def taper(n: int, start: float = 0.12, end: float = 0.12) -> F32:
    """Widths (n,) of a stroke that swells in its middle; larger `start` and `end` leave blunter
    ends.
    """
    return np.sin(np.linspace(start, np.pi - end, n)).astype(np.float32)


def fill(target: U8, outline: F32, value: Colour | float) -> None:
    """Fill an outline, anti-aliased, in place."""
    cv2.fillPoly(target, [fixed(outline)], value, cv2.LINE_AA, _SHIFT)


def strokes(
    target: U8,
    paths: Sequence[F32] | F32,
    value: Colour | float,
    width: float = 1.0,
    *,
    closed: bool = False,
) -> None:
    """Draw anti-aliased lines in place; widths below a pixel become one pixel."""
    lines = list(fixed(paths)) if isinstance(paths, np.ndarray) else [fixed(p) for p in paths]
    cv2.polylines(target, lines, closed, value, max(1, round(width)), cv2.LINE_AA, _SHIFT)


def dot(target: U8, centre: F32, radius: float, value: Colour | float) -> None:
    """Fill a disc, anti-aliased, in place."""
    at = fixed(centre)
    cv2.circle(
        target,
        (int(at[0]), int(at[1])),
        max(1, round(radius * _ONE)),
        value,
        -1,
        cv2.LINE_AA,
        _SHIFT,
    )


def oval(
    target: U8, centre: F32, radii: tuple[float, float], angle: float, value: Colour | float
) -> None:
    """Fill an ellipse (angle in degrees, clockwise in the image), in place."""
    at = fixed(centre)
    axes = (max(1, round(radii[0] * _ONE)), max(1, round(radii[1] * _ONE)))
    cv2.ellipse(
        target, (int(at[0]), int(at[1])), axes, angle, 0, 360, value, -1, cv2.LINE_AA, _SHIFT
    )


def mask_of(size: int, outline: F32) -> U8:
    """A (size, size) mask, 255 inside an outline."""
    out = np.zeros((size, size), np.uint8)
    fill(out, outline, 255)
    return out


def soft(mask: U8, sigma: float) -> U8:
    """Blur with about a Gaussian of `sigma` pixels; wide ones by two box filters, whose cost does
    not grow.
    """
    if sigma < 0.3:
        return mask
    if sigma < 2.5:
        return cv2.GaussianBlur(mask, (0, 0), sigma).astype(np.uint8, copy=False)
    k = 2 * round(sigma * 1.22) + 1
    return cv2.blur(cv2.blur(mask, (k, k)), (k, k)).astype(np.uint8, copy=False)


def bounds(points: F32, size: int, margin: float = 2.0) -> tuple[slice, slice]:
    """Rows and columns that hold the points, clipped to the canvas (at least one pixel)."""
    x0, y0 = np.floor(points.min(axis=0) - margin).astype(int)
    x1, y1 = np.ceil(points.max(axis=0) + margin).astype(int)
    x0, y0 = min(max(x0, 0), size - 1), min(max(y0, 0), size - 1)
    return slice(y0, max(min(y1, size), y0 + 1)), slice(x0, max(min(x1, size), x0 + 1))


def paint(
    target: U8,
    mask: U8,
    colour: Colour | U8 | F32,
    opacity: float = 1.0,
    roi: tuple[slice, slice] | None = None,
) -> None:
    """Blend a colour or a layer into the target through a mask, in place.

    The mask covers the canvas; a layer (H, W, 3) covers the canvas or just the region.
    """
    where = roi if roi is not None else (slice(None), slice(None))
    view = target[where]
    a = mask[where].astype(np.float32) * np.float32(opacity / 255.0)
    layer = np.asarray(colour, np.float32)
    if layer.ndim == 3 and layer.shape != view.shape:
        layer = layer[where]
    base = view.astype(np.float32)
    base += (layer - base) * a[..., None]
    view[...] = base + 0.5


def shaded(table: U8, shade: F32) -> U8:
    """Colours (H, W, 3) of a shade map (H, W), 0..1, through a (256, 3) table."""
    at = (shade * np.float32(255.0)).clip(0, 255).astype(np.uint8)
    return cv2.LUT(cv2.merge((at, at, at)), table[None]).astype(np.uint8, copy=False)


def ramp_table(stops: Sequence[tuple[float, Colour]]) -> U8:
    """A (256, 3) table from shade (0 dark, 255 light) to colour, through (position 0..1, colour)
    stops.
    """
    at = np.linspace(0.0, 1.0, 256)
    xs = [s[0] for s in stops]
    return (
        np.stack([np.interp(at, xs, [s[1][c] for s in stops]) for c in range(3)], axis=1)
        .round()
        .clip(0, 255)
        .astype(np.uint8)
    )
