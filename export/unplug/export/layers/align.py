"""Which tensor of a file is which layer of a checkpoint: two sequences aligned by how near their
numbers are.

Names do not tell: converters rename, fuse and split. Pure functions; M layers, T tensors.
"""

from __future__ import annotations

import math

import numpy as np

from unplug.core import Array

EXACT_DB = 200.0
"""Stands for equality, beyond what float32 can tell apart."""


ELSEWHERE_DB = 20.0
"""A tensor that is ten times nearer to one layer is not another one, however wrong its numbers are.
"""


class Nearness:
    """Peak signal-to-noise ratio of every layer with every tensor of its shape, over the samples
    added.

    Example:
        >>> near = Nearness()
        >>> near.add([np.ones((1, 2, 3, 4))], [np.ones((1, 3, 4, 2)), np.ones((1, 5))])
        >>> near.psnr_db().tolist()
        [[200.0, -inf]]
    """

    def __init__(self) -> None:
        self._squares: Array | None = None
        self._peak_M: Array = np.zeros(0)
        self._largest: Array = np.zeros((0, 0))
        self._counts_M: Array = np.zeros(0)

    def add(self, layers: list[Array], tensors: list[Array]) -> None:
        """Adds one sample of each."""
        if self._squares is None:
            shape = len(layers), len(tensors)
            self._squares, self._largest = np.zeros(shape), np.zeros(shape)
            self._peak_M, self._counts_M = np.zeros(len(layers)), np.zeros(len(layers))
        for row, wanted in enumerate(layers):
            self._peak_M[row] = max(self._peak_M[row], float(np.abs(wanted).max()))
            self._counts_M[row] += wanted.size
            for column, got in enumerate(tensors):
                twins = laid_out(got, wanted.shape)
                errors = [
                    (float(np.square(twin - wanted, dtype=np.float64).sum()), twin)
                    for twin in twins
                ]
                square, twin = min(errors, key=lambda item: item[0]) if errors else (math.inf, None)
                self._squares[row, column] += square if math.isfinite(square) else math.inf
                if twin is not None:
                    self._largest[row, column] = max(
                        self._largest[row, column], float(np.abs(twin - wanted).max())
                    )

    def psnr_db(self) -> Array:
        """(M, T): 20 log10(max|layer| / rms(tensor - layer)); `EXACT_DB` at most, -inf where shapes
        differ.
        """
        if self._squares is None:
            return np.zeros((0, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.sqrt(self._squares / self._counts_M[:, None])
            decibels = 20 * np.log10(self._peak_M[:, None] / noise)
        return np.where(np.isnan(decibels), -math.inf, np.minimum(decibels, EXACT_DB))

    def max_abs_error(self, row: int, column: int) -> float:
        """The largest absolute difference between the two tensors of a pair."""
        return float(self._largest[row, column])


def laid_out(tensor: Array, shape: tuple[int, ...]) -> list[Array]:
    """A tensor in a shape, as it is and with its channels moved to the front, as far as that fits.

    Example:
        >>> [twin.shape for twin in laid_out(np.zeros((1, 4, 4, 4)), (1, 4, 4, 4))], laid_out(np.zeros(3), (2,))
        ([(1, 4, 4, 4), (1, 4, 4, 4)], [])
    """
    twins = []
    if tensor.shape == shape or [side for side in tensor.shape if side != 1] == [
        side for side in shape if side != 1
    ]:
        twins.append(tensor.reshape(shape))
    if tensor.ndim == len(shape) == 4 and tensor.transpose(0, 3, 1, 2).shape == shape:
        twins.append(tensor.transpose(0, 3, 1, 2))
    return twins


def align(psnr_MT: Array) -> list[tuple[int, int]]:
    """Pairs of a layer and a tensor, both in order, of the largest sum of dB; what was fused away
    stays alone.

    Any pair of one shape counts for a little, so that a layer whose numbers are all wrong is still
    found; but not where one of the two is `ELSEWHERE_DB` nearer to something else.

    Args:
        psnr_MT: the PSNR matrix of `Nearness`.

    Example:
        >>> align(np.array([[50.0, 20.0], [20.0, -math.inf], [10.0, 60.0]]))
        [(0, 0), (2, 1)]
        >>> align(np.array([[9.0, -math.inf]]))
        [(0, 0)]
    """
    layers, tensors = psnr_MT.shape
    if not layers or not tensors:
        return []
    elsewhere = (
        np.maximum(psnr_MT.max(axis=0, keepdims=True), psnr_MT.max(axis=1, keepdims=True))
        - ELSEWHERE_DB
    )
    worth = np.where(
        np.isneginf(psnr_MT) | (psnr_MT < elsewhere), 0.0, np.maximum(psnr_MT, 0.0) + 1.0
    )
    best = np.zeros((layers + 1, tensors + 1))
    for row in range(layers):
        for column in range(tensors):
            paired = best[row, column] + worth[row, column]
            best[row + 1, column + 1] = max(paired, best[row, column + 1], best[row + 1, column])
    pairs, row, column = [], layers, tensors
    while row and column:
        if best[row, column] == best[row, column - 1]:
            column -= 1
        elif best[row, column] == best[row - 1, column]:
            row -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((row, column))
    return pairs[::-1]
