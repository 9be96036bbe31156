"""The features attack: a probe on what the last layer reads, for somebody who holds the weights.

Shapes: F forget, U unseen, N = F + U samples, C features, K folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from unplug.core import InputError

from ..attack import Array, Lacks, Signals

FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class FeaturesAttack:
    """score(x) = b + w f(x), f what the last linear layer reads: logistic regressions, each judging
    the people left out of it.

    Methods that change the last layer alone leave in front of it all that was learned. The
    regression is fitted to four fifths of the forgotten and of the unseen *people* and judges the
    others; features are standardized, and the penalty is one per feature, for there are more
    features than samples. It tells ages as well as membership where the two sets differ in those:
    compare with the oracle's number.

    Raises:
        Lacks: from the call, where there are no features: of files, of stored answers.
        InputError: from the call, with fewer people on a side than folds.

    Reference:
        Nasr et al., Comprehensive Privacy Analysis of Deep Learning, 2019, section III (the last
        hidden layer's output).
    """

    min_references: ClassVar[int] = 0
    reads: ClassVar[str] = "inside"

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Log odds of having been forgotten, of forget (F,) and unseen (U,)."""
        if target.inside is None:
            raise Lacks(
                "attack features",
                "its weights are not at hand, so nothing shows its features",
                "Give a checkpoint",
            )
        feature_FC, feature_UC = target.inside.forget_FC, target.inside.unseen_UC
        person_F = np.arange(len(feature_FC)) if target.person_F is None else target.person_F
        person_U = np.arange(len(feature_UC)) if target.person_U is None else target.person_U
        fold_F, fold_U = _folds(person_F), _folds(person_U)
        score_F, score_U = np.empty(len(feature_FC)), np.empty(len(feature_UC))
        for fold in range(FOLDS):
            out_F, out_U = fold_F == fold, fold_U == fold
            probe = fit_probe(feature_FC[~out_F], feature_UC[~out_U])
            score_F[out_F], score_U[out_U] = probe(feature_FC[out_F]), probe(feature_UC[out_U])
        return score_F, score_U


def _folds(person_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which fold each sample is in (N,), whole people, dealt out in an order that only their number
    decides.
    """
    people, number_N = np.unique(person_N, return_inverse=True)
    if len(people) < FOLDS:
        why = f"{len(people)} people on one side, {FOLDS} folds of people"
        raise InputError("attack features", why, f"It needs {FOLDS} people on each side")
    return np.asarray(
        np.random.default_rng(len(people)).permutation(len(people)) % FOLDS, np.int64
    )[number_N]


class Probe:
    """b + w (f - mean) / spread."""

    def __init__(self, mean_C: Array, spread_C: Array, weight_C: Array, bias: float) -> None:
        self.mean_C, self.spread_C, self.weight_C, self.bias = mean_C, spread_C, weight_C, bias

    def __call__(self, feature_NC: Array) -> Array:
        """Log odds (N,)."""
        return np.asarray(
            (feature_NC - self.mean_C) / self.spread_C @ self.weight_C + self.bias, np.float64
        )


def fit_probe(one_FC: Array, zero_UC: Array) -> Probe:
    """argmin_{w, b} sum_i c_i softplus(-t_i (b + w x_i)) + C / 2 |w|^2, with both sides of equal
    weight (c_i).
    """
    x_NC = np.concatenate([one_FC, zero_UC])
    mean_C, spread_C = x_NC.mean(axis=0), x_NC.std(axis=0)
    spread_C = np.where(spread_C > 0, spread_C, 1.0)
    x_NC = (x_NC - mean_C) / spread_C
    sign_N = np.r_[np.ones(len(one_FC)), -np.ones(len(zero_UC))]
    weight_N = np.r_[
        np.full(len(one_FC), 0.5 / len(one_FC)), np.full(len(zero_UC), 0.5 / len(zero_UC))
    ] * len(x_NC)
    features = x_NC.shape[1]

    def cost(theta: Array) -> tuple[float, Array]:
        margin_N = sign_N * (x_NC @ theta[:-1] + theta[-1])
        slope_N = -sign_N * weight_N * expit(-margin_N)
        gradient = np.r_[x_NC.T @ slope_N + features * theta[:-1], slope_N.sum()]
        return float(
            weight_N @ np.logaddexp(0.0, -margin_N) + features / 2 * theta[:-1] @ theta[:-1]
        ), gradient

    # L-BFGS needs no Hessian over all features; the cost is convex, so the start does not matter.
    theta = minimize(cost, np.zeros(features + 1), jac=True, method="L-BFGS-B").x
    return Probe(mean_C, spread_C, theta[:-1], float(theta[-1]))
