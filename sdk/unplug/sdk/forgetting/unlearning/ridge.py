"""A ridge classifier that forgets samples exactly: its statistics are integers, so taking away
undoes adding bit for bit.

Shapes: N samples, F features, G classes, P = F + 1 (features and a column of ones), K = P + G
    (targets too).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.forgetting.tasks import soft_groups
from unplug.sdk.learning.training import SampleSet, Task, labelled, pictures

from .portable import portable_cholesky, portable_solve

BITS = 20
"""Bits of a slice of a number. Products of two slices have 40, so 2^13 of them are summed in
float64 without rounding.
"""

SLICES = 3
"""60 bits below the largest value of a column; float64 has 53 below each value, float32 features
24.
"""

CHUNK = 2 ** (53 - 2 * BITS)
MAX_SAMPLES = 2_000_000  # three products of 40 bits each still fit into an int64
HEADROOM = 4  # bits: samples that are added may be 16 times as large as those fitted on
# times K: rounding of eigenvalues of a matrix with a diagonal of ones; the statistics themselves
# have none
INDEFINITE = 1e-12
MAX_SCALE, HALVINGS = 1000.0, 50


class RidgeHead:
    """argmin_{W, b} sum_i |W x_i + b - y_i|^2 + lam |W|^2, for any set of samples reached by adding
    and removing.

    With x' = (x, 1) the solution is (X'^T X' + lam I')^-1 X'^T Y, where I' leaves the bias alone.
    X'^T X' and X'^T Y are kept as sums of integers: each number is cut into `slices` slices of
    `BITS` bits below its column's power of two, and products of slices are summed exactly (Ozaki's
    splitting); one slice rounds the numbers to 20 bits and is exact for those. Downdating a float64
    Gram instead leaves rounding errors as large as the *removed* samples were, and the Woodbury
    recursion piles them up.

    Example:
        >>> x_NF, y_NG = torch.randn(9, 2, dtype=torch.float64), torch.eye(3, dtype=torch.float64).repeat(3, 1)
        >>> head = RidgeHead.fit(x_NF, y_NG, lam=0.1)
        >>> head.remove(x_NF[:2], y_NG[:2])
        >>> refitted = RidgeHead.fit(x_NF[2:], y_NG[2:], lam=0.1)
        >>> torch.allclose(head.weights()[0], refitted.weights()[0], rtol=1e-10)
        True

    Reference:
        Zhuang et al., ACIL, 2022, theorem 1 (recursive ridge; removal is the same step with the
        sign turned); Ozaki et al., Error-free transformations of matrix multiplication, 2012,
        section 3 (the splitting).
    """

    def __init__(self, features: int, lam: float, exponent_K: Tensor, slices: int = SLICES) -> None:
        if not 0.0 < lam < float("inf"):
            raise InputError(f"ridge lam {lam}", "out of range", "Use a number above 0")
        self.features, self.lam, self.slices = features, lam, slices
        self._exponent_K = exponent_K
        size, device = len(exponent_K), exponent_K.device
        self._levels_LKK = torch.zeros(2 * slices - 1, size, size, dtype=torch.int64, device=device)

    @classmethod
    def fit(cls, x_NF: Tensor, y_NG: Tensor, lam: float) -> RidgeHead:
        """The head of some samples.

        Args:
            x_NF: features, any float type.
            y_NG: targets, one-hot or soft.
            lam: ridge penalty above 0; the bias is not penalized.

        Raises:
            InputError: shapes that do not match, no samples, numbers that are not finite, lam out
                of range.
        """
        if x_NF.ndim != 2 or y_NG.ndim != 2 or len(x_NF) != len(y_NG) or not len(x_NF):
            raise _misfit(
                f"{list(x_NF.shape)} features and {list(y_NG.shape)} targets",
                "they do not belong together",
            )
        ones = x_NF.new_ones(1)
        # a power of two above each column's largest value: dividing by it rounds nothing
        largest_K = torch.cat(
            [
                part.double().to(x_NF.device)
                for part in (x_NF.abs().amax(0), ones, y_NG.abs().amax(0))
            ]
        )
        if not bool(largest_K.isfinite().all()):
            raise _misfit("features or targets", "they are not all finite")
        head = cls(x_NF.shape[1], lam, torch.frexp(largest_K).exponent + HEADROOM)
        head.add(x_NF, y_NG)
        return head

    @property
    def sums(self) -> Tensor:
        """The statistics (levels, K (K + 1) / 2) as int64: the upper triangles of the symmetric
        matrices, row by row.
        """
        row_T, column_T = torch.triu_indices(*self._levels_LKK.shape[1:])
        return self._levels_LKK[:, row_T, column_T].contiguous()

    @sums.setter
    def sums(self, sums_LT: Tensor) -> None:
        row_T, column_T = torch.triu_indices(*self._levels_LKK.shape[1:])
        if sums_LT.dtype != torch.int64 or sums_LT.shape != (len(self._levels_LKK), len(row_T)):
            raise _misfit(
                "sums", f"{sums_LT.dtype} of shape {list(sums_LT.shape)} belong to another head"
            )
        # the other triangle is the mirror image: the products are symmetric
        levels_LKK = torch.empty_like(self._levels_LKK)
        levels_LKK[:, row_T, column_T] = sums_LT
        levels_LKK[:, column_T, row_T] = sums_LT
        self._levels_LKK = levels_LKK

    @property
    def samples(self) -> int:
        """How many samples the statistics hold."""
        # the column of ones times itself counts samples, in units of its slice
        ones = self.features
        return int(self._levels_LKK[0, ones, ones]) >> 2 * (BITS - int(self._exponent_K[ones]))

    def add(self, x_NF: Tensor, y_NG: Tensor) -> None:
        """Adds samples.

        Raises:
            InputError: another width, numbers that are not finite or over 16 times the largest of
                the fit, too many samples.
        """
        # kept aside until all checks hold: a refusal changes nothing
        levels_LKK = self._levels_LKK + self._products(x_NF, y_NG)
        if self.samples + len(x_NF) > MAX_SAMPLES:
            raise _misfit(
                f"{self.samples + len(x_NF)} samples", f"the statistics hold {MAX_SAMPLES} at most"
            )
        self._levels_LKK = levels_LKK

    def remove(self, x_RF: Tensor, y_RG: Tensor, *, known: bool = False) -> None:
        """Takes samples out again; the statistics are then those of the others, bit for bit.

        Args:
            x_RF, y_RG: the samples as they were added.
            known: the caller has proof that these samples were added, so the eigenvalues of the
                rest need no look.

        Raises:
            InputError: another width, numbers that are not finite, nothing left, or samples that
                cannot have been there: what is left would be no sum of squares.
        """
        levels_LKK = self._levels_LKK - self._products(x_RF, y_RG)
        if len(x_RF) >= self.samples:
            raise _misfit(
                f"removing {len(x_RF)} of {self.samples} samples", "no sample would be left"
            )
        # only a necessary condition: strangers who leave a sum of squares pass
        if not known and _indefinite(self._gram(levels_LKK)):
            raise _misfit(
                f"removing {len(x_RF)} samples",
                "they were never in the statistics (the rest would be indefinite)",
            )
        self._levels_LKK = levels_LKK

    def weights(self) -> tuple[Tensor, Tensor]:
        """W (G, F) and b (G,) in float64, by Cholesky of the equilibrated normal equations; the same
        bits on every machine.

        Raises:
            InputError: the normal equations are singular in float64.
        """
        factor_PP, scale_P, cross_PG = self._solver()
        solution_PG = scale_P[:, None] * portable_solve(factor_PP, scale_P[:, None] * cross_PG)
        return solution_PG[:-1].T.contiguous(), solution_PG[-1].contiguous()

    def left_out(self, x_NF: Tensor, y_NG: Tensor) -> Tensor:
        """The scores (N, G) that each sample would get from the head fitted without it: y - (y - W
        x - b) / (1 - h).

        h = x'^T (X'^T X' + lam I')^-1 x', the sample's leverage.

        Args:
            x_NF, y_NG: samples that the head was fitted on.

        Raises:
            InputError: the normal equations are singular in float64, or one sample alone decides a
                coefficient.
        """
        weight_GF, bias_G = self.weights()
        factor_PP, scale_P, _ = self._solver()
        parts = []
        for x_BF, y_BG in zip(x_NF.double().split(CHUNK), y_NG.double().split(CHUNK), strict=True):
            x_BP = torch.cat([x_BF, x_BF.new_ones(len(x_BF), 1)], dim=1) * scale_P
            # h = |L^-1 x'|^2 with L the Cholesky factor: the inverse is never formed
            half_PB = torch.linalg.solve_triangular(factor_PP, x_BP.T, upper=False)
            left_B1 = 1.0 - half_PB.square().sum(0)[:, None]
            parts.append(y_BG - (y_BG - x_BF @ weight_GF.T - bias_G) / left_B1)
        scores_NG = torch.cat(parts)
        if not bool(scores_NG.isfinite().all()):
            raise InputError(
                f"ridge lam {self.lam:g}",
                "one sample alone decides a coefficient",
                "Use a larger lam",
            )
        return scores_NG

    def _solver(self) -> tuple[Tensor, Tensor, Tensor]:
        """Cholesky factor of the scaled normal equations, the scale, and X'^T Y."""
        split = self.features + 1
        gram_KK = self._gram(self._levels_LKK)
        gram_PP, cross_PG = gram_KK[:split, :split], gram_KK[:split, split:]
        penalty_P = torch.full_like(gram_PP[0], self.lam)
        # the bias is not penalized
        penalty_P[-1] = 0.0
        gram_PP = gram_PP + penalty_P.diag()
        # features of any range: after this the diagonal is 1, which Cholesky loses least on
        scale_P = gram_PP.diagonal().sqrt().reciprocal()
        factor_PP = portable_cholesky(gram_PP * scale_P[:, None] * scale_P)
        if not bool(factor_PP.isfinite().all()):
            raise InputError(
                f"ridge lam {self.lam:g}", "the normal equations are singular", "Use a larger lam"
            )
        return factor_PP, scale_P, cross_PG

    def _products(self, x_NF: Tensor, y_NG: Tensor) -> Tensor:
        """sum_n z_n z_n^T of z = (x, 1, y) as integers, level l in units of 2^-20 (l + 2) of the
        columns' ranges.
        """
        width = len(self._exponent_K) - self.features - 1
        if x_NF.shape[1:] != (self.features,) or y_NG.shape != (len(x_NF), width):
            shapes = f"{list(x_NF.shape)} features and {list(y_NG.shape)} targets"
            raise _misfit(shapes, f"the head has {self.features} features and {width} targets")
        total_LKK = torch.zeros_like(self._levels_LKK)
        for slices_SNK in self._slices(x_NF, y_NG):
            for first in range(self.slices):
                for second in range(first, self.slices):
                    # at most 2^13 products of 40 bits: exact in float64, whatever the order of the sum
                    exact_KK = (slices_SNK[first].T @ slices_SNK[second]).to(torch.int64)
                    total_LKK[first + second] += (
                        exact_KK if first == second else exact_KK + exact_KK.T
                    )
        return total_LKK

    def _slices(self, x_NF: Tensor, y_NG: Tensor) -> Iterator[Tensor]:
        shrink_K = _power(-self._exponent_K)
        for x_BF, y_BG in zip(x_NF.split(CHUNK), y_NG.split(CHUNK), strict=True):
            y_BG = y_BG.to(x_BF.device)
            z_BK = (
                torch.cat(
                    [x_BF.double(), x_BF.new_ones(len(x_BF), 1).double(), y_BG.double()], dim=1
                )
                * shrink_K
            )
            if not bool(z_BK.isfinite().all()):
                raise _misfit("features or targets", "they are not all finite")
            if bool((z_BK.abs() > 1.0).any()):
                raise _misfit(
                    "features or targets",
                    "they are far larger than any that the head was fitted on",
                )
            slices = []
            for _ in range(self.slices):
                # what a slice rounds away is the next one's to hold; all three steps are exact
                z_BK = z_BK * 2.0**BITS
                slices.append(z_BK.round())
                z_BK = z_BK - slices[-1]
            yield torch.stack(slices)

    def _gram(self, levels_LKK: Tensor) -> Tensor:
        """The integers as one float64 matrix (K, K), smallest parts first."""
        gram_KK = torch.zeros_like(levels_LKK[0], dtype=torch.float64)
        # the small parts first, or they are rounded away one by one
        for level in reversed(range(len(levels_LKK))):
            gram_KK = gram_KK + levels_LKK[level].double() * 2.0 ** (-BITS * (level + 2))
        grow_K = _power(self._exponent_K)
        return gram_KK * grow_K[:, None] * grow_K


