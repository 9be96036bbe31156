"""Around the head: background, neck, shoulders, clothes; and what the camera adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from ._palettes import COLOURS, mix, scale
from ._raster import F32, U8, bounds, curve, fill, mask_of, paint, shaded, soft, strokes

if TYPE_CHECKING:
    from ._cues import AgeCues
    from ._types import Background, Camera, FaceParams, Light
    from ._view import View


def _blend(
    size: int, weight: F32, first: tuple[float, float, float], second: tuple[float, float, float]
) -> U8:
    small = np.asarray(first, np.float32) + weight[..., None] * (
        np.asarray(second, np.float32) - np.asarray(first, np.float32)
    )
    return cv2.resize(small.clip(0, 255), (size, size), interpolation=cv2.INTER_LINEAR).astype(
        np.uint8
    )


def paint_background(spec: Background, size: int) -> U8:
    """A (size, size, 3) backdrop."""
    rng = np.random.default_rng(spec.seed)
    colour, accent = COLOURS[spec.colour], mix(COLOURS[spec.colour], COLOURS[spec.accent], 0.55)
    at = np.linspace(0.0, 1.0, 32, dtype=np.float32)
    x, y = np.meshgrid(at, at)
    wall = 0.18 * y + 0.06 * x
    if spec.kind == "gradient":
        wall = y
    elif spec.kind == "glow":
        wall = 1.0 - np.exp(-((x - 0.5) ** 2 + (y - 0.45) ** 2) / 0.13)
    out = _blend(
        size, wall, colour, accent if spec.kind in ("gradient", "glow") else scale(colour, 0.82)
    )
    if spec.kind == "stripes":
        n, lean = int(rng.integers(5, 9)), float(rng.uniform(-0.5, 0.5))
        for i in range(-n, 2 * n):
            a, b = i / n * size, (i + 0.5) / n * size
            quad = np.array(
                [(a, 0), (b, 0), (b + lean * size, size), (a + lean * size, size)], np.float32
            )
            fill(out, quad, mix(colour, accent, 0.4))
    elif spec.kind == "dots":
        n = int(rng.integers(6, 10))
        for i in range(n + 1):
            for j in range(n + 1):
                centre = ((j + 0.5 * (i % 2)) / n * size, i / n * size)
                cv2.circle(
                    out,
                    (round(centre[0] * 16), round(centre[1] * 16)),
                    round(0.2 / n * size * 16),
                    mix(colour, accent, 0.7),
                    -1,
                    cv2.LINE_AA,
                    4,
                )
    elif spec.kind in ("bokeh", "hills"):
        _soft_scene(out, spec.kind, rng, colour, accent)
    return out


def _soft_scene(
    out: U8,
    kind: str,
    rng: np.random.Generator,
    colour: tuple[float, float, float],
    accent: tuple[float, float, float],
) -> None:
    """Out-of-focus lights, or hills, in place."""
    size = len(out)
    if kind == "bokeh":
        for _ in range(14):
            layer = np.zeros((size, size), np.uint8)
            x, y, r = rng.uniform(0, size), rng.uniform(0, size), rng.uniform(0.03, 0.1) * size
            cv2.circle(
                layer, (round(x * 16), round(y * 16)), round(r * 16), 255, -1, cv2.LINE_AA, 4
            )
            box = bounds(np.array([(x - r, y - r), (x + r, y + r)], np.float32), size)
            paint(out, layer, mix(accent, (255, 250, 235), 0.35), float(rng.uniform(0.2, 0.5)), box)
        return
    for i in range(3):
        base = 0.45 + 0.17 * i
        xs = np.linspace(-0.05, 1.05, 8)
        ys = base + 0.06 * rng.standard_normal(8)
        ridge = curve(np.column_stack([xs, ys]).astype(np.float32) * np.float32(size), 5)
        floor = np.array([(1.1 * size, 1.1 * size), (-0.1 * size, 1.1 * size)], np.float32)
        fill(
            out,
            np.concatenate([ridge, floor]),
            mix(scale(colour, 0.94 - 0.08 * i), accent, 0.25 + 0.2 * i),
        )


def _body(view: View, cues: AgeCues) -> tuple[F32, F32, tuple[float, float, float]]:
    """Outlines of neck and clothes, then the neckline: its x, y and half width.

    The body stays upright under a turned head. Both outlines are symmetric, so their right halves
    mirror the left.
    """
    u = view.unit
    young = min(1.0, cues.baby * 1.15)
    head_x = float(view.centre[0])
    x0 = view.size / 2 + 0.55 * (head_x - view.size / 2)
    chin = float(view.centre[1]) + (1.5 * view.shape.lower - 0.42) * u
    neck = (0.51 - 0.14 * young + 0.08 * cues.mature) * u
    collar = chin + (0.42 - 0.24 * young) * u
    wide = (2.0 - 0.62 * young - 0.25 * (1.0 - cues.mature) * (1.0 - young)) * u
    ground = view.size + 0.3 * u - collar
    throat = [
        (neck, chin - collar + 0.02 * u),
        (1.12 * neck, -0.05 * u),
        (1.7 * neck, 0.16 * u),
        (neck, 0.7 * u),
    ]
    shoulder = [
        (wide + 0.15 * u, ground),
        (wide, 0.9 * u),
        (0.82 * wide, 0.46 * u),
        (1.85 * neck, 0.14 * u),
        (1.2 * neck, -0.05 * u),
    ]

    def mirrored(half: list[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(x0 - x, collar + y) for x, y in half] + [
            (x0 + x, collar + y) for x, y in half[::-1]
        ]

    nape = [(head_x + 0.95 * neck, chin - 0.75 * u), (head_x - 0.95 * neck, chin - 0.75 * u)]
    return (
        np.array([*mirrored(throat), *nape], np.float32),
        np.array(mirrored(shoulder), np.float32),
        (x0, collar, neck),
    )


def paint_body(
    canvas: U8, params: FaceParams, cues: AgeCues, view: View, table: U8, head_outline: F32
) -> None:
    """Neck, shoulders and clothes."""
    u, size = view.unit, view.size
    neck, clothes, (x0, collar, half) = _body(view, cues)
    lamp = params.light.azimuth / 90.0 * params.light.strength
    mask = mask_of(size, curve(neck, 4, closed=True))
    roi = bounds(neck, size)
    shadow = soft(
        mask_of(size, head_outline + np.array([-0.12 * lamp * u, 0.2 * u], np.float32)), 0.09 * u
    )
    across = ((np.arange(size, dtype=np.float32)[roi[1]] - x0) / half)[None, :].astype(np.float32)
    shade = (
        0.62 + 0.1 * lamp * across - 0.12 * np.square(across) - shadow[roi] * np.float32(0.26 / 255)
    )
    if cues.neck > 0.05:
        lines = np.zeros((size, size), np.uint8)
        for i in range(3):
            y = collar - (0.02 + 0.14 * i) * u
            path = np.array(
                [
                    (x0 - 0.75 * half, y - 0.04 * u),
                    (x0, y + 0.03 * u),
                    (x0 + 0.75 * half, y - 0.04 * u),
                ],
                np.float32,
            )
            strokes(lines, [curve(path, 5)], 255, 0.03 * u)
        shade -= soft(lines, 0.02 * u)[roi] * np.float32(0.16 / 255 * cues.neck)
    paint(canvas, mask, shaded(table, shade), 1.0, roi)
    _clothe(canvas, params, view, clothes, (x0, collar, half), lamp)


def _clothe(
    canvas: U8,
    params: FaceParams,
    view: View,
    outline: F32,
    at: tuple[float, float, float],
    lamp: float,
) -> None:
    u, size = view.unit, view.size
    x0, collar, half = at
    colour = COLOURS[params.clothes]
    dip = {"crew": 0.2, "vee": 0.5, "shirt": 0.36}[params.collar] * u
    if params.collar == "crew":
        inner = [
            (x0 + 0.7 * half, collar + 0.72 * dip),
            (x0, collar + dip),
            (x0 - 0.7 * half, collar + 0.72 * dip),
        ]
    else:
        inner = [
            (x0 + 0.5 * half, collar + 0.5 * dip),
            (x0, collar + dip),
            (x0 - 0.5 * half, collar + 0.5 * dip),
        ]
    left, right = curve(outline[:5], 4), curve(outline[5:], 4)
    rim = curve(np.array([outline[4], *inner[::-1], outline[5]], np.float32), 5)
    mask = mask_of(size, np.concatenate([left, rim, right]))
    roi = bounds(outline, size)
    xs = (np.arange(size, dtype=np.float32) - x0) / (2.0 * u)
    ys = (np.arange(size, dtype=np.float32) - collar) / (1.6 * u)
    light = (1.0 + 0.16 * lamp * xs - 0.16 * xs**2)[None, :] * (1.04 - 0.2 * ys.clip(0, 1))[:, None]
    layer = light[..., None].astype(np.float32) * np.asarray(colour, np.float32)
    paint(canvas, mask, layer.clip(0, 255), 1.0, roi)
    if params.collar == "shirt":
        for s, corner in ((-1.0, outline[4]), (1.0, outline[5])):
            flap = np.array(
                [
                    corner,
                    (x0, collar + dip),
                    (x0 + s * 0.42 * half, collar + dip + 0.26 * u),
                    (corner[0] + s * 0.24 * u, corner[1] + 0.3 * u),
                ],
                np.float32,
            )
            fill(canvas, flap, scale(colour, 1.1))
            strokes(canvas, [flap], scale(colour, 0.72), 0.018 * u, closed=True)
    else:
        strokes(canvas, [rim], scale(colour, 0.76), 0.055 * u)


def grade(image: U8, light: Light) -> U8:
    """Colour of the lamp and exposure of the whole picture."""
    gain = np.array(
        [1.0 + 0.05 * light.warmth, 1.0, 1.0 - 0.07 * light.warmth], np.float32
    ) * np.float32(light.exposure)
    table = (np.arange(256, dtype=np.float32)[:, None] * gain + 0.5).clip(0, 255).astype(np.uint8)
    return cv2.LUT(image, table[None]).astype(np.uint8, copy=False)


def expose(canvas: U8, camera: Camera, size: int) -> U8:
    """Down to the final size, then lens blur and sensor noise."""
    out = cv2.resize(canvas, (size, size), interpolation=cv2.INTER_AREA)
    if camera.blur * size > 0.2:
        out = cv2.GaussianBlur(out, (0, 0), camera.blur * size)
    if camera.noise > 0.05:
        rng = np.random.default_rng(camera.seed)
        grain = rng.standard_normal((size, size, 3), dtype=np.float32)
        out = (out + grain * np.float32(camera.noise) + 0.5).clip(0, 255).astype(np.uint8)
    return np.ascontiguousarray(out, dtype=np.uint8)
