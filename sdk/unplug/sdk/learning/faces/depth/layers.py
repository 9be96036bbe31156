"""Depth of a whole picture: the renderer's own outlines, laid over each other in the order in which
they are painted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from .._cues import AgeCues, age_cues
from .._glasses import _CORNERS, LEAST_AGE, _rim
from .._hair import _beard_outline, front_mask
from .._hairdo import Hairdo, _rows, build_hairdo
from .._raster import F32, U8, curve, mask_of, strokes
from .._render import _FAR_EAR, _canvas_size
from .._scene import _body
from .._shape import build_shape
from .._view import View
from .surface import Rays

if TYPE_CHECKING:
    from .._types import FaceParams

BACKDROP = -2.0
"""Depth of the background in head units: farther than all of a head that turns and nods by 35
degrees at most.
"""
# Planes of the head that hair at its back lies in: a bun, a tail, and what hangs down or shows
# at a temple.
_BUN, _TAIL, _HANGING = -0.35, -0.7, -0.45
# The body stays upright under a turned head: depth of its edges, and how far its middle bulges.
_NECK, _CLOTHES = (-0.3, 0.55), (-0.35, 0.65)
# Beards from this density on are painted; see `paint_beard`.
_LEAST_BEARD = 0.08
# How far hair stands off the skin at least.
_OFF_SKIN = 0.02


class _Canvas:
    """Depth so far (side, side); what is laid over it is nowhere further than what it hides."""

    def __init__(self, side: int) -> None:
        self.depth = np.full((side, side), BACKDROP, np.float32)

    def lay(self, mask: U8, field: F32) -> None:
        share = mask.astype(np.float32) * np.float32(1 / 255)
        self.depth += share * np.maximum(field - self.depth, 0.0)


def depth_map(params: FaceParams, size: int) -> F32:
    """The depth of one face, pixel by pixel that of the picture that
    `unplug.sdk.learning.faces.render` draws of it.

    Head, features, hair and glasses turn with the pose; neck and clothes stay upright, as they are
    drawn. Lenses are clear: what is seen through them counts. A pixel on an outline has the mean
    depth of what it shows. Blur and noise of the camera change no depth.

    Args:
        params: The parameters that are drawn.
        size: side of the picture in pixels, 16..2048.

    Returns:
        (size, size) float32 in head units (1 is half the width of a head); larger is nearer, 0 is
        where the head turns, and the background is at `BACKDROP`.

    Raises:
        ValueError: the size is out of range.

    Example:
        >>> from unplug.sdk.learning import faces
        >>> rng = np.random.default_rng(0)
        >>> depth = depth_map(faces.sample_face(faces.sample_identity(rng), 34.0, rng), 64)
        >>> depth.shape, bool(depth[0, 0] == BACKDROP), bool(depth[32, 32] > 0)
        ((64, 64), True, True)
    """
    side = _canvas_size(size)
    cues = age_cues(params.identity, params.age, params.jitter)
    view = View(build_shape(params, cues), params.pose, params.camera, side)
    rays, canvas, do = Rays(view), _Canvas(side), build_hairdo(params, cues, view)
    skin = rays.head(params, cues)
    _lay_behind(canvas, rays, cues, do)
    yaw = params.pose.yaw
    hidden = {"left": yaw > _FAR_EAR or not do.ears, "right": yaw < -_FAR_EAR or not do.ears}
    for name in (name for name, away in hidden.items() if away):
        _lay_ear(canvas, rays, name)
    canvas.lay(mask_of(side, view.outline), rays.full(skin))
    if cues.beard >= _LEAST_BEARD:
        full = max(0.0, cues.beard - 0.45) / 0.55
        canvas.lay(mask_of(side, _beard_outline(view, full)), rays.full(skin))
    if do.front:
        canvas.lay(
            front_mask(do, view),
            rays.full(np.maximum(_hair(rays, cues, do), skin + np.float32(_OFF_SKIN))),
        )
    for name in (name for name, away in hidden.items() if not away):
        _lay_ear(canvas, rays, name)
    _lay_glasses(canvas, rays, params)
    result: F32 = cv2.resize(canvas.depth, (size, size), interpolation=cv2.INTER_AREA).astype(
        np.float32, copy=False
    )
    return np.ascontiguousarray(result)


def _lay_behind(canvas: _Canvas, rays: Rays, cues: AgeCues, do: Hairdo) -> None:
    """Hair at the back, then neck and clothes, rounded from side to side."""
    view, style = rays.view, do.style
    planes = [*[_BUN] * style.bun, *[_TAIL] * style.tail, _HANGING]
    for lock, z in zip(do.back, planes, strict=False):
        canvas.lay(mask_of(view.size, lock.outline), rays.full(rays.plane(z)))
    if not do.back and len(do.front) == 1:
        canvas.lay(mask_of(view.size, do.front[0].first), rays.full(rays.plane(_HANGING)))
    neck, clothes, (x0, _, _) = _body(view, cues)
    left, right = curve(clothes[:5], 4), curve(clothes[5:], 4)
    outlines = curve(neck, 4, closed=True), np.concatenate([left, right])
    x = np.arange(view.size, dtype=np.float32) + np.float32(0.5) - np.float32(x0)
    for outline, (edge, bulge) in zip(outlines, (_NECK, _CLOTHES), strict=True):
        across = x / np.float32(np.abs(outline[:, 0] - x0).max())
        depth = edge + bulge * np.sqrt(np.maximum(1.0 - across * across, 0.0))
        canvas.lay(
            mask_of(view.size, outline),
            np.broadcast_to(depth.astype(np.float32), canvas.depth.shape),
        )


def _hair(rays: Rays, cues: AgeCues, do: Hairdo) -> F32:
    """Depth of the hair's outside: the slices of the head and of what hangs from it, grown by the
    style's volume.
    """
    volume = do.style.volume * (0.75 + 0.25 * cues.mature) * (1.0 - 0.35 * cues.thin)
    rows, grow = _rows(rays.view, do.style, volume)
    rows[:, 1] += grow
    rows[:, 3] += grow
    rows[:, 0] -= 0.9 * volume * np.interp(-rows[:, 0], [0.4, 1.4], [0.0, 1.0]).astype(np.float32)
    top = rays.view.shape.top
    crown = np.array([[top[1] - volume, 0.02, top[2], 0.02]], np.float32)
    return rays.slices(np.concatenate([crown, rows]))


def _lay_ear(canvas: _Canvas, rays: Rays, side: str) -> None:
    view = rays.view
    outline = curve(view.points[f"{side}_ear"], 5, closed=True)
    canvas.lay(mask_of(view.size, outline), rays.full(rays.flat(view.shape.points[f"{side}_ear"])))


def _lay_glasses(canvas: _Canvas, rays: Rays, params: FaceParams) -> None:
    """Rims, arms and bridge as they are stroked; see `paint_glasses`."""
    view, gap = rays.view, 0.42 * params.identity.eye_gap
    if params.identity.glasses == "none" or params.age < LEAST_AGE:
        return
    bridge = np.array(
        [(-gap + 0.27, -0.02, 0.98), (0.0, -0.07, 1.03), (gap - 0.27, -0.02, 0.98)], np.float32
    )
    pieces = [(curve(view.project(bridge), 5), bridge, False)]
    for side in (-1.0, 1.0):
        x, y = side * (gap + _CORNERS[:, 0]), _CORNERS[:, 1] + 0.02
        rim = np.stack([x, y, 0.98 - 0.28 * (_CORNERS[:, 0] + 0.28)], axis=1).astype(np.float32)
        pieces.append((_rim(view, side, gap), rim, True))
        if side * params.pose.yaw < 12.0:
            arm = np.array(
                [(side * (gap + 0.29), -0.08, 0.82), (side * 0.98, -0.05, -0.05)], np.float32
            )
            pieces.append((view.project(arm), arm, False))
    for path, points, closed in pieces:
        mask = np.zeros((view.size, view.size), np.uint8)
        strokes(mask, [path], 255, 0.04 * view.unit, closed=closed)
        canvas.lay(mask, rays.full(rays.flat(points)))
