"""The kernel distance between two sets of pictures, in all features of some network.

Shapes: N pictures, M of a row, D features, R replicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .bootstrap import Resampled, whole_and_draws
from .frechet import REPLICATES

Array = NDArray[np.float64]

BLOCK = 1024
"""Rows of the kernel's matrix at once."""


def kernel(one_ND: Array, two_MD: Array) -> Array:
    """k(x, y) = (x . y / D + 1)^3, (N, M)."""
    return np.asarray((one_ND @ two_MD.T / one_ND.shape[1] + 1.0) ** 3, np.float64)


def within(features_ND: Array, weight_RN: Array) -> Array:
    """sum_{i != j} w_i w_j k(x_i, x_j) / sum_{i != j} w_i w_j in each replicate (R,).

    A picture that was drawn twice is not paired with itself: such pairs would make any distance larger.
    """
    total_R = np.zeros(len(weight_RN))
    for start in range(0, len(features_ND), BLOCK):
        rows = slice(start, start + BLOCK)
        block_BN = kernel(features_ND[rows], features_ND)
        block_BN[np.arange(len(block_BN)), np.arange(start, start + len(block_BN))] = 0.0
        total_R += (weight_RN[:, rows] * (weight_RN @ block_BN.T)).sum(axis=1)
    pairs_R = weight_RN.sum(axis=1) ** 2 - np.square(weight_RN).sum(axis=1)
    found_R: Array = np.divide(total_R, pairs_R, out=np.full(len(total_R), np.nan), where=pairs_R > 0)
    return found_R


def between(one_MD: Array, weight_RM: Array, two_ND: Array, weight_RN: Array) -> Array:
    """sum_ij w_i v_j k(x_i, y_j) / sum_ij w_i v_j in each replicate (R,)."""
    total_R = np.zeros(len(weight_RM))
    for start in range(0, len(two_ND), BLOCK):
        rows = slice(start, start + BLOCK)
        total_R += (weight_RN[:, rows] * (weight_RM @ kernel(one_MD, two_ND[rows]))).sum(axis=1)
    return np.asarray(total_R / (weight_RM.sum(axis=1) * weight_RN.sum(axis=1)), np.float64)


def kid_rows(
    rows: Mapping[str, Sequence[Array]],
    real_ND: Array,
    *,
    row_subjects: NDArray[np.int64],
    real_subjects: NDArray[np.int64],
    seed: int,
    replicates: int = REPLICATES,
) -> dict[str, Resampled]:
    """MMD^2 = mean_{i != j} k(x_i, x_j) + mean_{i != j} k(y_i, y_j) - 2 mean_ij k(x_i, y_j), unbiased at any sample size.

    Args:
        rows: name -> features (M, D) of its pictures, an array a training.
        real_ND: (N, D) of the real pictures.
        row_subjects, real_subjects: whole subjects are drawn again, the same for every row.
        seed: of the draws.
        replicates: R.

    Reference:
        Binkowski et al., Demystifying MMD GANs, 2018, section 2.1 and equation 4.
    """
    real_RN, row_RM = (
        whole_and_draws(own, seed=seed, replicates=replicates, stream=stream)
        for own, stream in ((real_subjects, 930), (row_subjects, 931))
    )
    among_R = within(real_ND, real_RN)
    found = {
        name: np.stack([among_R + within(one, row_RM) - 2 * between(one, row_RM, real_ND, real_RN) for one in arrays], axis=1)
        for name, arrays in rows.items()
    }
    return {name: Resampled(value_S=both_RS[0], drawn_RS=both_RS[1:]) for name, both_RS in found.items()}
