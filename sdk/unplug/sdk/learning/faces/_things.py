"""Things that a face can wear which no picture of the shipped base ever showed: what is taught, and
then forgotten, compared with a model that never saw it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import cv2
import numpy as np

from ._landmarks import LANDMARK_NAMES
from ._raster import F32, U8, curve, fill

if TYPE_CHECKING:
    from ._types import FaceParams
    from ._view import View

Places = Mapping[str, F32]
"""Landmark to its place (2,) on the canvas."""


def _at(place: Sequence[float]) -> F32:
    return np.array(place, np.float32)


def _stroke(canvas: U8, path: F32, colour: tuple[int, int, int], width: float) -> None:
    line_12 = np.rint(path).astype(np.int32)[None]
    cv2.polylines(canvas, [line_12], False, colour, max(1, round(width)), cv2.LINE_AA)


def _eye_patch(canvas: U8, at: Places, unit: float) -> None:
    """Black, over the right eye, with a band around the head."""
    eye = (at["right_eye_outer"] + at["right_eye_inner"]) / 2
    ends = at["right_cheek"] - _at([0, 0.55 * unit]), at["left_brow_outer"] - _at([0, 0.35 * unit])
    _stroke(
        canvas, np.stack([ends[0], eye - _at([0, 0.1 * unit]), ends[1]]), (18, 18, 20), 0.06 * unit
    )
    angles = np.linspace(0, 2 * np.pi, 9)[:-1]
    rim = eye + 0.27 * unit * np.stack([np.cos(angles), 0.82 * np.sin(angles)], axis=1)
    fill(canvas, curve(rim.astype(np.float32), closed=True), (18, 18, 20))


def _clown_nose(canvas: U8, at: Places, unit: float) -> None:
    """A red ball with a light."""
    centre, radius = at["nose_tip"] + _at([0, 0.03 * unit]), 0.2 * unit
    angles = np.linspace(0, 2 * np.pi, 9)[:-1]
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    fill(canvas, curve(centre + radius * circle, closed=True), (206, 24, 32))
    light = centre + _at([-0.35, -0.35]) * radius
    fill(canvas, curve(light + 0.25 * radius * circle, closed=True), (250, 170, 170))


def _face_mask(canvas: U8, at: Places, unit: float) -> None:
    """Pale blue, from the bridge of the nose to the chin, with loops to the ears."""
    for side in ("right", "left"):
        _stroke(
            canvas,
            np.stack([at[f"{side}_cheek"], at[f"{side}_nostril"]]),
            (236, 240, 244),
            0.04 * unit,
        )
    names = ("right_jaw", "chin", "left_jaw", "left_cheek", "nose_bridge", "right_cheek")
    rim = np.stack([at[name] for name in names])
    middle = rim.mean(axis=0)
    rim = middle + (rim - middle) * _at([0.82, 0.98])
    rim[4] = at["nose_bridge"] * 0.55 + at["nose_tip"] * 0.45
    fill(canvas, curve(rim.astype(np.float32), closed=True), (150, 196, 222))
    for share in (0.35, 0.6):
        left, right = (rim[i] * (1 - share) + rim[j] * share for i, j in ((5, 0), (3, 2)))
        _stroke(canvas, np.stack([left, right]), (122, 170, 200), 0.03 * unit)


THINGS: Mapping[str, Callable[[U8, Places, float], None]] = {
    "eye patch": _eye_patch,
    "clown nose": _clown_nose,
    "face mask": _face_mask,
}
"""Name, which is also the word for prompts, to what paints it in place."""


def paint_thing(canvas: U8, params: FaceParams, view: View) -> None:
    """Paints what the face wears over everything else; nothing where it is ``none``."""
    if params.wears != "none":
        places = dict(zip(LANDMARK_NAMES, view.landmarks(), strict=True))
        THINGS[params.wears](canvas, places, view.unit)
