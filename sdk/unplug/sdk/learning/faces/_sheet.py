"""A picture of many faces, for pages that explain them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ._raster import U8
from ._render import render
from ._sampling import sample_face, sample_identity
from ._types import AgeJitter, Camera, Identity

_FIRST_AGE, _LAST_AGE = 3.0, 85.0
# A row shows the one of so many people who is least like the rows above.
_CANDIDATES = 8


def _unlike(a: Identity, b: Identity) -> float:
    return (
        1.5 * abs(a.skin - b.skin)
        + 1.0 * (a.hair_style != b.hair_style)
        + 0.5 * (a.hair_colour != b.hair_colour)
    )


def _people(rng: np.random.Generator, n: int) -> list[Identity]:
    """Sample people who differ, so that a small sheet shows the range."""
    chosen = [sample_identity(rng)]
    while len(chosen) < n:
        candidates = [sample_identity(rng) for _ in range(_CANDIDATES)]
        chosen.append(max(candidates, key=lambda c: min(_unlike(c, other) for other in chosen)))
    return chosen


def contact_sheet(rows: int, cols: int, size: int, seed: int) -> U8:
    """People (rows) growing older (columns, 3 to 85 years), in changing poses, moods and light.

    Args:
        rows, cols: How many. size: Side of one face in pixels. seed: Of everything.

    Returns:
        (rows * size, cols * size, 3) uint8 RGB.
    """
    if rows < 1 or cols < 1:
        raise ValueError(
            f"rows and cols are {rows} and {cols}: a sheet needs at least one of each; pass "
            "positive numbers."
        )
    rng = np.random.default_rng(seed)
    sheet = np.zeros((rows * size, cols * size, 3), np.uint8)
    ages = np.linspace(_FIRST_AGE, _LAST_AGE, cols) if cols > 1 else np.array([30.0])
    for r, person in enumerate(_people(rng, rows)):
        for c, age in enumerate(ages):
            face = sample_face(person, float(age), rng, frontal=bool(c % 2 == 0))
            face = replace(face, camera=Camera(zoom=face.camera.zoom), jitter=AgeJitter())
            sheet[r * size : (r + 1) * size, c * size : (c + 1) * size] = render(face, size).image
    return sheet
