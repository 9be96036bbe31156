"""Eyes, brows, nose and mouth."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ._palettes import EYES, GREY_HAIR, HAIR, mix, scale
from ._raster import (
    F32,
    U8,
    bounds,
    curve,
    dot,
    fill,
    mask_of,
    oval,
    paint,
    ribbon,
    soft,
    strokes,
    taper,
)
from ._skin import tone

if TYPE_CHECKING:
    from ._cues import AgeCues
    from ._palettes import RGB
    from ._types import FaceParams
    from ._view import View


def hair_base(params: FaceParams, cues: AgeCues) -> RGB:
    """Hair colour at this age: fine and light in babies, grey to white later."""
    base = HAIR[params.identity.hair_colour]
    base = mix(base, scale(base, 1.35), 0.5 * cues.baby)
    grey = mix(GREY_HAIR, (240, 238, 234), max(0.0, cues.grey - 0.6) * 2.0)
    return mix(base, grey, 0.92 * cues.grey)


def _lens(canvas: U8, params: FaceParams, view: View, side: str, eye: F32) -> None:
    """White, iris, pupil and catch lights, clipped to the opening of the lids."""
    unit = view.unit
    roi = bounds(eye, view.size, 2)
    x0, y0 = roi[1].start, roi[0].start
    origin = np.array([x0, y0], np.float32)
    local = eye - origin
    h, w = roi[0].stop - y0, roi[1].stop - x0
    mask = np.zeros((h, w), np.uint8)
    fill(mask, local, 255)
    ball = np.empty((h, w, 3), np.uint8)
    ball[...] = (236, 232, 228)
    centre = view.points[f"{side}_iris"][0] - origin
    r = view.shape.iris * unit
    narrow = (r * (0.72 + 0.28 * math.cos(view.yaw)), r)
    angle = math.degrees(view.roll)
    colour = EYES[params.identity.eye_colour]
    oval(ball, centre, narrow, angle, scale(colour, 0.45))
    oval(ball, centre, (narrow[0] * 0.84, narrow[1] * 0.84), angle, colour)
    down = view.axis(0.0, 0.32 * r)
    oval(
        ball,
        centre + down,
        (narrow[0] * 0.55, narrow[1] * 0.42),
        angle,
        mix(colour, (255, 240, 210), 0.3),
    )
    oval(ball, centre, (narrow[0] * 0.45, narrow[1] * 0.45), angle, (16, 13, 14))
    shadow = np.zeros((h, w), np.uint8)
    edge = curve(view.points[f"{side}_lid"][:5] - origin, 5)
    strokes(shadow, [edge], 255, 0.075 * unit)
    paint(ball, soft(shadow, 0.022 * unit), (70, 46, 44), 0.6)
    lamp = -0.34 if params.light.azimuth < 0 else 0.34
    dot(ball, centre + view.axis(lamp * r, -0.36 * r), 0.25 * r, (255, 255, 255))
    dot(ball, centre + view.axis(-lamp * 0.9 * r, 0.42 * r), 0.11 * r, (226, 230, 236))
    paint(canvas[roi], mask, ball)


def paint_eye(
    canvas: U8, params: FaceParams, cues: AgeCues, view: View, side: str, table: U8
) -> None:
    """One eye: crease, ball, lash lines."""
    unit, size = view.unit, view.size
    lid = view.points[f"{side}_lid"]
    eye = curve(lid, 5, closed=True)
    top = curve(lid[:5], 5)
    crease = curve(view.points[f"{side}_crease"], 5)
    roi = bounds(np.concatenate([eye, crease]), size, 0.16 * unit)
    lidded = np.zeros((size, size), np.uint8)
    fill(lidded, np.concatenate([top, crease[::-1]]), 120)
    fill(
        lidded,
        ribbon(
            crease, taper(len(crease), 0.25, 0.2) * np.float32((0.030 + 0.025 * cues.sag) * unit)
        ),
        255,
    )
    lidded[roi] = soft(lidded[roi], 0.018 * unit)
    paint(canvas, lidded, tone(table, 0.26), 0.5, roi)
    _lens(canvas, params, view, side, eye)
    dark = mix((38, 24, 22), (120, 104, 98), 0.45 * cues.grey)
    grow = np.linspace(0.35, 1.0, len(top)).astype(np.float32)
    lash = (0.040 + 0.012 * (1.0 - abs(0.5 - params.identity.lip_fullness))) * (
        1.0 - 0.35 * cues.thin_lips
    )
    fill(canvas, ribbon(top, grow * np.float32(lash * unit)), dark)
    low = curve(np.concatenate([lid[4:], lid[:1]]), 4)
    line = np.zeros((size, size), np.uint8)
    strokes(line, [low], 255, 1)
    paint(canvas, line, tone(table, 0.12), 0.55, roi)


@lru_cache(maxsize=4)
def _brow_swell(n: int) -> F32:
    return np.interp(np.linspace(0, 1, n), [0, 0.12, 0.5, 1.0], [0.62, 1.0, 0.92, 0.22]).astype(
        np.float32
    )


def paint_brow(canvas: U8, params: FaceParams, cues: AgeCues, view: View, side: str) -> None:
    """One brow: a soft stroke of fine hairs."""
    path = curve(view.points[f"{side}_brow"], 5)
    n = len(path)
    swell = _brow_swell(n)
    width = view.shape.brow * view.unit
    mask = np.zeros((view.size, view.size), np.uint8)
    fill(mask, ribbon(path, swell * np.float32(width)), 225)
    if width > 5:
        rng = np.random.default_rng(params.identity.seed + (1 if side == "left" else 2))
        at = rng.integers(0, n, 46)
        lean = np.where(path[-1, 0] > path[0, 0], 1.0, -1.0)
        off = rng.uniform(-0.45, 0.3, (46, 1)) * swell[at, None] * width
        start = path[at] + off * view.axis(0.0, 1.0)
        step = np.outer(
            rng.uniform(0.35, 0.7, 46) * width * swell[at], view.axis(float(lean), -0.42)
        )
        strokes(
            mask, np.stack([start, start + step], axis=1).astype(np.float32), 235, 0.014 * view.unit
        )
    roi = bounds(path, view.size, 1.5 * width + 4)
    mask[roi] = soft(mask[roi], 0.014 * view.unit)
    hair = hair_base(params, cues)
    colour = mix(scale(hair, 0.62), (52, 36, 30), 0.3 * (1.0 - cues.grey))
    paint(canvas, mask, colour, (0.45 + 0.45 * cues.mature) * (1.0 - 0.25 * cues.thin), roi)


def paint_nose(canvas: U8, params: FaceParams, cues: AgeCues, view: View, table: U8) -> None:
    """Nostrils, wings and the shadow below the tip."""
    unit, size = view.unit, view.size
    p = view.points
    roi = bounds(np.concatenate([p["alae"], p["tip"], p["base"]]), size, 0.25 * unit)
    dark = np.zeros((size, size), np.uint8)
    wide = 0.5 * float(np.hypot(*(p["alae"][1] - p["alae"][0])))
    angle = math.degrees(view.roll)
    under = p["base"][0] + view.axis(0.0, -0.005 * unit)
    oval(dark, under, (0.62 * wide, 0.035 * unit), angle, 120)
    for s, at in ((-1.0, p["alae"][0]), (1.0, p["alae"][1])):
        hook = np.stack(
            [
                at + view.axis(-0.03 * s * unit, -0.085 * unit),
                at + view.axis(0.012 * s * unit, -0.02 * unit),
                at + view.axis(-0.045 * s * unit, 0.045 * unit),
            ]
        )
        strokes(dark, [curve(hook.astype(np.float32), 5)], 150 + 50 * cues.mature, 0.026 * unit)
    dark[roi] = soft(dark[roi], 0.024 * unit)
    paint(canvas, dark, tone(table, 0.2), 0.62, roi)
    holes = np.zeros((size, size), np.uint8)
    for at in p["nostrils"]:
        oval(holes, at, (0.062 * unit * params.identity.nose_width, 0.027 * unit), angle, 255)
    holes[roi] = soft(holes[roi], 0.013 * unit)
    paint(canvas, holes, tone(table, 0.05), 0.8, roi)
    tip = np.zeros((size, size), np.uint8)
    lamp = 0.03 if params.light.azimuth > 0 else -0.03
    oval(
        tip,
        p["tip"][0] + view.axis(lamp * unit, -0.055 * unit),
        (0.05 * unit, 0.035 * unit),
        angle,
        255,
    )
    tip[roi] = soft(tip[roi], 0.03 * unit)
    paint(canvas, tip, tone(table, 1.0), 0.45 * params.light.strength, roi)


def _inside(canvas: U8, view: View, hole: F32, top: F32, roi: tuple[slice, slice]) -> None:
    """The open mouth: dark, a tongue, the upper teeth."""
    unit = view.unit
    mask = mask_of(view.size, hole)
    layer = np.empty((view.size, view.size, 3), np.uint8)
    layer[roi] = (74, 26, 28)
    middle = view.points["mouth_bottom"][2]
    oval(
        layer,
        middle + view.axis(0.0, -0.01 * unit),
        (0.2 * unit, 0.085 * unit),
        math.degrees(view.roll),
        (186, 92, 92),
    )
    depth = min(0.085, 0.5 * float(np.hypot(*(middle - view.points["mouth_top"][2]))) / unit)
    row = top[3:-3]
    hang = (1.0 - np.abs(np.linspace(-1.0, 1.0, len(row))) ** 3.0) * depth * unit
    edge = row + np.outer(hang, view.axis(0.0, 1.0))
    fill(
        layer,
        np.concatenate([row - view.axis(0.0, 0.02 * unit), edge[::-1]]).astype(np.float32),
        (242, 238, 230),
    )
    paint(canvas, mask, layer, 1.0, roi)


def paint_mouth(canvas: U8, params: FaceParams, cues: AgeCues, view: View, table: U8) -> None:
    """Lips, what is between them, and the shadow below."""
    unit, size = view.unit, view.size
    p = view.points
    top, bottom = curve(p["mouth_top"], 5), curve(p["mouth_bottom"], 5)
    lips = p["lips"]
    upper = curve(lips[:7], 5)
    lower = curve(np.concatenate([lips[6:], lips[:1]]), 5)
    outline = np.concatenate([upper, lower])
    roi = bounds(outline, size, 0.2 * unit)
    skin = tone(table, 0.6)
    rosy: RGB = mix((196, 84, 84), (156, 68, 70), params.identity.skin)
    lip = mix(skin, rosy, 0.62 - 0.3 * cues.thin_lips)
    mask = mask_of(size, outline)
    mask[roi] = soft(mask[roi], 0.012 * unit)
    paint(canvas, mask, lip, 0.92, roi)
    shadow = np.zeros((size, size), np.uint8)
    fill(shadow, np.concatenate([upper, top[::-1]]), 255)
    shadow[roi] = soft(shadow[roi], 0.014 * unit)
    paint(canvas, shadow, scale(lip, 0.72), 0.62, roi)
    shine = np.zeros((size, size), np.uint8)
    spot = p["mouth_bottom"][2] * np.float32(0.45) + lips[8] * np.float32(0.55)
    oval(shine, spot, (0.11 * unit, 0.026 * unit), math.degrees(view.roll), 255)
    shine[roi] = soft(shine[roi], 0.025 * unit)
    paint(canvas, shine, mix(lip, (255, 240, 235), 0.7), 0.5 - 0.25 * cues.thin_lips, roi)
    if float(np.hypot(*(p["mouth_top"][2] - p["mouth_bottom"][2]))) > 0.025 * unit:
        _inside(canvas, view, np.concatenate([top, bottom[::-1]]), top, roi)
    line = np.zeros((size, size), np.uint8)
    fill(line, ribbon(top, taper(len(top), 0.3, 0.3) * np.float32(0.032 * unit)), 255)
    for corner in (lips[0], lips[6]):
        dot(line, corner, 0.014 * unit, 120)
    line[roi] = soft(line[roi], 0.011 * unit)
    paint(canvas, line, scale(lip, 0.38), 0.85, roi)
    below = np.zeros((size, size), np.uint8)
    oval(
        below,
        lips[8] + view.axis(0.0, 0.055 * unit),
        (0.17 * unit, 0.025 * unit),
        math.degrees(view.roll),
        255,
    )
    below[roi] = soft(below[roi], 0.03 * unit)
    paint(canvas, below, tone(table, 0.25), 0.3, roi)
