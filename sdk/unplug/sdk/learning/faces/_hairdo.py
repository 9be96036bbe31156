"""Where the hair is: outlines of each hair style on the turned head, before any colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ._raster import F32, curve

if TYPE_CHECKING:
    from ._cues import AgeCues
    from ._types import FaceParams
    from ._view import View


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a style is built.

    Args:
        volume: Height over the skull. end: y where front and back hair end (head units).
        spread: Extra width at the end. texture: comb, curl, spike or grain. bangs: Fringe down to
            the brows.
        part: Side parting, -1..1. bun, tail: Extra knots at the back.
    """

    volume: float
    end: float = 0.1
    spread: float = 0.0
    texture: str = "comb"
    bangs: bool = False
    part: float = 0.0
    bun: bool = False
    tail: bool = False

    @property
    def long(self) -> bool:
        """Whether the hair covers the ears."""
        return self.end > 0.6


STYLES: dict[str, Style] = {
    "short hair": Style(volume=0.13),
    "side-parted hair": Style(volume=0.18, part=0.55),
    "spiky hair": Style(volume=0.2, texture="spike"),
    "buzz cut": Style(volume=0.03, texture="grain"),
    "curly hair": Style(volume=0.24, end=0.2, texture="curl"),
    "afro": Style(volume=0.42, end=0.45, spread=0.1, texture="curl"),
    "bob": Style(volume=0.15, end=1.12, spread=0.12, part=0.35),
    "bob with bangs": Style(volume=0.15, end=1.05, spread=0.12, bangs=True),
    "long straight hair": Style(volume=0.13, end=2.8, spread=0.12),
    "long wavy hair": Style(volume=0.19, end=2.8, spread=0.3, part=-0.4),
    "bun": Style(volume=0.07, bun=True, part=0.2),
    "ponytail": Style(volume=0.09, tail=True, bangs=True),
    "bald": Style(volume=0.025, texture="grain"),
}


@dataclass(frozen=True, kw_only=True)
class Lock:
    """One piece of hair: its closed outline, and the two edges (M, 2) between which strands run."""

    outline: F32
    first: F32
    second: F32


@dataclass(frozen=True, kw_only=True)
class Hairdo:
    """All hair of one head. `ears`: whether the ears show."""

    style: Style
    back: tuple[Lock, ...]
    front: tuple[Lock, ...]
    ears: bool


def resample(path: F32, n: int) -> F32:
    """(n, 2) points evenly along a path."""
    step = np.hypot(*np.diff(path, axis=0).T)
    at = np.concatenate([[0.0], np.cumsum(step)])
    to = np.linspace(0.0, at[-1], n)
    return np.stack([np.interp(to, at, path[:, 0]), np.interp(to, at, path[:, 1])], axis=1).astype(
        np.float32
    )


def _rows(view: View, style: Style, volume: float) -> tuple[F32, F32]:
    """Slices of the hair's outside, and how far each stands off the head."""
    rows = view.shape.rows
    keep = rows[rows[:, 0] < min(style.end, 0.25) - 0.05]
    grow = volume * np.interp(
        keep[:, 0], [-1.4, -0.5, 0.15], [1.0, 0.85, 0.6 if style.long or style.end > 0.3 else 0.22]
    )
    if style.long:
        low = view.shape.lower
        ys = np.linspace(0.35, style.end, 5)
        t = (ys - 0.35) / max(style.end - 0.35, 0.1)
        extra = np.stack(
            [
                ys * (low if style.end < 1.5 else 1.0),
                1.0 + volume * 0.7 + style.spread * t,
                np.full(5, -0.15),
                0.95 - 0.2 * t,
            ],
            axis=1,
        )
        keep = np.concatenate([keep, extra])
        grow = np.concatenate([grow, np.zeros(5)])
    return keep.astype(np.float32), grow.astype(np.float32)


