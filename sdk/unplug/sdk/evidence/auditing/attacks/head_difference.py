"""The head-difference attack: two linear heads over one trunk, subtracted, point at the pictures
that were taken out.

Shapes: F forget, U unseen, Z population samples, C features, P = C + 1 (features and a one), K
    outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..attack import Array, Inside, Lacks, Signals

ALIKE = 1e-5
"""A share of the features' largest value: two trunks that differ by less are one."""
SHRINK = 1e-2
"""A share of the mean variance of a feature: keeps the moments of few population samples
invertible, as the head's own ridge did.
"""


@dataclass(frozen=True, kw_only=True)
class HeadDifferenceAttack:
    """score(x) = |D^T x'| / sqrt(x'^T H^-1 x'), x' = (x, 1), D = theta_old - theta_new with columns
    of length one in H.

    A least-squares head that lost samples moved by D = H_old^-1 sum_i x'_i r_i^T (r the residuals
    of the new head): where one sample left, H D is that sample's features times its residual. H is
    estimated from samples of the attacker's own (the population). A head that was refitted without
    them shows the same: that is inherent to two versions of a linear model.

    Raises:
        Lacks: from the call, of the old file itself, of files without weights, or where the layers
            in front changed as well.

    Reference:
        Bertran et al., Reconstruction Attacks on Machine Unlearning, 2024, section 3 (linear
        models, public moments).
    """

    min_references: ClassVar[int] = 0
    reads: ClassVar[str] = "inside"
    inherent: ClassVar[bool] = True

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """How well each picture lies in the difference, of forget (F,) and unseen (U,)."""
        new, old = one_trunk(target)
        moment_PP = moments(new.population_ZC)
        moved_PK = difference(old, new)
        length_K = np.sqrt(np.einsum("pk,pq,qk->k", moved_PK, moment_PP, moved_PK))
        if not length_K.any():
            raise Lacks(
                "attack head-difference", "its head is the old one", "Give a model that forgot"
            )
        moved_PK = moved_PK[:, length_K > 0] / length_K[length_K > 0]
        # x' H^-1 x = |L^-1 x|^2 with H = L L': one triangular factor serves all samples.
        factor_PP = np.linalg.cholesky(moment_PP)

        def score(feature_NC: Array) -> Array:
            x_NP = with_one(feature_NC)
            leverage_N = (np.linalg.solve(factor_PP, x_NP.T) ** 2).sum(axis=0)
            return np.asarray(
                np.linalg.norm(x_NP @ moved_PK, axis=1) / np.sqrt(leverage_N), np.float64
            )

        return score(new.forget_FC), score(new.unseen_UC)


def one_trunk(target: Signals) -> tuple[Inside, Inside]:
    """The new and the old layer of a model; `Lacks` where there are no two, or they read different
    features.
    """
    new, old = target.inside, None if target.before is None else target.before.inside
    if new is None or old is None:
        raise Lacks(
            "attack head-difference",
            "it needs the weights of an old and a new version",
            "Give both checkpoints",
        )
    if new.weight_KC.shape != old.weight_KC.shape or not np.allclose(
        new.unseen_UC, old.unseen_UC, rtol=0, atol=ALIKE * float(np.abs(old.unseen_UC).max())
    ):
        raise Lacks(
            "attack head-difference",
            "the layers in front of its head changed as well",
            "Use it on a closed-form design",
        )
    return new, old


def with_one(feature_NC: Array) -> Array:
    """Features with a column of ones after them (N, P)."""
    return np.concatenate([feature_NC, np.ones((len(feature_NC), 1))], axis=1)


def moments(population_ZC: Array) -> Array:
    """H = mean x' x'^T (P, P) of population samples, shrunk by `SHRINK` but for the ones."""
    x_ZP = with_one(population_ZC)
    moment_PP = x_ZP.T @ x_ZP / len(x_ZP)
    ridge_P = np.full(len(moment_PP), SHRINK * float(population_ZC.var(axis=0).mean()) + 1e-12)
    return moment_PP + np.diag(ridge_P)


def difference(old: Inside, new: Inside) -> Array:
    """theta_old - theta_new (P, K), the bias in the last row."""
    return np.concatenate([(old.weight_KC - new.weight_KC).T, (old.bias_K - new.bias_K)[None]])


def reconstruct(old: Inside, new: Inside) -> Array:
    """The features (C,) of the one sample that left, from two heads and population samples alone.

    H D has rank one where one sample left: its left vector is (x, 1) times a number, which the last
    entry gives.

    Args:
        old, new: layers over one trunk.
    """
    left_PK = np.linalg.svd(moments(new.population_ZC) @ difference(old, new), full_matrices=False)[
        0
    ]
    return np.asarray(left_PK[:-1, 0] / left_PK[-1, 0], np.float64)
