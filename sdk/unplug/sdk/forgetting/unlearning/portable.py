"""A Cholesky factor whose bits are the same on every machine: a second party computes a head again.

What a BLAS adds up in another order, on other cores or with fused steps, has other last bits. Here
every step is one that IEEE 754 rounds in one way (+, -, *, /, square root, a number at a time), or a
matrix product of whole numbers below 2^53, which no order rounds.

Shapes: P equations, K right sides.
"""

from __future__ import annotations

import torch
from torch import Tensor

PANEL, BITS = 64, 23
"""Columns at once, and bits of a slice: 64 products of two slices are below 2^53, so float64 sums
them exactly.
"""
ROWS = 512
"""Rows of a block: what lies above the diagonal is not computed. It decides no bit."""


def portable_cholesky(gram_PP: Tensor) -> Tensor:
    """L (P, P), lower, with L L^T = A; not a number where A is not positive definite.

    L = L' + 2^-46 e with |e| <= 1/2 below each panel: the factor itself is rounded to `BITS` * 2
    bits, so that what it takes off the rest is exact. That is an error of A below 1e-13.

    Args:
        gram_PP: A in float64, symmetric, its diagonal 1 at most.

    Example:
        >>> portable_cholesky(torch.tensor([[1.0, 0.5], [0.5, 1.0]], dtype=torch.float64))[1, 0]
        tensor(0.5000, dtype=torch.float64)

    Reference:
        Ozaki et al., Error-free transformations of matrix multiplication, 2012, section 3.
    """
    left_PP = gram_PP.clone()
    for start in range(0, len(left_PP), PANEL):
        end = min(start + PANEL, len(left_PP))
        # columns as rows: their numbers lie next to each other
        panel = left_PP[start:, start:end].T.contiguous()
        for j in range(end - start):
            panel[j, j:] /= panel[j, j].sqrt()
            panel[j + 1 :, j + 1 :] -= torch.outer(panel[j, j + 1 : end - start], panel[j, j + 1 :])
        whole = (panel * 2.0 ** (2 * BITS)).round()
        left_PP[start:, start:end] = (whole * 2.0 ** (-2 * BITS)).T
        _take_off(left_PP[end:, end:], whole[:, end - start :])
    return left_PP.tril()


def _take_off(rest_RR: Tensor, whole_CR: Tensor) -> None:
    """A - 2^-92 W^T W, in place on and below the diagonal, with W of whole numbers up to 2^46."""
    high_CR = (whole_CR * 2.0**-BITS).round()
    low_CR = whole_CR - high_CR * 2.0**BITS
    for first in range(0, len(rest_RR), ROWS):
        last = first + ROWS
        high, low = high_CR[:, first:last].T, low_CR[:, first:last].T
        highs, lows = high_CR[:, :last], low_CR[:, :last]
        block = rest_RR[first:last, :last]
        block -= (high @ highs) * 2.0 ** (-2 * BITS)
        block -= (high @ lows + low @ highs) * 2.0 ** (-3 * BITS)
        block -= (low @ lows) * 2.0 ** (-4 * BITS)


def portable_solve(factor_PP: Tensor, right_PK: Tensor) -> Tensor:
    """X (P, K) with L L^T X = Y, of the factor L and Y in float64."""
    solved_KP, factor_P, upper_PP = right_PK.T.clone(), factor_PP.diagonal(), factor_PP.T.clone()
    for j in range(len(factor_P)):
        solved_KP[:, j] /= factor_P[j]
        solved_KP[:, j + 1 :] -= torch.outer(solved_KP[:, j], upper_PP[j, j + 1 :])
    for j in reversed(range(len(factor_P))):
        solved_KP[:, j] /= factor_P[j]
        solved_KP[:, :j] -= torch.outer(solved_KP[:, j], factor_PP[j, :j])
    return solved_KP.T
