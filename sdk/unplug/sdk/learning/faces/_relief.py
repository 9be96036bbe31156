"""Soft shading of the head: a smooth relief of bumps on an ellipsoid, lit by one lamp.

Computed on a coarse grid and enlarged, since nothing in it is sharp. The shade runs from 0 (dark)
to 1 (light).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import cv2
import numpy as np

from ._raster import F32

if TYPE_CHECKING:
    from ._cues import AgeCues
    from ._types import FaceParams, Light
    from ._view import View

# Cells a side: for small canvases, and for large ones.
_SMALL_GRID, _LARGE_GRID, _SMALL_CANVAS = 48, 80, 200
_WRAP = 0.35


def _cells(view: View) -> int:
    return _SMALL_GRID if view.size <= _SMALL_CANVAS else _LARGE_GRID


@lru_cache(maxsize=4)
def _grid(cells: int) -> F32:
    """(G², 2) positions of the cell centres, as fractions of the side."""
    at = (np.arange(cells, dtype=np.float32) + 0.5) / cells
    out: F32 = np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2).astype(np.float32, copy=False)
    return out


def slopes(height: F32, per_unit: float) -> tuple[F32, F32]:
    """Central differences along x and y, with `per_unit` cells per unit of length; 0 at the border."""
    gx, gy = np.zeros_like(height), np.zeros_like(height)
    k = np.float32(0.5 * per_unit)
    np.multiply(height[:, 2:] - height[:, :-2], k, out=gx[:, 1:-1])
    np.multiply(height[2:] - height[:-2], k, out=gy[1:-1])
    return gx, gy


def light_vector(light: Light) -> tuple[float, float, float]:
    """Unit vector to the lamp: x right, y down, z to the viewer."""
    a, e = math.radians(light.azimuth), math.radians(light.elevation)
    return (math.sin(a) * math.cos(e), -math.sin(e), math.cos(a) * math.cos(e))


def blobs(view: View, spots: F32) -> F32:
    """(G², B) Gaussians. spots_B5: x, y, z in head units, radius across, radius down."""
    centre = view.project(spots[:, :3]) / view.size
    k = view.size / view.unit
    narrow = math.cos(view.yaw) * 0.5 + 0.5
    c, s = math.cos(view.roll) * k, math.sin(view.roll) * k
    a = (1.0 / (1.41421 * spots[:, 3] * narrow)).astype(np.float32)
    b = (1.0 / (1.41421 * spots[:, 4])).astype(np.float32)
    g = _grid(_cells(view))
    # Both head-plane coordinates of every cell, relative to every blob, in blob radii.
    u = (g @ np.stack([c * a, s * a]) - (centre[:, 0] * c + centre[:, 1] * s) * a).astype(
        np.float32, copy=False
    )
    v = (g @ np.stack([-s * b, c * b]) - (centre[:, 1] * c - centre[:, 0] * s) * b).astype(
        np.float32, copy=False
    )
    np.multiply(u, u, out=u)
    np.multiply(v, v, out=v)
    u += v
    # Bounded, since the denormal numbers of a far Gaussian's tail are ten times as slow to
    # multiply.
    np.minimum(u, 40.0, out=u)
    np.negative(u, out=u)
    result: F32 = cv2.exp(u).astype(np.float32, copy=False)
    return result


def _bumps(params: FaceParams, cues: AgeCues, view: View) -> F32:
    """(B, 6) relief: x, y, z, radius across, radius down, height."""
    p, low = view.shape.points, view.shape.lower
    who = params.identity
    smile = max(0.0, params.expression.smile)
    tip, base, mouth = p["tip"][0], p["base"][0], p["lips"]
    out = 0.092 * (1.0 - 0.35 * cues.baby)
    w = 0.11 * who.nose_width * (0.4 + 0.6 * cues.growth)
    my = float(mouth[3, 1] + mouth[8, 1]) / 2
    apple = 0.05 + 0.05 * smile + 0.05 * cues.baby - 0.02 * cues.hollow
    rows = [
        (0, 0.04, 0.92, 0.075, 0.2, out * 0.5),
        (0, tip[1] * 0.55, 1.0, 0.08, 0.17, out * 1.1),
        (0, tip[1] - 0.01, 1.15, w, 0.095, out * 1.5),
        (p["alae"][0, 0] * 0.72, base[1] - 0.06, 0.98, 0.07, 0.065, 0.03),
        (p["alae"][1, 0] * 0.72, base[1] - 0.06, 0.98, 0.07, 0.065, 0.03),
        (0, my, 0.95, 0.26, 0.2, 0.05),
        (0, mouth[8, 1] + 0.13, 0.9, 0.2, 0.05, -0.028),
        (0, view.shape.chin[1] - 0.2, 0.9, 0.17 * who.chin, 0.14, 0.05),
        (0, -0.72, 0.85, 0.5, 0.3, 0.05),
        (0, -0.2, 0.9, 0.2, 0.1, 0.018 * cues.mature),
    ]
    for s in (-1.0, 1.0):
        eye = 0.41 * who.eye_gap * s
        rows += [
            (eye, 0.0, 0.75, 0.2, 0.1, -0.05 - 0.02 * cues.hollow),
            (eye, 0.0, 0.75, 0.13, 0.075, 0.025),
            (eye * 1.1, -0.3, 0.78, 0.26, 0.085, 0.02 + 0.012 * cues.mature),
            (s * 0.56, (0.46 - 0.05 * smile) * low, 0.7, 0.21, 0.17, apple),
            (s * 0.62, 0.8 * low, 0.5, 0.17, 0.22, 0.04 * cues.baby - 0.075 * cues.hollow),
            (s * 0.82, -0.42, 0.5, 0.13, 0.25, -0.02 - 0.05 * cues.hollow),
            (s * 0.6, 1.16 * low, 0.45, 0.15, 0.12, 0.055 * cues.sag),
        ]
    return np.array(rows, np.float32)


def _normals(params: FaceParams, cues: AgeCues, view: View) -> tuple[F32, F32, F32]:
    """Unit normals (x, y, z), each (G, G)."""
    bumps = _bumps(params, cues, view)
    n = _cells(view)
    height = (blobs(view, bumps[:, :5]) @ bumps[:, 5]).reshape(n, n)
    gx, gy = slopes(height, n * view.unit / view.size)
    left, right = view.sides(view.shape.rows)
    half = float(np.hypot(*(right - left).T).max()) / 2
    middle = (left[4] + right[4]) / 2
    crown = view.project(view.shape.top[None])[0]
    tall = float(np.hypot(*(view.chin - crown))) / 2
    centre = (crown + view.chin) / 2 * np.float32(0.6) + middle * np.float32(0.4)
    rel = (_grid(n) * np.float32(view.size) - centre).reshape(n, n, 2)
    c, s = math.cos(view.roll), math.sin(view.roll)
    x = (rel[..., 0] * c + rel[..., 1] * s) / (1.04 * half)
    y = (rel[..., 1] * c - rel[..., 0] * s) / (1.1 * tall)
    # Squared, so that the middle of the face is flatter than an egg's.
    x, y = x * np.sqrt(np.abs(x)), y * np.sqrt(np.abs(y))
    nx, ny = x * c - y * s, x * s + y * c
    nz = np.sqrt(np.maximum(1.0 - nx * nx - ny * ny, 0.06))
    nx, ny = nx - 1.25 * gx, ny - 1.25 * gy
    length = np.sqrt(nx * nx + ny * ny + nz * nz)
    return nx / length, ny / length, nz / length


def shade_head(params: FaceParams, cues: AgeCues, view: View) -> F32:
    """(size, size) shade of bare skin over the whole canvas (meaningful within the head)."""
    nx, ny, nz = _normals(params, cues, view)
    lx, ly, lz = light_vector(params.light)
    k = params.light.strength
    lit = np.maximum((nx * lx + ny * ly + nz * lz + _WRAP) / (1.0 + _WRAP), 0.0)
    # Half vector between lamp and viewer, for the sheen.
    hx, hy, hz = lx, ly, lz + 1.0
    h = math.sqrt(hx * hx + hy * hy + hz * hz)
    gloss = np.maximum((nx * hx + ny * hy + nz * hz) / h, 0.0)
    gloss8 = np.square(np.square(np.square(gloss)))
    sheen = gloss8 * gloss8 * np.square(np.square(gloss))
    rim = np.square(1.0 - nz)
    shade = 0.70 + k * (0.50 * (lit - 0.78) + 0.13 * sheen * (1.0 - 0.35 * cues.rough)) - 0.12 * rim
    big: F32 = cv2.resize(
        shade.astype(np.float32), (view.size, view.size), interpolation=cv2.INTER_LINEAR
    ).astype(np.float32, copy=False)
    return big


def blush(params: FaceParams, cues: AgeCues, view: View) -> F32:
    """(size, size) redness: cheeks, nose, and the thin skin around the eyes."""
    low = view.shape.lower
    young = 1.0 - 0.8 * cues.dull
    rows = np.array(
        [
            (-0.6, 0.5 * low, 0.66, 0.22, 0.17, 0.55 * young + 0.25 * cues.baby),
            (0.6, 0.5 * low, 0.66, 0.22, 0.17, 0.55 * young + 0.25 * cues.baby),
            (0.0, 0.5 * low, 1.1, 0.12, 0.12, 0.35 + 0.2 * cues.rough),
            (0.0, 1.3 * low, 0.85, 0.2, 0.1, 0.2),
            (-0.41, 0.13, 0.74, 0.17, 0.07, 0.12 + 0.6 * cues.bags),
            (0.41, 0.13, 0.74, 0.17, 0.07, 0.12 + 0.6 * cues.bags),
        ],
        np.float32,
    )
    n = _cells(view)
    red = (blobs(view, rows[:, :5]) @ rows[:, 5]).reshape(n, n)
    big: F32 = cv2.resize(red, (view.size, view.size), interpolation=cv2.INTER_LINEAR).astype(
        np.float32, copy=False
    )
    return big
