"""Glasses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ._palettes import FRAMES
from ._raster import F32, U8, bounds, curve, mask_of, paint, strokes

if TYPE_CHECKING:
    from ._types import FaceParams
    from ._view import View

# Younger children go without.
LEAST_AGE = 4.0
_CORNERS = np.array(
    [
        (-0.28, -0.15),
        (0.0, -0.20),
        (0.29, -0.16),
        (0.30, 0.06),
        (0.17, 0.22),
        (-0.14, 0.22),
        (-0.27, 0.08),
    ],
    np.float32,
)


def _rim(view: View, side: float, centre: float) -> F32:
    x = side * (centre + _CORNERS[:, 0])
    z = 0.98 - 0.28 * (_CORNERS[:, 0] + 0.28)
    return curve(
        view.project(np.stack([x, _CORNERS[:, 1] + 0.02, z], axis=1).astype(np.float32)),
        6,
        closed=True,
    )


def with_glasses(params: FaceParams, rng: np.random.Generator) -> FaceParams:
    """The face with a drawn frame; as it is where it has one or is too young for one."""
    if params.identity.glasses != "none" or params.age < LEAST_AGE:
        return params
    frame = tuple(FRAMES)[int(rng.integers(len(FRAMES)))]
    return replace(params, identity=replace(params.identity, glasses=frame))


def paint_glasses(canvas: U8, params: FaceParams, view: View) -> None:
    """Frame, arms and a breath of light on the lenses."""
    name = params.identity.glasses
    if name == "none" or params.age < LEAST_AGE:
        return
    colour = FRAMES[name]
    width = 0.04 * view.unit
    gap = 0.42 * params.identity.eye_gap
    for side in (-1.0, 1.0):
        rim = _rim(view, side, gap)
        paint(canvas, mask_of(view.size, rim), (240, 246, 255), 0.07, bounds(rim, view.size))
        strokes(canvas, [rim], colour, width, closed=True)
        if side * params.pose.yaw < 12.0:
            arm = view.project(
                np.array(
                    [(side * (gap + 0.29), -0.08, 0.82), (side * 0.98, -0.05, -0.05)], np.float32
                )
            )
            strokes(canvas, [arm], colour, width)
    bridge = np.array(
        [(-gap + 0.27, -0.02, 0.98), (0.0, -0.07, 1.03), (gap - 0.27, -0.02, 0.98)], np.float32
    )
    strokes(canvas, [curve(view.project(bridge), 5)], colour, width)
