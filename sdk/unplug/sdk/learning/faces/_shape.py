"""The head before it turns: 3-D control points in head units (x right in the image, y down, z to
the viewer).

The eye line is y = 0. Proportions follow MediaPipe's canonical face model, so that its landmarks
and ours mean the same places; babies and identities bend them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ._raster import F32

if TYPE_CHECKING:
    from ._cues import AgeCues
    from ._types import FaceParams

# Horizontal slices of the head: y, half width, centre z, half depth.
_ROWS = np.array(
    [
        (-1.36, 0.36, -0.20, 0.42),
        (-1.18, 0.645, -0.20, 0.72),
        (-0.88, 0.85, -0.19, 0.95),
        (-0.48, 0.955, -0.18, 1.05),
        (-0.08, 0.985, -0.12, 0.98),
        (0.32, 0.965, 0.02, 0.86),
        (0.70, 0.875, 0.14, 0.71),
        (1.00, 0.745, 0.24, 0.58),
        (1.24, 0.555, 0.36, 0.43),
        (1.42, 0.335, 0.50, 0.30),
    ],
    np.float64,
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One head in one expression.

    Args:
        rows: (K, 4) slices (y, half width, centre z, half depth). top, chin: (3,) points.
        points: Named (n, 3) control points. iris: Radius. brow: Thickness. lower: Scale of y below
            the eyes.
    """

    rows: F32
    top: F32
    chin: F32
    points: dict[str, F32]
    iris: float
    brow: float
    lower: float


def _rows(params: FaceParams, cues: AgeCues, lower: float, drop: float) -> F32:
    who = params.identity
    rows = _ROWS.copy()
    y = rows[:, 0].copy()
    below, above = y > 0, y < 0
    rows[below, 0] *= lower
    rows[above, 0] *= who.forehead * (1.0 + 0.03 * cues.baby)
    jaw = np.interp(y, [0.2, 0.9, 1.24], [0.0, 1.0, 1.0])
    cheek = np.exp(-(((y - 0.6) / 0.35) ** 2))
    rows[:, 1] *= 1.0 + (who.jaw - 1.0) * jaw + (who.cheeks - 1.0) * 0.35 * cheek
    rows[:, 1] *= (
        1.0
        + cues.baby * (0.09 * cheek + 0.05 * jaw)
        - 0.05 * (1.0 - cues.mature) * (1 - cues.baby) * jaw
    )
    rows[:, 1] *= (
        1.0
        + 0.13 * cues.sag * np.exp(-(((y - 1.13) / 0.22) ** 2))
        - 0.07 * cues.hollow * np.exp(-(((y - 0.5) / 0.25) ** 2))
    )
    rows[-2:, 1] *= who.chin * (1.0 - 0.12 * cues.baby)
    rows[:, 0] += drop * np.interp(y, [0.5, 1.3], [0.0, 1.0])
    smile = max(0.0, params.expression.smile)
    rows[:, 1] *= 1.0 + 0.03 * smile * cheek
    return rows.astype(np.float32)


def _eye(params: FaceParams, cues: AgeCues, side: float) -> dict[str, F32]:
    who, face = params.identity, params.expression
    length = 0.184 * who.eye_size * (1.0 + 0.24 * cues.baby - 0.12 * cues.sag)
    opening = 0.094 * who.eye_size * (1.0 + 0.5 * cues.baby) * face.eyes * (1.0 - 0.30 * cues.sag)
    gap = 0.412 * who.eye_gap * (1.0 + 0.03 * cues.baby)
    tilt = 0.03 * who.eye_tilt - 0.035 * cues.sag
    squint = 0.3 * max(0.0, face.smile)
    # From inner to outer corner: along the eye, and up.
    up = [
        (-1.0, -0.012),
        (-0.5, 0.80 * opening),
        (0.04, opening),
        (0.58, 0.74 * opening),
        (1.0, tilt),
    ]
    low_h = 0.070 * who.eye_size * (1.0 + 0.4 * cues.baby) * min(1.1, face.eyes) * (1.0 - squint)
    low = [(0.55, -0.66 * low_h + 0.4 * tilt), (0.05, -low_h), (-0.5, -0.72 * low_h)]

    def place(
        pairs: list[tuple[float, float]], lift: float = 0.0, grow: float = 1.0, forward: float = 0.0
    ) -> F32:
        u = np.array(pairs)
        x = gap + u[:, 0] * length * grow
        z = 0.715 - 0.13 * u[:, 0] * 0.5 + 0.055 * (1 - u[:, 0] ** 2) + forward
        return np.stack([side * x, -(u[:, 1] + lift), z], axis=1).astype(np.float32)

    crease = 0.055 + 0.02 * cues.baby + 0.02 * (face.eyes - 1.0) - 0.028 * cues.sag
    bag = [
        (-0.85, -low_h - 0.04),
        (-0.3, -low_h - 0.095),
        (0.35, -low_h - 0.09),
        (0.9, -0.35 * low_h - 0.04),
    ]
    return {
        "lid": place([*up, *low]),
        "crease": place([(u, h) for u, h in up], crease, 1.06, 0.03),
        "bag": place(bag, -0.02, 1.0, 0.02),
        "iris": place([(0.0, 0.012)], 0.0, 1.0, 0.0),
    }


