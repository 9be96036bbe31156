"""Statistics of two populations of models: half samples of models, whole subjects of samples, and
the null beside it.

Shapes: U unlearned models, N retrained models, S samples, D draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.evidence.statistics import Estimate, interval, subject_weights

Array = NDArray[np.float64]
MIN_MODELS = 4
"""Retrained models that can be split into two pairs."""


@dataclass(frozen=True, kw_only=True)
class Draws:
    """A per-sample statistic on D draws of h models a side.

    Args:
        own_DS: h unlearned against h retrained models.
        null_DS: h other retrained models against the same h.
        weight_DS: of the samples, from drawing whole subjects.
        per_side: h.
    """

    own_DS: Array
    null_DS: Array
    weight_DS: Array
    per_side: int


def draw_halves(
    statistic: Callable[[Array, Array], Array],
    unlearned_US: Array,
    retrained_NS: Array,
    subjects_S: NDArray[np.int64] | None,
    *,
    draws: int,
    seed: int,
) -> Draws:
    """Evaluates a statistic on random halves, drawn without replacement.

    A bootstrap over models would repeat models, and two samples with repeated values are easier to
    tell apart. Half samples have no repetitions, and theta(half) - theta(all) has the variance of
    theta(all) - truth: sigma^2 (2/n - 1/n) = sigma^2 / n.

    Args:
        statistic: (h, S), (h, S) to (S,).
        unlearned_US, retrained_NS: a number per model and sample; at least 2 and 4 models.
        subjects_S: None takes every sample as a subject of its own.
        draws: D.
        seed: of the draws.

    Raises:
        InputError: too few models, shapes that do not agree, or values that are not finite.

    Reference:
        Wu, On the asymptotic properties of the jackknife histogram, 1990 (half samples).
    """
    check_models(unlearned_US, retrained_NS)
    rng = np.random.default_rng([seed, 77])
    half = min(max(1, len(unlearned_US) // 2), len(retrained_NS) // 2)
    own, null = [], []
    for _ in range(draws):
        first, second = np.split(rng.permutation(len(retrained_NS))[: 2 * half], 2)
        chosen = rng.permutation(len(unlearned_US))[:half]
        own.append(statistic(unlearned_US[chosen], retrained_NS[first]))
        null.append(statistic(retrained_NS[second], retrained_NS[first]))
    people_S = np.arange(retrained_NS.shape[1]) if subjects_S is None else subjects_S
    weight_DS = subject_weights(people_S, draws, rng).astype(np.float64)
    return Draws(own_DS=np.stack(own), null_DS=np.stack(null), weight_DS=weight_DS, per_side=half)


def check_models(unlearned_US: Array, retrained_NS: Array) -> None:
    """Refuses populations that say nothing about themselves."""
    if len(retrained_NS) < MIN_MODELS or len(unlearned_US) < 2:
        raise InputError(
            "population",
            f"{len(unlearned_US)} unlearned and {len(retrained_NS)} retrained models",
            f"Give at least 2 and {MIN_MODELS}",
        )
    if (
        unlearned_US.shape[1:] != retrained_NS.shape[1:]
        or unlearned_US.ndim != 2
        or unlearned_US.shape[1] == 0
    ):
        raise InputError(
            "population",
            f"shapes {unlearned_US.shape} and {retrained_NS.shape}",
            "Give both for the same samples",
        )
    if not (np.isfinite(unlearned_US).all() and np.isfinite(retrained_NS).all()):
        raise InputError(
            "population", "some values are not numbers", "Leave the models out that diverged"
        )


def weighted_mean(value_DS: Array, weight_DS: Array) -> Array:
    """Mean over samples of each draw (D,)."""
    return np.asarray((value_DS * weight_DS).sum(axis=1) / weight_DS.sum(axis=1), np.float64)


def weighted_p95(value_DS: Array, weight_DS: Array) -> Array:
    """Smallest value with 95 % of a draw's weight at or below it (D,)."""
    order = np.argsort(value_DS, axis=1, kind="stable")
    share_DS = np.cumsum(np.take_along_axis(weight_DS, order, axis=1), axis=1)
    at = (share_DS >= 0.95 * share_DS[:, -1:] - 1e-9).argmax(axis=1)
    return np.asarray(
        np.take_along_axis(value_DS, order, axis=1)[np.arange(len(at)), at], np.float64
    )


def estimate(
    value_DS: Array,
    weight_DS: Array,
    reduce: Callable[[Array, Array], Array],
    center: float | None = None,
) -> Estimate:
    """Mean of the unweighted draws (or `center`), with the spread of the weighted ones around it."""
    plain = float(reduce(value_DS, np.ones_like(weight_DS)).mean())
    return spread(reduce(value_DS, weight_DS), plain if center is None else center)


def spread(value_D: Array, center: float) -> Estimate:
    """`center` with the percentile interval of the draws, moved so that their mean lies on it."""
    low, high = interval(value_D - value_D.mean())
    return Estimate(value=center, low=center + low, high=center + high)
