"""The released challenge's two attacks on the models of each sample: the best threshold and the best window on its grids.

Shapes: S forget samples, K pooled values of one sample; P right and Q left ends of windows, W windows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

PER_UNIT = 100  # thresholds in a unit of phi
REACH = 2.0  # how far a window's ends may lie from the ends of the narrower sample, in units of phi
TICKS = int(2 * REACH * PER_UNIT)
TOUCH = 1e-7  # of a grid step: a value this near a threshold lies on it, and is inside
PAIRS = 2**18  # values by values at once, about what a processor's cache holds


def best_above(sorted_SK: Array, before_SK: Counts, tables: Array, positive_S: Counts) -> Array:
    """The largest table value (S,) over single thresholds: "positive at or above it".

    Args:
        sorted_SK: all values of each sample in order.
        before_SK: (S, K + 1), a count of the first 0, 1, ..., K of them that indexes a table.
        tables: (2, T), what an attack is worth by the count inside it, for either positive population.
        positive_S: row of `tables`.
    """
    range_S = sorted_SK[:, -1] - sorted_SK[:, 0]
    count_S = np.maximum(1, np.ceil(range_S * PER_UNIT)).astype(np.int64)
    step_S = np.where(count_S > 1, range_S / np.maximum(count_S - 1, 1), np.inf)
    first = np.floor((sorted_SK - sorted_SK[:, :1]) / step_S[:, None] + TOUCH).astype(np.int64) + 1
    first_SK, last_SK = _spans(np.minimum(first, count_S[:, None]), count_S[:, None])
    value_SK = tables[positive_S[:, None], before_SK[:, -1:] - before_SK]
    return np.asarray(np.where(first_SK <= last_SK, value_SK, 0.0).max(axis=1), np.float64)


def best_window(sorted_SK: Array, before_SK: Counts, tables: Array, positive_S: Counts, low_S: Array, high_S: Array) -> Array:
    """The largest table value (S,) over windows.

    Right ends are high - 2 + k / 100, left ends low - 4 + (k + m) / 100, k and m from 0 to 400.

    Args:
        sorted_SK, before_SK, tables, positive_S: as in `best_above`.
        low_S, high_S: ends of the positive population.
    """
    from_right = (sorted_SK - (high_S - REACH)[:, None]) * PER_UNIT
    from_left = (sorted_SK - (low_S - 2 * REACH)[:, None]) * PER_UNIT
    right = np.clip(np.ceil(from_right - TOUCH), 0, TICKS + 1).astype(np.int64)
    left = np.clip(np.floor(from_left + TOUCH) + 1, 0, 2 * TICKS + 1).astype(np.int64)
    best = np.zeros(len(sorted_SK))
    some = max(1, PAIRS // sorted_SK.shape[1] ** 2)
    for start in range(0, len(best), some):
        part = slice(start, start + some)
        best[part] = _best_pair(right[part], left[part], before_SK[part], tables, positive_S[part])
    return best


def _best_pair(right_SK: Counts, left_SK: Counts, before_SK: Counts, tables: Array, positive_S: Counts) -> Array:
    (first_right, last_right), (first_left, last_left) = _spans(right_SK, TICKS + 1), _spans(left_SK, 2 * TICKS + 1)
    sample_P, i_P = np.nonzero(first_right <= last_right)
    sample_Q, j_Q = np.nonzero(first_left <= last_left)
    # The left ends that go with a right end are neighbours. With the sample as the leading digit of every key, all of them
    # are found by three searches.
    row_P, row_Q = 4 * TICKS * sample_P, 4 * TICKS * sample_Q
    low_P = np.searchsorted(row_Q + last_left[sample_Q, j_Q], row_P + first_right[sample_P, i_P])
    high_P = np.searchsorted(row_Q + first_left[sample_Q, j_Q], row_P + last_right[sample_P, i_P] + TICKS, side="right")
    width = before_SK.shape[1]
    high_P = np.minimum(high_P, np.searchsorted(width * sample_Q + j_Q, width * sample_P + i_P, side="right"))
    length_P = np.maximum(high_P - low_P, 0)
    start_P = np.cumsum(length_P) - length_P
    left_W = np.arange(length_P.sum()) - np.repeat(start_P - low_P, length_P)
    end_P = positive_S[sample_P] * tables.shape[1] + before_SK[sample_P, i_P]
    value_W = tables.ravel()[np.repeat(end_P, length_P) - before_SK[sample_Q, j_Q][left_W]]
    best, tried = np.zeros(len(before_SK)), np.flatnonzero(length_P)
    if len(tried):
        np.maximum.at(best, sample_P[tried], np.maximum.reduceat(value_W, start_P[tried]))
    return best


def _spans(first: Counts, count: Counts | int) -> tuple[Counts, Counts]:
    """First and last grid index at which 0, 1, ..., K values lie before the threshold (S, K + 1); empty where last < first."""
    start = np.concatenate([np.zeros((len(first), 1), np.int64), first], axis=1)
    stop = np.concatenate([first, np.broadcast_to(count, (len(first), 1))], axis=1)
    return start, stop - 1
