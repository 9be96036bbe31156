"""Predictions that say what they are told to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unplug.sdk.evidence.auditing import Signals
from unplug.sdk.learning.training import ClassPredictions


def says(
    phi: Sequence[float] | NDArray[np.float64],
    ages: Sequence[float] | NDArray[np.float64] | None = None,
) -> ClassPredictions:
    """Two age groups: the true one is the first, and its logit is higher by `phi`; true ages are
    30, where ages are known.
    """
    nothing = np.full(len(phi), np.nan)
    return ClassPredictions(
        logits_NG=np.stack([np.asarray(phi, dtype=np.float64), np.zeros(len(phi))], axis=1),
        age_N=nothing if ages is None else np.asarray(ages, dtype=np.float64),
        true_age_N=nothing if ages is None else np.full(len(phi), 30.0),
        true_group_N=np.zeros(len(phi), np.int64),
    )


def model(
    forget: ClassPredictions, unseen: ClassPredictions, retain: ClassPredictions | None = None
) -> Signals:
    """The population is the unseen set."""
    return Signals(forget=forget, unseen=unseen, population=unseen, retain=retain or unseen)
