"""Skin: shade and marks to colour, lines of age, ears, neck."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._lines import age_lines
from ._palettes import mix, scale, skin_colour
from ._raster import (
    F32,
    U8,
    bounds,
    curve,
    dot,
    fill,
    mask_of,
    paint,
    ramp_table,
    shaded,
    soft,
    strokes,
)
from ._relief import blush, shade_head

if TYPE_CHECKING:
    from ._cues import AgeCues
    from ._palettes import RGB
    from ._types import FaceParams
    from ._view import View


def skin_table(params: FaceParams, cues: AgeCues) -> U8:
    """Shade to skin colour: shadows are deeper and redder, lights paler."""
    r, g, b = skin_colour(params.identity.skin, params.identity.undertone)
    grey = (r + g + b) / 3
    base = mix((r, g, b), (grey * 1.05, grey, grey * 0.93), 0.24 * cues.dull)
    dark = params.identity.skin
    deep = (base[0] * 0.42, base[1] * 0.30, base[2] * 0.28)
    low = (base[0] * 0.83, base[1] * 0.69, base[2] * 0.64)
    high = mix(base, (255, 244, 230), 0.38 - 0.12 * dark)
    peak = mix(base, (255, 252, 246), 0.8 - 0.3 * dark)
    return ramp_table(
        [
            (0.0, scale(deep, 0.7)),
            (0.18, deep),
            (0.42, low),
            (0.68, base),
            (0.86, high),
            (1.0, peak),
        ]
    )


def _pigment(params: FaceParams, cues: AgeCues, view: View) -> U8:
    """Freckles, moles and age spots as brownness, 0..255."""
    who = params.identity
    out = np.zeros((view.size, view.size), np.uint8)
    rng = np.random.default_rng(who.seed)
    xy = rng.uniform((-0.7, -0.75), (0.7, 1.2), (14, 2))
    size = rng.uniform(0.6, 1.4, 14)
    spots = np.column_stack([xy * (1.0, view.shape.lower), 0.9 - 0.42 * xy[:, 0] ** 2]).astype(
        np.float32
    )
    for i, at in enumerate(view.project(spots)):
        k = min(1.0, max(0.0, 2.2 * cues.spots - 0.2 * i))
        if k > 0.05:
            dot(out, at, 0.05 * size[i] * view.unit, 80.0 * k)
    n = int(70 * who.freckles)
    if n:
        side = rng.choice([-1.0, 1.0], n)
        fx = side * np.abs(0.42 + 0.2 * rng.standard_normal(n))
        fy = (0.42 + 0.12 * rng.standard_normal(n)) * view.shape.lower
        shown = 0.5 + 0.5 * cues.mature if cues.baby < 0.6 else 0.15
        for at in view.project(np.column_stack([fx, fy, 0.95 - 0.45 * fx**2]).astype(np.float32)):
            dot(out, at, 0.021 * view.unit, 150.0 * shown * (0.6 + 0.4 * who.freckles))
    out = soft(out, 0.02 * view.unit)
    mx = rng.uniform((-0.65, 0.25), (0.65, 1.25), (4, 2)) * (1.0, view.shape.lower)
    moles = np.column_stack([mx, 0.95 - 0.5 * mx[:, 0] ** 2]).astype(np.float32)
    for at in view.project(moles)[: who.moles if cues.baby < 0.5 else 0]:
        dot(out, at, 0.02 * view.unit, 215.0)
    return out


def _head_shade(
    params: FaceParams, cues: AgeCues, view: View, hair_shadow: U8, roi: tuple[slice, slice]
) -> F32:
    """Shade of the skin within a region: relief, lines (each with a light lower edge), hair's
    shadow, pores.
    """
    bare = shade_head(params, cues, view)[roi]
    lines = soft(age_lines(params, cues, view), 0.017 * view.unit)
    edge = np.roll(lines, max(1, round(0.035 * view.unit)), axis=0)
    shade: F32 = bare - lines[roi] * np.float32(0.36 / 255) + edge[roi] * np.float32(0.1 / 255)
    shade -= hair_shadow[roi] * np.float32(0.2 / 255)
    if cues.rough > 0.02:
        rng = np.random.default_rng(params.identity.seed + 7)
        n = view.size // 2 + 1
        pores = (
            soft(rng.integers(0, 256, (n, n), dtype=np.uint8), 0.8)
            .repeat(2, axis=0)
            .repeat(2, axis=1)
        )
        h, w = shade.shape
        shade += (pores[:h, :w] - np.float32(127.5)) * np.float32(0.085 / 127 * cues.rough)
    return shade


def paint_head(
    canvas: U8, params: FaceParams, cues: AgeCues, view: View, table: U8, hair_shadow: U8
) -> None:
    """Lay the bare head, without features, on the canvas."""
    mask = mask_of(view.size, view.outline)
    roi = bounds(view.outline, view.size)
    layer = shaded(table, _head_shade(params, cues, view, hair_shadow, roi)).astype(np.float32)
    red = blush(params, cues, view)[roi]
    brown = _pigment(params, cues, view)[roi] * np.float32(1 / 255)
    layer *= 1.0 - red[..., None] * np.array([0.015, 0.17, 0.14], np.float32)
    layer *= 1.0 - brown[..., None] * np.array([0.36, 0.52, 0.6], np.float32)
    region = canvas[roi]
    base = region.astype(np.float32)
    base += (layer - base) * (mask[roi] * np.float32(1 / 255))[..., None]
    base += 0.5
    region[...] = base


def tone(table: U8, shade: float) -> RGB:
    """One colour out of a shade table."""
    r, g, b = table[min(max(round(shade * 255), 0), 255)]
    return (float(r), float(g), float(b))


def paint_ear(canvas: U8, params: FaceParams, view: View, side: str, table: U8) -> None:
    """One ear: outline, rim and hollow."""
    control = view.points[f"{side}_ear"]
    outline = curve(control, 5, closed=True)
    lit = (params.light.azimuth / 90.0) * (1.0 if side == "left" else -1.0) * params.light.strength
    base = 0.52 + 0.12 * lit
    fill(canvas, outline, mix(tone(table, base), (205, 96, 80), 0.12))
    middle = control.mean(axis=0)
    inner = curve(middle + (control - middle) * np.float32(0.58), 5, closed=True)
    mask = soft(mask_of(view.size, inner), 0.03 * view.unit)
    paint(canvas, mask, tone(table, base - 0.24), 0.75, bounds(outline, view.size, 4))
    rim = curve(middle + (control[1:6] - middle) * np.float32(0.86), 5)
    strokes(canvas, [rim], tone(table, base + 0.13), 0.03 * view.unit)
