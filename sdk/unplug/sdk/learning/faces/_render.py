"""From parameters to pixels."""

from __future__ import annotations

import numpy as np

from ._cues import AgeCues, age_cues
from ._features import paint_brow, paint_eye, paint_mouth, paint_nose
from ._glasses import paint_glasses
from ._hair import front_mask, hair_table, paint_back, paint_beard, paint_front
from ._hairdo import build_hairdo
from ._raster import U8, soft
from ._scene import expose, grade, paint_background, paint_body
from ._shape import build_shape
from ._skin import paint_ear, paint_head, skin_table
from ._styles import styled
from ._things import paint_thing
from ._types import FaceParams, RenderedFace
from ._view import View

_MIN_SIZE, _MAX_SIZE = 16, 2048
# Drawn this much larger than asked for, then averaged down; large pictures need less of it.
_SUPERSAMPLE, _LARGE_SUPERSAMPLE, _LARGE = 2.0, 1.5, 320
# Yaw in degrees from which the head hides the far ear.
_FAR_EAR = 3.0


def _canvas_size(size: int) -> int:
    if not _MIN_SIZE <= size <= _MAX_SIZE:
        raise ValueError(
            f"size is {size!r}: an image needs from {_MIN_SIZE} to {_MAX_SIZE} pixels a side; pass "
            "such a number."
        )
    return max(96, round(size * (_SUPERSAMPLE if size < _LARGE else _LARGE_SUPERSAMPLE)))


def _paint(canvas: U8, params: FaceParams, cues: AgeCues, view: View) -> None:
    """Draw everything in front of the background, from back to front, in place."""
    do = build_hairdo(params, cues, view)
    skin, hair = skin_table(params, cues), hair_table(params, cues)
    front = front_mask(do, view)
    paint_back(canvas, params, cues, do, view, hair)
    paint_body(canvas, params, cues, view, skin, view.outline)
    yaw = params.pose.yaw
    far = {"left": yaw > _FAR_EAR, "right": yaw < -_FAR_EAR}
    for side in ("left", "right"):
        if far[side] or not do.ears:
            paint_ear(canvas, params, view, side, skin)
    shift = max(1, round(0.07 * view.unit))
    shadow = soft(np.roll(front, shift, axis=0), 0.07 * view.unit)
    paint_head(canvas, params, cues, view, skin, shadow)
    paint_beard(canvas, params, cues, view, hair)
    for side in ("left", "right"):
        paint_eye(canvas, params, cues, view, side, skin)
    paint_nose(canvas, params, cues, view, skin)
    paint_mouth(canvas, params, cues, view, skin)
    for side in ("left", "right"):
        paint_brow(canvas, params, cues, view, side)
    paint_front(canvas, params, cues, do, view, hair, front)
    for side in ("left", "right"):
        if do.ears and not far[side]:
            paint_ear(canvas, params, view, side, skin)
    paint_glasses(canvas, params, view)
    paint_thing(canvas, params, view)


def render(params: FaceParams, size: int) -> RenderedFace:
    """Draw one face.

    Args:
        params: The parameters to draw; the same parameters give the same bytes on the same machine.
        size: Side of the image in pixels, 16..2048.

    Returns:
        The image (size, size, 3) uint8 RGB and the (K, 2) landmarks in pixels of that image.

    Raises:
        ValueError: The size is out of range.
    """
    side = _canvas_size(size)
    cues = age_cues(params.identity, params.age, params.jitter)
    view = View(build_shape(params, cues), params.pose, params.camera, side)
    canvas = paint_background(params.background, side)
    _paint(canvas, params, cues, view)
    canvas = styled(grade(canvas, params.light), params.style)
    image = expose(canvas, params.camera, size)
    landmarks = view.landmarks() * np.float32(size / side)
    return RenderedFace(image=image, landmarks=np.ascontiguousarray(landmarks, dtype=np.float32))
