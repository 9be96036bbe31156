"""Colour and light on hair: locks, strands, beards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from ._features import hair_base
from ._hairdo import Hairdo, Lock, resample
from ._palettes import mix, scale
from ._raster import F32, U8, bounds, curve, fill, mask_of, paint, ramp_table, shaded, soft, strokes
from ._relief import light_vector, slopes

if TYPE_CHECKING:
    from ._cues import AgeCues
    from ._types import FaceParams
    from ._view import View

_LOW = 40


def hair_table(params: FaceParams, cues: AgeCues) -> U8:
    """Shade to hair colour."""
    base = hair_base(params, cues)
    high = mix(scale(base, 1.3), (255, 236, 205), 0.16 + 0.1 * (1 - cues.grey))
    return ramp_table(
        [
            (0.0, scale(base, 0.30)),
            (0.35, scale(base, 0.68)),
            (0.6, base),
            (0.82, mix(base, high, 0.6)),
            (1.0, mix(high, (255, 250, 240), 0.3)),
        ]
    )


def _volume(mask: U8, params: FaceParams, view: View) -> F32:
    """Light on hair as if its mask were inflated, (size, size)."""
    small = cv2.resize(mask, (_LOW, _LOW), interpolation=cv2.INTER_AREA).astype(np.float32)
    sigma = 0.2 * view.unit / view.size * _LOW
    height = cv2.GaussianBlur(small, (0, 0), sigma).astype(np.float32, copy=False)
    gx, gy = slopes(height, 1.0)
    lx, ly, _ = light_vector(params.light)
    k = sigma / 255.0 * 1.5
    lit = 0.5 - params.light.strength * 0.34 * k * (gx * lx + gy * ly) * 2.0
    big: F32 = cv2.resize(
        lit.astype(np.float32), (view.size, view.size), interpolation=cv2.INTER_LINEAR
    ).astype(np.float32, copy=False)
    return big


def _comb(dark: U8, light: U8, lock: Lock, unit: float, seed: int) -> None:
    """Strands between the two edges of a lock, and a band of sheen."""
    n = 28
    a, b = resample(lock.first, n), resample(lock.second, n)
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.03, 0.97, 26)).astype(np.float32)[:, None, None]
    lines = a + (b - a) * t
    lines = lines + (rng.standard_normal((26, 1, 2)) * 0.01 * unit).astype(np.float32)
    starts, ends = rng.integers(0, n // 2, 26), rng.integers(n // 2, n, 26)
    cut = [line[s:e] for line, s, e in zip(lines, starts, ends, strict=True)]
    strokes(dark, cut[::2], 200, 0.02 * unit)
    strokes(light, cut[1::2], 150, 0.02 * unit)
    band = curve((a + (b - a) * np.float32(0.45))[6:-6], 2)
    strokes(light, [band], 150, 0.09 * unit)


def _curls(dark: U8, light: U8, lock: Lock, unit: float, seed: int) -> None:
    """Little arcs, dark below and light above, all over a lock."""
    rng = np.random.default_rng(seed)
    low, high = lock.outline.min(axis=0), lock.outline.max(axis=0)
    n = 130
    at = rng.uniform(low, high, (n, 2))
    r = rng.uniform(0.05, 0.1, n) * unit
    phi = np.linspace(0, np.pi, 7)
    arc = np.stack([np.cos(phi), np.sin(phi)], axis=1)
    lower = at[:, None] + arc * r[:, None, None]
    upper = at[:, None] - arc * r[:, None, None] * 0.8
    strokes(dark, lower.astype(np.float32), 190, 0.025 * unit)
    strokes(light, upper.astype(np.float32), 150, 0.025 * unit)


def _texture(params: FaceParams, do: Hairdo, locks: tuple[Lock, ...], view: View) -> F32:
    dark = np.zeros((view.size, view.size), np.uint8)
    light = np.zeros_like(dark)
    seed = params.identity.seed
    for i, lock in enumerate(locks):
        if do.style.texture == "curl":
            _curls(dark, light, lock, view.unit, seed + i)
        elif do.style.texture != "grain":
            _comb(dark, light, lock, view.unit, seed + i)
    sigma = 0.016 * view.unit
    delta = soft(light, sigma).astype(np.float32) * np.float32(0.15) - soft(dark, sigma).astype(
        np.float32
    ) * np.float32(0.17)
    result: F32 = delta * np.float32(1 / 255)
    return result


def front_mask(do: Hairdo, view: View) -> U8:
    """Mask of all front hair."""
    mask = np.zeros((view.size, view.size), np.uint8)
    for lock in do.front:
        fill(mask, lock.outline, 255)
    return mask


def paint_back(
    canvas: U8, params: FaceParams, cues: AgeCues, do: Hairdo, view: View, table: U8
) -> None:
    """Hair at the back of the head and neck."""
    for lock in do.front if not do.back and len(do.front) == 1 else ():
        # Short hair shows past the far temple of a turned head.
        r, g, b = table[150 if do.style.texture == "grain" else 80]
        fill(canvas, lock.first, (float(r), float(g), float(b)))
    if not do.back:
        return
    mask = np.zeros((view.size, view.size), np.uint8)
    for lock in do.back:
        fill(mask, lock.outline, 255)
    roi = bounds(np.concatenate([lock.outline for lock in do.back]), view.size)
    shade = (
        _volume(mask, params, view)[roi]
        - np.float32(0.08)
        + _texture(params, do, do.back, view)[roi]
    )
    paint(canvas, mask, shaded(table, shade), 1.0, roi)


def paint_front(
    canvas: U8, params: FaceParams, cues: AgeCues, do: Hairdo, view: View, table: U8, mask: U8
) -> None:
    """Hair over the head."""
    if not do.front:
        return
    size, unit = view.size, view.unit
    grain = do.style.texture == "grain"
    roi = bounds(np.concatenate([lock.outline for lock in do.front]), size, 0.1 * unit)
    shade = _volume(mask, params, view)[roi] + _texture(params, do, do.front, view)[roi]
    edge = soft(mask, (0.045 if grain else 0.014) * unit)
    if grain or cues.thin > 0.3:
        rng = np.random.default_rng(params.identity.seed + 3)
        noise = rng.integers(0, 256, (size, size), dtype=np.uint8)
        k = 0.3 if grain else 0.35 * (cues.thin - 0.3)
        edge = (edge * (1.0 - k * noise.astype(np.float32) / 255.0)).astype(np.uint8)
    opacity = (1.0 - 0.35 * cues.thin) * (1.0 - 0.45 * cues.fuzz) * (0.9 if grain else 1.0)
    layer = shaded(table, shade)
    paint(canvas, edge, layer, opacity, roi)


def _beard_outline(view: View, full: float) -> F32:
    """The outline from sideburn to sideburn: around the jaw, and back over cheeks and upper lip."""
    low, p, rows = view.shape.lower, view.shape.points, view.shape.rows
    left, right = view.sides(rows[rows[:, 0] > 0.12], 0.015 + 0.05 * full)
    chin = view.chin + view.axis(0.0, (0.03 + 0.13 * full) * view.unit)
    half = view.axis(0.2 * view.unit, 0.0)
    lip_y, base_y, corner = p["lips"][3, 1], p["base"][0, 1], p["lips"][6]
    cheek = [(0.93, 0.15, 0.2), (0.8, 0.62 * low, 0.45), (0.56, 0.82 * low, 0.68)]
    lip = [
        (corner[0] + 0.1, corner[1] - 0.1, 0.82),
        (0.17, base_y + 0.05, 0.98),
        (0.0, 0.5 * (base_y + lip_y), 1.04),
    ]
    inner = np.array([*cheek, *lip], np.float32)
    mirror = inner[:-1] * np.array([-1, 1, 1], np.float32)
    line = view.project(np.concatenate([mirror, inner[::-1]]))
    loop = np.concatenate([left, [chin - half, chin + half], right[::-1]]).astype(np.float32)
    return np.concatenate([curve(loop, 4), curve(line, 4)[::-1]])


def paint_beard(canvas: U8, params: FaceParams, cues: AgeCues, view: View, table: U8) -> None:
    """Beard and moustache, from stubble to full."""
    if cues.beard < 0.08:
        return
    unit, size = view.unit, view.size
    full = max(0.0, cues.beard - 0.45) / 0.55
    outline = _beard_outline(view, full)
    sharp = mask_of(size, outline)
    mask = soft(sharp, (0.05 - 0.02 * full) * unit)
    lips = curve(view.points["lips"], 4, closed=True)
    middle = lips.mean(axis=0)
    fill(mask, middle + (lips - middle) * np.float32(1.12), 0)
    rng = np.random.default_rng(params.identity.seed + 5)
    noise = soft(rng.integers(0, 256, (size, size), dtype=np.uint8), 0.7).astype(np.float32)
    mask = (soft(mask, 0.02 * unit) * (0.55 + 0.45 * noise / 255.0)).astype(np.uint8)
    shade = _volume(sharp, params, view) - 0.06 + (noise - 127) * np.float32(0.0012)
    opacity = 0.38 + 0.75 * full if full else 0.2 + 0.4 * cues.beard
    paint(canvas, mask, shaded(table, shade), min(1.0, opacity), bounds(outline, size, 0.1 * unit))
