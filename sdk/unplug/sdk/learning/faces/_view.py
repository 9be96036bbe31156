"""Turn the head and put it on the canvas: rotation, weak perspective, outlines, landmarks."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ._raster import F32, curve

if TYPE_CHECKING:
    from ._shape import Shape
    from ._types import Camera, Pose

# Distance of the camera, in head units; where the head turns; canvas pixels per head unit, of the
# side.
_DISTANCE = 11.0
_PIVOT = np.array([0.0, 0.42, -0.05], np.float32)
_UNIT = 0.246
_CENTRE_Y = 0.585


class View:
    """One head in one pose on a canvas.

    Args:
        shape: The head. pose: Its rotation. camera: Zoom and framing. size: Canvas side in pixels.
    """

    def __init__(self, shape: Shape, pose: Pose, camera: Camera, size: int) -> None:
        self.shape = shape
        self.size = size
        self.unit = float(size * _UNIT * camera.zoom)
        yaw, pitch, roll = (math.radians(a) for a in (pose.yaw, pose.pitch, pose.roll))
        self.yaw, self.pitch, self.roll = yaw, pitch, roll
        cy, sy, cp, sp, cr, sr = (
            math.cos(yaw),
            math.sin(yaw),
            math.cos(pitch),
            math.sin(pitch),
            math.cos(roll),
            math.sin(roll),
        )
        turn = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
        nod = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
        tilt = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
        self._after_yaw = (tilt @ nod).astype(np.float32)
        self.rotation = (tilt @ nod @ turn).astype(np.float32)
        short = 0.5 * (shape.lower - 1.0)
        self.centre = np.array(
            [
                size * (0.5 + camera.shift_x),
                size * (_CENTRE_Y + camera.shift_y) - self.unit * short,
            ],
            np.float32,
        )
        names = list(shape.points)
        flat = self.project(np.concatenate([shape.points[n] for n in names]))
        ends = np.cumsum([len(shape.points[n]) for n in names])[:-1]
        self.points: dict[str, F32] = dict(zip(names, np.split(flat, ends), strict=True))
        self.chin = self.project(shape.chin[None])[0]

    def _finish(self, turned: F32) -> F32:
        k = self.unit * _DISTANCE / (_DISTANCE - turned[:, 2:])
        result: F32 = turned[:, :2] * k + self.centre
        return result

    def project(self, points_N3: F32) -> F32:
        """Head points to canvas pixels."""
        turned: F32 = (points_N3 - _PIVOT) @ self.rotation.T
        return self._finish(turned)

    def sides(self, rows_K4: F32, grow: float = 0.0) -> tuple[F32, F32]:
        """Left and right outline (image sides) of elliptic slices, top to bottom, inflated by
        `grow` head units.
        """
        y, w, zc, d = (
            rows_K4[:, 0],
            rows_K4[:, 1] + grow,
            rows_K4[:, 2] - _PIVOT[2],
            rows_K4[:, 3] + grow,
        )
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        r = np.sqrt((w * c) ** 2 + (d * s) ** 2)
        bend = (d**2 - w**2) * s * c / r
        both = []
        for sign in (-1.0, 1.0):
            turned = np.stack(
                [zc * s + sign * r, y - _PIVOT[1], zc * c + sign * bend], axis=1
            ).astype(np.float32)
            both.append(self._finish(turned @ self._after_yaw.T))
        return both[0], both[1]

    @cached_property
    def outline(self) -> F32:
        """The closed outline of the head's skin."""
        left, right = self.sides(self.shape.rows)
        chin_half = 0.17 * self.unit * (self.axis(1.0, 0.0))
        top = self.project(self.shape.top[None])
        loop = np.concatenate(
            [top, right, [self.chin + chin_half], [self.chin - chin_half], left[::-1]]
        )
        return curve(loop.astype(np.float32), 5, closed=True)

    def axis(self, x: float, y: float) -> F32:
        """A direction of the head's own plane on the canvas (only roll turns it), unit length in,
        unit out.
        """
        c, s = math.cos(self.roll), math.sin(self.roll)
        return np.array([x * c - y * s, x * s + y * c], np.float32)

    def landmarks(self) -> F32:
        """(K, 2) canvas positions, in the order of `LANDMARK_NAMES`."""
        p = self.points
        rows = []
        for side in ("right", "left"):
            lid = p[f"{side}_lid"]
            rows += [lid[4], lid[0], lid[2], lid[6], p[f"{side}_iris"][0]]
        for side in ("right", "left"):
            brow = p[f"{side}_brow"]
            rows += [brow[4], brow[2], brow[0]]
        rows += [p["bridge"][0], p["tip"][0], p["base"][0], p["alae"][0], p["alae"][1]]
        lips = p["lips"]
        rows += [lips[0], lips[6], lips[3], p["mouth_top"][2], p["mouth_bottom"][2], lips[8]]
        oval = p["oval"]
        rows += [self.chin, oval[0], oval[1], oval[2], oval[3]]
        return np.stack(rows).astype(np.float32)