def _brow(params: FaceParams, cues: AgeCues, side: float) -> F32:
    who, face = params.identity, params.expression
    lift = 0.075 * face.brow - 0.05 * cues.sag + 0.04 * cues.baby
    base = 0.262 * who.brow_height
    arch = 0.055 * who.brow_arch * (1.0 - 0.4 * cues.baby)
    knit = face.knit
    gap = 0.43 * who.eye_gap
    xs = np.array([-0.275 + 0.02 * -abs(knit), -0.13, 0.03, 0.17, 0.275])
    up = np.array(
        [
            0.008 - 0.055 * knit,
            arch * 0.62 - 0.02 * knit,
            arch * 0.98,
            arch * 0.82,
            -0.055 - 0.035 * cues.sag,
        ]
    )
    z = np.array([0.89, 0.88, 0.83, 0.74, 0.63])
    return np.stack([side * (gap + xs), -(base + lift + up), z], axis=1).astype(np.float32)


def _nose(params: FaceParams, cues: AgeCues, lower: float) -> dict[str, F32]:
    who = params.identity
    long = lower * who.nose_length * (0.5 + 0.5 * cues.growth) * (1.0 - 0.08 * cues.baby)
    wide = who.nose_width * (0.3 + 0.7 * cues.growth) * (1.0 - 0.1 * cues.baby)
    out = 0.36 * (1.0 - 0.3 * cues.baby)
    tip, base = 0.525 * long, 0.645 * long
    w = 0.215 * wide
    return {
        "bridge": np.array(
            [(0, -0.02, 0.86), (0, 0.15 * long, 0.94), (0, 0.34 * long, 0.96 + 0.5 * out)],
            np.float32,
        ),
        "tip": np.array([(0, tip, 0.86 + out)], np.float32),
        "base": np.array([(0, base, 0.83 + 0.68 * out)], np.float32),
        "alae": np.array(
            [(-w, 0.955 * base - 0.03, 0.9), (w, 0.955 * base - 0.03, 0.9)], np.float32
        ),
        "nostrils": np.array(
            [(-0.50 * w, base - 0.012, 1.02), (0.50 * w, base - 0.012, 1.02)], np.float32
        ),
    }


