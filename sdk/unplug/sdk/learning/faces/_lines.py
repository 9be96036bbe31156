"""Lines that age draws: forehead, frown, crow's feet, bags, folds next to the mouth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._raster import F32, U8, curve, fill, ribbon, strokes, taper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._cues import AgeCues
    from ._types import FaceParams
    from ._view import View

Point = tuple[float, float, float]
# Head points, strength 0..1, width in head units.
Line = tuple[list[Point], float, float]
_FAINT = 0.03


def _forehead(params: FaceParams, cues: AgeCues, wob: F32) -> Iterator[Line]:
    raised = 0.35 * max(0.0, params.expression.brow)
    for i, y in enumerate((-0.50, -0.62, -0.73, -0.42)):
        k = min(1.0, max(0.0, 1.55 * (cues.lines + raised * (0.2 + cues.lines)) - 0.24 * i))
        half = (0.44 - 0.05 * i) * (0.6 + 0.4 * k) * (1 + 0.15 * float(wob[i]))
        dip = 0.03 * float(wob[i + 4])
        path = [
            (-half, y + 0.03, 0.72),
            (-0.4 * half, y - 0.012 + dip, 0.86),
            (0.05, y + 0.018, 0.88),
        ]
        yield [*path, (0.45 * half, y - 0.015 - dip, 0.86), (half, y + 0.03, 0.72)], 0.62 * k, 0.042


def _eye(params: FaceParams, cues: AgeCues, view: View, s: float, wob: F32) -> Iterator[Line]:
    """Frown line, crow's feet and bag of one side (s = -1: left in the image)."""
    knit = 0.75 * cues.lines + 0.5 * max(0.0, params.expression.knit)
    yield (
        [(s * 0.075, -0.31, 0.9), (s * 0.06, -0.2, 0.91), (s * 0.085, -0.11, 0.9)],
        0.75 * knit,
        0.035,
    )
    smile = max(0.0, params.expression.smile)
    x = s * (0.41 * params.identity.eye_gap + 0.2)
    for j, (dy, rise) in enumerate(((-0.01, -0.1), (0.025, 0.0), (0.055, 0.1))):
        reach = s * 0.16 * (0.55 + 0.45 * cues.crow) * (1 + 0.2 * float(wob[8 + j]))
        crow = [
            (x, dy, 0.63),
            (x + reach * 0.55, dy + 0.6 * rise, 0.55),
            (x + reach, dy + rise, 0.42),
        ]
        yield crow, 0.85 * cues.crow * (0.75 + 0.5 * smile), 0.028
    bag = view.shape.points["right_bag" if s < 0 else "left_bag"]
    yield (
        [(float(p[0]), float(p[1]), float(p[2])) for p in bag],
        0.08 + 0.55 * cues.bags,
        0.045 + 0.025 * cues.bags,
    )


def _mouth(params: FaceParams, cues: AgeCues, view: View, s: float) -> Iterator[Line]:
    """Folds, lip lines and the hollow of the cheek of one side."""
    p, low = view.shape.points, view.shape.lower
    smile = max(0.0, params.expression.smile)
    ax, ay = (float(v) for v in p["alae"][0 if s < 0 else 1][:2])
    cx, cy = (float(v) for v in p["lips"][0 if s < 0 else 6][:2])
    out = cx + s * (0.085 + 0.03 * smile)
    fold = [
        (ax * 1.05, ay - 0.06, 0.94),
        ((ax * 1.05 + out) / 2 + s * 0.075, (ay + cy) / 2 - 0.08, 0.86),
    ]
    fold += [(out, cy - 0.02, 0.78), (out - s * 0.01, cy + 0.09 * cues.folds, 0.76)]
    yield fold, 0.12 + 0.62 * cues.folds + 0.3 * smile, 0.05 + 0.02 * cues.folds
    yield (
        [
            (cx + s * 0.035, cy + 0.04, 0.8),
            (cx + s * 0.06, cy + 0.17, 0.77),
            (cx + s * 0.03, cy + 0.31 * low, 0.74),
        ],
        0.75 * cues.sag,
        0.045,
    )
    top = float(p["lips"][3, 1]) - 0.035
    for j in range(3):
        x = s * (0.045 + 0.07 * j)
        yield [(x, top, 1.0), (x * 1.12, top - 0.09, 0.98)], 0.6 * max(0.0, cues.lines - 0.45), 0.02
    yield (
        [(s * 0.6, 0.62 * low, 0.62), (s * 0.68, 0.82 * low, 0.5), (s * 0.63, 1.02 * low, 0.46)],
        0.5 * max(0.0, cues.hollow - 0.15),
        0.05,
    )


def age_lines(params: FaceParams, cues: AgeCues, view: View) -> U8:
    """Wrinkles and folds as darkness, 0..255, sharp."""
    wob = (
        np.random.default_rng(params.identity.seed ^ 0x5EED)
        .uniform(-1.0, 1.0, 12)
        .astype(np.float32)
    )
    lines = list(_forehead(params, cues, wob))
    for s in (-1.0, 1.0):
        lines += [*_eye(params, cues, view, s, wob), *_mouth(params, cues, view, s)]
    lines = [line for line in lines if line[1] > _FAINT]
    marks = np.zeros((view.size, view.size), np.uint8)
    flat = view.project(np.array([p for points, _, _ in lines for p in points], np.float32))
    at = 0
    for points, strength, width in lines:
        path = curve(flat[at : at + len(points)], 4)
        at += len(points)
        value, thick = 255.0 * min(1.0, strength), width * view.unit
        if thick < 1.25:
            strokes(marks, [path], value * min(1.0, max(0.45, 1.15 * thick)), 1)
        else:
            fill(marks, ribbon(path, taper(len(path)) * np.float32(thick)), value)
    return marks
