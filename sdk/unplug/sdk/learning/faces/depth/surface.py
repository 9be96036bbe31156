"""Depth of surfaces under a view: where the ray of each cell of a coarse grid meets slices of a
head, or a plane.

Depth is t, the coordinate towards the camera after the head has turned about its pivot, in head
units (half the width of the head); larger is nearer. A cell at (u, v) head units from the view's
centre sees the points (u (D - t) / D, v (D - t) / D, t), where D is the distance of the camera.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import cv2
import numpy as np
from scipy.ndimage import map_coordinates

from .._raster import F32
from .._relief import _bumps, _cells, _grid, blobs
from .._view import _DISTANCE, _PIVOT

if TYPE_CHECKING:
    from .._cues import AgeCues
    from .._types import FaceParams
    from .._view import View

# Depths between which every surface lies; halved so often, what is left is a thousandth of a head
# unit.
_FAR, _NEAR, _HALVINGS = -2.4, 2.2, 12
# Entries of the table that slices are looked up in.
_TABLE = 512


class Rays:
    """The rays of one view, one a cell of the grid that the picture's own relief is computed on.

    Args:
        view: the head in its pose.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.cells = _cells(view)
        at = (_grid(self.cells) * np.float32(view.size) - view.centre) / np.float32(view.unit)
        self.u, self.v = at[:, 0], at[:, 1]

    def full(self, field_G: F32) -> F32:
        """A field (cells²,) on the whole canvas (size, size)."""
        grid, side = field_G.reshape(self.cells, self.cells), (self.view.size, self.view.size)
        big: F32 = cv2.resize(grid, side, interpolation=cv2.INTER_LINEAR).astype(
            np.float32, copy=False
        )
        return big

    def sample(self, field_G: F32, points_N2: F32) -> F32:
        """A field's values (N,) at positions on the canvas, linear between cells."""
        at = points_N2 * np.float32(self.cells / self.view.size) - np.float32(0.5)
        values: F32 = map_coordinates(
            field_G.reshape(self.cells, self.cells), at.T[::-1], order=1, mode="nearest"
        )
        return values

    def slices(self, rows_K4: F32) -> F32:
        """Depth (cells²,) of a body of horizontal elliptic slices (y, half width, centre z, half
        depth), linear in between.

        Outside the body it goes on as deep as its edge, so that a soft or bumpy outline has a depth
        too.
        """
        view = self.view
        y0, step, table = self._turned_slices(rows_K4)
        low, high = np.full_like(self.u, _FAR), np.full_like(self.u, _NEAR)
        for _ in range(_HALVINGS):
            t = 0.5 * (low + high)
            k = 1.0 - t / _DISTANCE
            x, y, z = np.stack([self.u * k, self.v * k, t], axis=1).dot(view._after_yaw).T
            index = np.clip((y - y0) / step, 0, _TABLE - 1).astype(np.intp)
            centre_x, radius, centre_z, bend, half = table[:, index]
            across = np.clip((x - centre_x) / radius, -1.0, 1.0)
            behind = centre_z + across * bend + np.sqrt(1.0 - across * across) * half > z
            low, high = np.where(behind, t, low), np.where(behind, high, t)
        return (0.5 * (low + high)).astype(np.float32)

    def _turned_slices(self, rows_K4: F32) -> tuple[float, float, F32]:
        """First y, step and table: centre x, half width, centre z, lean and half depth of every
        slice after the yaw.

        As in `View.sides`: the front at the share s across a slice is at x = centre_x + s r and
        z = centre_z + s bend + sqrt(1 - s²) h.
        """
        y = np.linspace(rows_K4[0, 0], rows_K4[-1, 0], _TABLE)
        w, zc, d = (np.interp(y, rows_K4[:, 0], rows_K4[:, column]) for column in (1, 2, 3))
        zc, c, s = zc - _PIVOT[2], math.cos(self.view.yaw), math.sin(self.view.yaw)
        r = np.hypot(w * c, d * s)
        table = np.stack([zc * s, r, zc * c, (d**2 - w**2) * s * c / r, w * d / r]).astype(
            np.float32
        )
        return float(y[0] - _PIVOT[1]), float(y[1] - y[0]), table

    def plane(self, z: float) -> F32:
        """Depth (cells²,) of the plane at z of the head's own frame, which turns with the head."""
        a, b, c = (float(value) for value in self.view.rotation[:, 2])
        q = a * self.u + b * self.v
        depth: F32 = ((z - float(_PIVOT[2]) - q) / (c - q / np.float32(_DISTANCE))).astype(
            np.float32, copy=False
        )
        return depth

    def flat(self, points_N3: F32) -> F32:
        """Depth (cells²,) of the plane that fits some points of the head best, between their
        nearest and furthest.
        """
        depth = depth_of(self.view, points_N3)
        where = self.view.project(points_N3)
        middle, mean = where.mean(axis=0), depth.mean()
        fit = np.linalg.lstsq(where - middle, depth - mean, rcond=1e-3)[0].astype(np.float32)
        at = _grid(self.cells) * np.float32(self.view.size)
        plane: F32 = (
            ((at - middle) @ fit + mean)
            .clip(depth.min(), depth.max())
            .astype(np.float32, copy=False)
        )
        return plane

    @cached_property
    def closed_rows(self) -> F32:
        """The head's slices with crown and chin, where they end in points."""
        shape = self.view.shape
        crown = (float(shape.top[1]), 0.02, float(shape.top[2]), 0.02)
        chin = (float(shape.chin[1]), 0.17, float(shape.chin[2]) - 0.12, 0.12)
        rows = shape.rows
        return np.concatenate([[crown], rows[rows[:, 0] < chin[1] - 0.01], [chin]]).astype(
            np.float32
        )

    def head(self, params: FaceParams, cues: AgeCues) -> F32:
        """Depth (cells²,) of the skin: slices, the relief that also shades the picture, and through
        nose and lips as drawn.
        """
        bumps = _bumps(params, cues, self.view)
        depth = self.slices(self.closed_rows) + blobs(self.view, bumps[:, :5]) @ bumps[:, 5]
        points = self.view.shape.points
        drawn = np.concatenate(
            [
                points["bridge"][1:],
                points["tip"],
                points["base"],
                points["alae"],
                points["lips"][[0, 3, 6, 8]],
            ]
        )
        radii = np.array(
            [
                (0.08, 0.13),
                (0.08, 0.11),
                (0.1, 0.09),
                (0.09, 0.06),
                *[(0.07, 0.07)] * 2,
                *[(0.1, 0.06)] * 4,
            ]
        )
        spread = blobs(self.view, np.concatenate([drawn, radii.astype(np.float32)], axis=1))
        at = self.view.project(drawn)
        reach = np.stack([self.sample(column, at) for column in spread.T], axis=1)
        short = depth_of(self.view, drawn) - self.sample(depth, at)
        heights = np.linalg.lstsq(reach, short, rcond=0.05)[0]
        skin: F32 = (depth + spread @ heights).astype(np.float32, copy=False)
        return skin


def depth_of(view: View, points_N3: F32) -> F32:
    """Depth (N,) of points of the head in a pose."""
    turned: F32 = (points_N3 - _PIVOT) @ view.rotation[2]
    return turned