def _outer(view: View, rows: F32, grow: F32, volume: float) -> F32:
    """The curve from the left end over the crown to the right end."""
    y = rows.copy()
    y[:, 0] -= np.where(
        y[:, 0] < -0.4, volume * 0.9 * np.interp(-y[:, 0], [0.4, 1.4], [0.0, 1.0]), 0.0
    )
    left, right = view.sides(y, grow)  # type: ignore[arg-type]
    top = view.project((view.shape.top - np.array([0.0, volume, 0.0], np.float32))[None])
    return np.concatenate([left[::-1], top, right]).astype(np.float32)


def _hairline(params: FaceParams, cues: AgeCues, view: View, style: Style) -> F32:
    """(9, 3) head points from the right sideburn (image left) over the forehead."""
    who, r = params.identity, cues.recede
    f = who.forehead
    up = 0.42 * r + 0.10 * cues.baby
    corner, centre = -(0.86 + up) * f, -(0.88 + 0.10 * cues.baby + 0.42 * max(0.0, r - 0.3)) * f
    cz, mz = 0.68 - 0.35 * r, 0.86 - 0.35 * max(0.0, r - 0.3)
    part = style.part * (1.0 - r)
    line = [
        (0.965, 0.14, 0.14),
        (0.90, -0.24, 0.36),
        (0.85 - 0.02 * r, -0.50 - 0.12 * r, 0.50),
        (0.57, corner, cz),
        (0.24, centre, mz),
    ]
    left = [(-x, y, z) for x, y, z in line]
    pts = np.array([*left, (0.0, centre + 0.012, mz + 0.01), *line[::-1]], np.float32)
    if part:
        pts[:, 1] += (
            0.13
            * part
            * np.interp(pts[:, 0], [-0.7, 0.7], [1.0, -1.0]).astype(np.float32)
            * (np.abs(pts[:, 0]) < 0.7)
        )
    if style.bangs and r < 0.4:
        fringe = np.abs(pts[:, 0]) < 0.7
        pts[fringe, 1] = -0.44 - 0.05 * np.abs(pts[fringe, 0])
        pts[fringe, 2] += 0.06
    if style.long:
        low = view.shape.lower if style.end < 1.5 else 1.0
        tail = [
            (0.84 + 0.3 * style.spread, style.end * low, 0.1),
            (0.9, 0.62 * style.end * low, 0.16),
            (0.93, 0.25, 0.22),
        ]
        inner = np.array([(-x, y, z) for x, y, z in tail], np.float32)
        pts = np.concatenate([inner, pts[1:-1], np.array(tail[::-1], np.float32)])
    return pts


def _ruffle(path: F32, centre: F32, style: Style, unit: float, seed: int) -> F32:
    """Bumps of curls, or spikes, along a dense outer edge."""
    if style.texture not in ("curl", "spike"):
        return path
    n = 220 if style.texture == "curl" else 150
    even = resample(path, n)
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 1.0, n)
    fade = np.sin(np.pi * t) ** 0.4
    if style.texture == "curl":
        wave = np.abs(np.sin(t * 15.5 * np.pi + 0.6 * np.sin(t * 9 + rng.uniform(0, 6)))) * 0.085
    else:
        phase = (t * 15 + 0.3 * np.sin(t * 11 + rng.uniform(0, 6))) % 1.0
        wave = np.where(phase < 0.7, phase / 0.7, (1 - phase) / 0.3) * (
            0.12 + 0.07 * np.sin(t * 23 + 1)
        )
    out = even - centre
    out /= np.maximum(np.hypot(out[:, 0], out[:, 1]), 1e-3)[:, None]
    return (even + out * (wave * fade * unit)[:, None]).astype(np.float32)


