"""Distances between two sets of pictures in features of some network: Fréchet and kernel (KID).

Shapes: N real pictures, M of a row, D features, K of them used, R replicates, S trainings, H the
    whole set and its halves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unplug.sdk.evidence.statistics import (
    Gaussian,
    covariance_root,
    fit_gaussian,
    frechet_distance,
)

from .bootstrap import Resampled, whole_and_draws

Array = NDArray[np.float64]

REPLICATES = 400
SHUFFLES = 3
"""Each is cut into two halves."""
BLOCK = 1024
"""Rows of the kernel's matrix at once."""


@dataclass(frozen=True, kw_only=True)
class Frechet:
    """Distances of one row from the real pictures.

    Args:
        apart: extrapolated to endless samples; an unbiased number, which may be below 0 where there
            is no distance.
        finite: at the sizes of these samples, mean over trainings: larger by a bias that shrinks as
            1 / N.
    """

    apart: Resampled
    finite: float


@dataclass(frozen=True, kw_only=True)
class _Side:
    """The real pictures as one weighting sees them."""

    own: Gaussian
    root_DD: Array


def halves(subjects_N: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Six random halves (6, N), 1 where a sample is in it: three shuffles of the subjects, each cut
    in two.

    Example:
        >>> halves(np.arange(4), np.random.default_rng(0)).sum(axis=0)
        array([3., 3., 3., 3.])
    """
    names, number_N = np.unique(subjects_N, return_inverse=True)
    first = [rng.permutation(len(names)) < len(names) // 2 for _ in range(SHUFFLES)]
    return np.array([side[number_N] for one in first for side in (one, ~one)], np.float64)


def frechet_rows(
    rows: Mapping[str, Sequence[Array]],
    real_ND: Array,
    *,
    row_subjects: NDArray[np.int64],
    real_subjects: NDArray[np.int64],
    seed: int,
    replicates: int = REPLICATES,
) -> dict[str, Frechet]:
    """Distance of every row from the same real pictures, for each of its trainings.

    FD(N) = FD_inf + b / N + ..., so FD_inf = 2 FD(N) - mean_h FD(N / 2), over six halves of both
    sides. Each row has a bias b of its own: finite samples, even of one size, can put rows in
    another order.

    Args:
        rows: name -> features (M, K) of its pictures, an array a training.
        real_ND: (N, K) of the real pictures.
        row_subjects, real_subjects: whole subjects are drawn again and halved, the same for every
            row; at least 4.
        seed: of the draws.
        replicates: R, at least 2.

    Reference:
        Chong and Forsyth, Effectively Unbiased FID and Inception Score and Where to Find Them,
        2020, section 4.
    """
    rng = np.random.default_rng([seed, 919])
    real_HN, row_HM = (
        np.vstack([np.ones(len(own)), halves(own, rng)]) for own in (real_subjects, row_subjects)
    )
    real_RN, row_RM = (
        whole_and_draws(own, seed=seed, replicates=replicates, stream=stream)
        for own, stream in ((real_subjects, 920), (row_subjects, 921))
    )
    measured = {name: np.zeros((replicates + 1, len(arrays), 2)) for name, arrays in rows.items()}
    for index in range(replicates + 1):
        real_H = [_side(real_ND, real_RN[index] * part_N) for part_N in real_HN]
        for name, arrays in rows.items():
            for training, one_MK in enumerate(arrays):
                apart_H = [
                    math.nan
                    if real is None or own is None
                    else frechet_distance(own, real.own, real.root_DD)
                    for real, own in zip(
                        real_H,
                        (_fit(one_MK, row_RM[index] * part_M) for part_M in row_HM),
                        strict=True,
                    )
                ]
                measured[name][index, training] = (
                    2 * apart_H[0] - np.nanmean(apart_H[1:]),
                    apart_H[0],
                )
    return {
        name: Frechet(
            apart=Resampled(value_S=both[0, :, 0], drawn_RS=both[1:, :, 0]),
            finite=float(both[0, :, 1].mean()),
        )
        for name, both in measured.items()
    }


def _fit(features_ND: Array, weight_N: Array) -> Gaussian | None:
    """None where a replicate of a tiny sample left a half empty."""
    return fit_gaussian(features_ND, weight_N) if weight_N.any() else None


def _side(real_ND: Array, weight_N: Array) -> _Side | None:
    own = _fit(real_ND, weight_N)
    return None if own is None else _Side(own=own, root_DD=covariance_root(own.cov_DD))


def kernel(one_ND: Array, two_MD: Array) -> Array:
    """k(x, y) = (x . y / D + 1)^3, (N, M)."""
    return np.asarray((one_ND @ two_MD.T / one_ND.shape[1] + 1.0) ** 3, np.float64)


def within(features_ND: Array, weight_RN: Array) -> Array:
    """sum_{i != j} w_i w_j k(x_i, x_j) / sum_{i != j} w_i w_j in each replicate (R,).

    A picture that was drawn twice is not paired with itself: such pairs would make any distance
    larger.
    """
    total_R = np.zeros(len(weight_RN))
    for start in range(0, len(features_ND), BLOCK):
        rows = slice(start, start + BLOCK)
        block_BN = kernel(features_ND[rows], features_ND)
        block_BN[np.arange(len(block_BN)), np.arange(start, start + len(block_BN))] = 0.0
        total_R += (weight_RN[:, rows] * (weight_RN @ block_BN.T)).sum(axis=1)
    pairs_R = weight_RN.sum(axis=1) ** 2 - np.square(weight_RN).sum(axis=1)
    found_R: Array = np.divide(
        total_R, pairs_R, out=np.full(len(total_R), np.nan), where=pairs_R > 0
    )
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
    """MMD^2 = mean_{i != j} k(x_i, x_j) + mean_{i != j} k(y_i, y_j) - 2 mean_ij k(x_i, y_j),
    unbiased at any sample size.

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
    measured = {
        name: np.stack(
            [
                among_R + within(one, row_RM) - 2 * between(one, row_RM, real_ND, real_RN)
                for one in arrays
            ],
            axis=1,
        )
        for name, arrays in rows.items()
    }
    return {
        name: Resampled(value_S=both_RS[0], drawn_RS=both_RS[1:])
        for name, both_RS in measured.items()
    }