def soft_targets(task: Task, model: nn.Module, data: SampleSet) -> Tensor:
    """The distribution (N, G) that the task's cross entropy is taken against, float64."""
    if task.recipe.loss == "ordinal":
        centers: Any = model.age_centers
        return soft_groups(centers.double(), pictures(data).age_N.double())
    classes, smoothing = len(task.edges) - 1, task.recipe.smoothing
    return (
        F.one_hot(labelled(data).group_N, classes).double() * (1.0 - smoothing)
        + smoothing / classes
    )


def best_scale(score_NG: Tensor, target_NG: Tensor) -> float:
    """argmin_s mean CE(s z, t) on [0, 1000] by bisection: the derivative sum_g (softmax(s z) - t)_g
    z_g rises with s.
    """
    # to 1000 / 2^50, about 1e-12
    low, high = 0.0, MAX_SCALE
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        slope = (((middle * score_NG).softmax(dim=1) - target_NG) * score_NG).sum()
        low, high = (middle, high) if float(slope) < 0.0 else (low, middle)
    return low


def _indefinite(gram_KK: Tensor) -> bool:
    """True where no samples have these inner products: a diagonal below 0, or an eigenvalue below
    the rounding.
    """
    diagonal_K = gram_KK.diagonal()
    empty_K = diagonal_K == 0
    if bool((diagonal_K < 0).any()) or bool(gram_KK[empty_K].any()):
        return True
    scale_K = torch.where(empty_K, 1.0, diagonal_K).rsqrt()
    smallest = torch.linalg.eigvalsh(gram_KK * scale_K[:, None] * scale_K)[0]
    return bool(smallest < -INDEFINITE * len(gram_KK))


def _power(exponent_K: Tensor) -> Tensor:
    """2^exponent without rounding, which `torch.pow` does not promise."""
    powers = [2.0 ** int(exponent) for exponent in exponent_K.tolist()]
    return torch.tensor(powers, dtype=torch.float64, device=exponent_K.device)


def _misfit(what: str, why: str) -> InputError:
    return InputError(f"ridge head: {what}", why, "Fit the head again on the samples that stay")
