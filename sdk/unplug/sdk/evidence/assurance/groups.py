"""Cells of attributes: whom a mean hides, compared at the same ages.

Shapes: N pictures, C cells, B bands of age, R replicates.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unplug.core import Array
from unplug.sdk.evidence.statistics import PeopleDraws, simultaneous

from .evaluation_report import ErrorRow
from .people import UNKNOWN

BANDS = (0.0, 6.0, 13.0, 18.0, 25.0, 35.0, 50.0, 65.0, np.inf)
"""Borders of ages that count as the same: errors grow with age, so a group of older people is not a
worse off by that alone.
"""
MIN_GAP = 20  # people in a cell, and outside of it: a gap of fewer is chance
MAX_VALUES = 24  # of one attribute: more is not an attribute, but a name
MOST_UNKNOWN = 0.5
MAX_CELLS = 20_000_000  # numbers in memory at once

Mask = NDArray[np.bool_]


def usable(
    attributes: Mapping[str, Sequence[str]],
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The attributes that cells can be made of, and why others cannot.

    Args:
        attributes: name to N values, `UNKNOWN` where nobody said one.

    Example:
        >>> usable({"sex": ("female", "unknown", "unknown")})[1]
        {'sex': 'nobody said it for 67 % of the pictures, and who is left may differ: give it for more than half'}
    """
    kept: dict[str, tuple[str, ...]] = {}
    refused = {}
    for name, values in attributes.items():
        missing, known = values.count(UNKNOWN) / len(values), set(values) - {UNKNOWN}
        if missing >= MOST_UNKNOWN:
            why = (
                f"nobody said it for {100 * missing:.0f} % of the pictures, and who is left may "
                "differ"
            )
            refused[name] = f"{why}: give it for more than half"
        elif len(known) > MAX_VALUES:
            refused[name] = (
                f"it has {len(known)} values, and cells are made of at most {MAX_VALUES}"
            )
        else:
            kept[name] = tuple(values)
    return kept, refused


def cells(attributes: Mapping[str, Sequence[str]]) -> dict[str, Mask]:
    """Every value of every attribute, and of every two attributes together, with the pictures in it
    (N,).

    Example:
        >>> list(cells({"sex": ("f", "m"), "race": ("x", "x")}))
        ['sex=f', 'sex=m', 'race=x', 'sex=f, race=x', 'sex=m, race=x']
    """
    single = {
        name: {
            value: np.array([item == value for item in values])
            for value in sorted(set(values) - {UNKNOWN})
        }
        for name, values in attributes.items()
    }
    masks_of = {
        f"{name}={value}": mask for name, masks in single.items() for value, mask in masks.items()
    }
    for (one, ones), (other, others) in itertools.combinations(single.items(), 2):
        pairs = itertools.product(ones.items(), others.items())
        masks_of |= {
            f"{one}={a}, {other}={b}": both for (a, x), (b, y) in pairs if (both := x & y).any()
        }
    return masks_of


def group_rows(
    masks: Mapping[str, Mask], age_N: Array, error_N: Array, drawn: PeopleDraws
) -> tuple[ErrorRow, ...]:
    """Error of every cell, and how far it lies above everybody else's at the same ages.

    gap_c = sum over bands b of n_cb (mean error of c in b - mean error of others in b) / sum of
    n_cb

    over bands that hold both. The intervals of the gaps hold for all cells together, so that the
    worst of many is not an accident.

    Args:
        masks: the masks of `cells`.
        age_N: years.
        error_N: estimated minus true age in years.
        drawn: the draws of the pictures' people.
    """
    if not masks:
        return ()
    size_N = np.abs(error_N)
    wanted = {f"mae {cell}": (size_N, mask) for cell, mask in masks.items()}
    means = drawn.means(wanted | {f"bias {cell}": (error_N, mask) for cell, mask in masks.items()})
    rows = [
        ErrorRow(
            cell=cell,
            pictures=int(mask.sum()),
            people=drawn.count(mask),
            mae=means[f"mae {cell}"],
            bias=means[f"bias {cell}"],
            gap=None,
        )
        for cell, mask in masks.items()
    ]
    wide = {
        cell: mask
        for cell, mask in masks.items()
        if min(drawn.count(mask), drawn.count(~mask)) >= MIN_GAP
    }
    compared = _gaps(wide, age_N, size_N, drawn)
    if not compared:
        return tuple(rows)
    together = simultaneous(compared, people=min(drawn.count(masks[cell]) for cell in compared))
    return tuple(replace(row, gap=together.get(row.cell)) for row in rows)


def _gaps(
    masks: Mapping[str, Mask], age_N: Array, size_N: Array, drawn: PeopleDraws
) -> dict[str, tuple[float, Array]]:
    """The gap of each cell, and of each draw (R,); cells that share no band with others are left
    out.
    """
    # The outer borders are left out: everybody is in the first or the last band at least.
    band_N = np.digitize(age_N, BANDS[1:-1])
    bands = [band_N == band for band in range(len(BANDS) - 1)]
    ones_N, gaps = np.ones(len(age_N)), {}
    # draws are made anew for each call, so few calls
    together = max(1, MAX_CELLS // (len(age_N) * 4 * len(bands)))
    for start in range(0, len(masks), together):
        names = list(masks)[start : start + together]
        columns = [
            np.where(side & band, values_N, 0.0)
            for name in names
            for side in (masks[name], ~masks[name])
            for band in bands
            for values_N in (size_N, ones_N)
        ]
        total_K, draws_RK = drawn.sums(np.stack(columns, axis=1))
        for name, total, draws in zip(
            names,
            np.split(total_K, len(names)),
            np.split(draws_RK, len(names), axis=1),
            strict=True,
        ):
            value, gap_R = float(_standardized(total[None])[0]), _standardized(draws)
            if not np.isnan(value):
                gaps[name] = (value, np.where(np.isnan(gap_R), value, gap_R))
    return gaps


def _standardized(sums_RK: Array) -> Array:
    """Differences of means, weighted by how many of the cell are in a band; NaN where no band holds
    both.
    """
    inside_RB2, outside_RB2 = np.split(sums_RK.reshape(len(sums_RK), -1, 2), 2, axis=1)
    both_RB = (inside_RB2[..., 1] > 0) & (outside_RB2[..., 1] > 0)
    mean_in_RB, mean_out_RB = (
        part[..., 0] / np.maximum(part[..., 1], 1.0) for part in (inside_RB2, outside_RB2)
    )
    weight_RB = np.where(both_RB, inside_RB2[..., 1], 0.0)
    total_R = weight_RB.sum(axis=1)
    gap_R = (weight_RB * (mean_in_RB - mean_out_RB)).sum(axis=1)
    return np.asarray(np.divide(gap_R, total_R, out=np.full(len(gap_R), np.nan), where=total_R > 0))


def worst_of(rows: Sequence[ErrorRow]) -> ErrorRow | None:
    """The cell whose whole interval lies furthest above everybody else, or where none does, whose
    gap is largest.
    """
    gaps = [row for row in rows if row.gap is not None and row.gap.low is not None]
    return max(gaps, key=lambda row: (row.gap.low > 0, row.gap.value), default=None)  # type: ignore[union-attr, operator]