def _horseshoe(view: View, params: FaceParams) -> tuple[Lock, ...]:
    """What is left around a bald crown: one patch per side."""
    rows = view.shape.rows
    keep = rows[(rows[:, 0] > -0.75 * params.identity.forehead) & (rows[:, 0] < 0.2)]
    grow = np.array([0.02, 0.09, 0.04], np.float32)[-len(keep) :]
    left, right = view.sides(keep, grow)  # type: ignore[arg-type]
    inner = np.array([(0.86, -0.66, 0.25), (0.88, -0.35, 0.36), (0.95, 0.1, 0.15)], np.float32)
    locks = []
    for edge, sign in ((left, -1.0), (right, 1.0)):
        second = view.project(inner * np.array([sign, 1, 1], np.float32))
        a, b = curve(edge, 5), curve(second, 5)
        locks.append(Lock(outline=np.concatenate([a, b[::-1]]), first=a, second=b))
    return tuple(locks)


def _knots(view: View, style: Style) -> tuple[Lock, ...]:
    locks = []
    if style.bun:
        t = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        ring = np.stack(
            [0.36 * np.cos(t), -1.66 + 0.31 * np.sin(t), np.full(24, -0.35)], axis=1
        ).astype(np.float32)
        out = view.project(ring)
        locks.append(Lock(outline=out, first=out[:12], second=out[12:][::-1]))
    if style.tail:
        a = np.array(
            [
                (0.3, -1.25, -0.8),
                (1.05, -1.2, -0.85),
                (1.42, -0.5, -0.8),
                (1.36, 0.5, -0.6),
                (1.12, 1.25, -0.5),
            ],
            np.float32,
        )
        b = np.array(
            [
                (0.3, -0.8, -0.8),
                (0.85, -0.7, -0.85),
                (0.98, -0.1, -0.8),
                (0.95, 0.6, -0.6),
                (1.1, 1.25, -0.5),
            ],
            np.float32,
        )
        first, second = curve(view.project(a), 5), curve(view.project(b), 5)
        locks.append(
            Lock(outline=np.concatenate([first, second[::-1]]), first=first, second=second)
        )
    return tuple(locks)


def build_hairdo(params: FaceParams, cues: AgeCues, view: View) -> Hairdo:
    """Outlines of the hair of one head in one pose."""
    who = params.identity
    style = STYLES[who.hair_style]
    if who.hair_style == "bald" and params.age < 18.0:
        style = STYLES["buzz cut"]
    if cues.fuzz > 0.5:
        style = Style(volume=0.035, texture="grain")
    if cues.recede > 0.72 or (who.hair_style == "bald" and params.age >= 18.0):
        return Hairdo(
            style=STYLES["bald"],
            back=(),
            front=_horseshoe(view, params) if cues.mature > 0.9 else (),
            ears=True,
        )
    volume = style.volume * (0.75 + 0.25 * cues.mature) * (1.0 - 0.35 * cues.thin)
    rows, grow = _rows(view, style, volume)
    edge = curve(_outer(view, rows, grow, volume), 5)
    head = (view.project(view.shape.top[None])[0] + view.chin) / 2
    outer = _ruffle(edge, head, style, view.unit * (volume / max(style.volume, 1e-3)), who.seed)
    if who.hair_style == "long wavy hair" and style.long:
        t = np.linspace(0, 1, len(outer))
        wave = 0.05 * view.unit * np.sin(t * 34) * np.abs(2 * t - 1) ** 2
        outer = outer + np.outer(wave, view.axis(1.0, 0.0)).astype(np.float32)
    inner = curve(view.project(_hairline(params, cues, view, style)), 5)
    if not style.long:
        teeth = np.random.default_rng(who.seed).uniform(-0.022, 0.03, len(inner)) * view.unit
        inner = inner + np.outer(teeth, view.axis(0.0, 1.0)).astype(np.float32)
    front = Lock(outline=np.concatenate([outer, inner[::-1]]), first=outer, second=inner)
    back: tuple[Lock, ...] = _knots(view, style)
    if style.long or style.end > 0.4:
        half = len(outer) // 2
        back = (*back, Lock(outline=outer, first=outer[:half], second=outer[half:][::-1]))
    return Hairdo(style=style, back=back, front=(front,), ears=not style.long)
