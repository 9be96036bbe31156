"""What the Gaussian attacks share: means and spreads of reference models, and signed residuals in
years.

Shapes: M reference models, F forget, U unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unplug.core import InputError
from unplug.sdk.learning.training import ClassPredictions, Predictions

from ..attack import Array, Signals


def residual(predictions: Predictions) -> Array:
    """E[age] - age in years (N,).

    Raises:
        InputError: the model or the data has no ages.
    """
    value_N = (
        predictions.age_N - predictions.true_age_N
        if isinstance(predictions, ClassPredictions)
        else np.full(1, np.nan)
    )
    if not np.isfinite(value_N).all():
        raise InputError(
            "attack on errors",
            "the model answers with no number, or the data have none",
            "Use an attack on class probabilities",
        )
    return value_N


def deviation(
    target: Signals,
    references: Sequence[Signals],
    statistic: Callable[[Predictions], Array],
    *,
    own_variance: bool,
    name: str,
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """(value - mu_x) / s of forget and unseen, then mu_x / s of both; mu_x and s over the reference
    models.

    Args:
        target, references: signals; at least two references.
        statistic: one number a sample.
        own_variance: s of each sample, else the root of the mean variance over both sets.
        name: the name of the attack, for the message.

    Raises:
        InputError: references that do not differ.
    """
    parts = ("forget", "unseen")
    mean, variance = [], []
    for part in parts:
        value_MN = np.stack([statistic(getattr(item, part)) for item in references])
        mean.append(value_MN.mean(axis=0))
        variance.append(value_MN.var(axis=0, ddof=1))
    # One variance for both sets where references are few: their own would be noise.
    pooled = np.concatenate(variance)
    if (pooled.min() if own_variance else pooled.mean()) <= 0:
        raise InputError(
            f"attack {name}", "the reference models do not differ", "Train them with other seeds"
        )
    scale = [
        np.sqrt(item if own_variance else np.full_like(item, pooled.mean())) for item in variance
    ]
    values = [statistic(getattr(target, part)) for part in parts]
    z_F, z_U = ((value - mu) / s for value, mu, s in zip(values, mean, scale, strict=True))
    at_F, at_U = (mu / s for mu, s in zip(mean, scale, strict=True))
    return (z_F, z_U), (at_F, at_U)