def _mouth(params: FaceParams, cues: AgeCues, lower: float, drop: float) -> dict[str, F32]:
    who, face = params.identity, params.expression
    y = 0.945 * lower * (0.5 + 0.5 * who.face_length)
    smile = face.smile
    pucker = max(0.0, face.jaw - 0.6 * max(0.0, smile))
    half = 0.318 * who.mouth_width * (1.0 - 0.1 * cues.baby + 0.2 * max(0.0, smile) - 0.12 * pucker)
    full = (
        who.lip_fullness
        * (1.0 - 0.58 * cues.thin_lips)
        * (1.0 - 0.18 * max(0.0, smile))
        * (1.0 - 0.1 * cues.baby)
    )
    up, low = 0.098 * full, 0.125 * full
    corner = -0.012 - (0.115 if smile > 0 else 0.075) * smile + 0.03 * cues.sag + 0.33 * drop
    lift = 0.02 * max(0.0, smile)
    cz, mz = 0.84, 1.0
    top = [
        (-half, y + corner, cz),
        (-0.52 * half, y - 0.62 * up + 0.35 * corner - lift, 0.95),
        (-0.2 * half, y - 1.06 * up - lift, mz),
        (0.0, y - 0.88 * up - lift, mz + 0.02),
        (0.2 * half, y - 1.06 * up - lift, mz),
        (0.52 * half, y - 0.62 * up + 0.35 * corner - lift, 0.95),
        (half, y + corner, cz),
    ]
    bottom = [
        (0.55 * half, y + 0.78 * low + 0.35 * corner + 0.92 * drop, 0.95),
        (0.0, y + low + drop, mz),
    ]
    bottom += [(-0.55 * half, bottom[0][1], 0.95)]
    mid = y + 0.006 - lift + 0.02 * max(0.0, smile)
    upper_in = [
        (-0.9 * half, y + 0.93 * corner, cz),
        (-0.45 * half, mid + 0.32 * corner, 0.95),
        (0.0, mid + 0.008, mz),
    ]
    upper_in += [(-p[0], p[1], p[2]) for p in upper_in[1::-1]]
    lower_in = [
        (p[0], p[1] + 0.9 * drop * (1.0 - (p[0] / half) ** 2) ** 0.6 + 0.002, p[2])
        for p in upper_in
    ]
    return {
        "lips": np.array(top + bottom, np.float32),
        "mouth_top": np.array(upper_in, np.float32),
        "mouth_bottom": np.array(lower_in, np.float32),
    }


def _ear(params: FaceParams, cues: AgeCues, side: float) -> F32:
    k = params.identity.ear_size * (0.25 + 0.75 * cues.growth) * (1.0 - 0.1 * cues.baby)
    # Away from the head, down from the middle, backward.
    outline = np.array(
        [
            (-0.02, -0.24, 0.02),
            (0.07, -0.33, -0.06),
            (0.155, -0.26, -0.16),
            (0.165, -0.08, -0.19),
            (0.115, 0.12, -0.14),
            (0.05, 0.27, -0.04),
            (-0.03, 0.25, 0.02),
            (-0.03, 0.0, 0.04),
        ]
    )
    x = 0.955 + outline[:, 0] * k
    y = 0.14 + outline[:, 1] * k
    z = -0.12 + outline[:, 2] * k
    return np.stack([side * x, y, z], axis=1).astype(np.float32)


def build_shape(params: FaceParams, cues: AgeCues) -> Shape:
    """Head, features and landmarks of one person at one age in one expression, before the pose."""
    who = params.identity
    lower = who.face_length * (1.0 - 0.30 * cues.baby - 0.05 * (1.0 - cues.mature))
    drop = 0.30 * params.expression.jaw * lower
    rows = _rows(params, cues, lower, drop)
    chin_y = 1.505 * lower + drop + 0.02 * cues.sag
    points: dict[str, F32] = {}
    for name, side in (("right", -1.0), ("left", 1.0)):
        points.update({f"{name}_{k}": v for k, v in _eye(params, cues, side).items()})
        points[f"{name}_brow"] = _brow(params, cues, side)
        points[f"{name}_ear"] = _ear(params, cues, side)
    points.update(_nose(params, cues, lower))
    points.update(_mouth(params, cues, lower, drop))
    jaw_w = float(np.interp(1.0 * lower, rows[:, 0], rows[:, 1]))
    cheek_w = float(np.interp(0.2 * lower, rows[:, 0], rows[:, 1]))
    points["oval"] = np.array(
        [
            (-cheek_w, 0.2 * lower, -0.06),
            (cheek_w, 0.2 * lower, -0.06),
            (-jaw_w, 1.0 * lower + 0.55 * drop, 0.24),
            (jaw_w, 1.0 * lower + 0.55 * drop, 0.24),
        ],
        np.float32,
    )
    return Shape(
        rows=rows,
        top=np.array([0.0, -1.425 * who.forehead, -0.2], np.float32),
        chin=np.array([0.0, chin_y, 0.72], np.float32),
        points=points,
        iris=0.088 * (0.6 + 0.4 * who.eye_size) * (1.0 + 0.3 * cues.baby),
        brow=0.078 * who.brow_thickness * (0.42 + 0.58 * cues.mature) * (1.0 - 0.25 * cues.thin),
        lower=lower,
    )
