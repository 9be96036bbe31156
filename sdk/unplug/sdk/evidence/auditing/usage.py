"""What share of a set was used: of the forget set nothing should be left, of the retain set all of
it.

Shapes: R bootstrap replicates, N samples of a set, U unseen samples.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unplug.sdk.evidence.statistics import (
    Estimate,
    NotGiven,
    interval,
    subject_weights,
    with_interval,
)
from unplug.sdk.learning.training import Sets

from .attack import Array, Signals
from .attacks.task_loss import strongest
from .audit_report import Usage

REPLICATES = 500
CLEAR = 0.05
"""Least difference between the original's rates: below it a share would be a ratio of noise."""


def usage(own: Signals, original: Signals, sets: Sets, seed: int = 0) -> Usage | NotGiven:
    """Shares of the forget and of the retain set that a model still uses, as one threshold sees it.

    share(S) = (P[s > t in S] - P[s > t in unseen]) of the model / the same of the original, which
    used all of both sets; s = -task loss, and t is where the original's retain set and unseen
    samples differ most. The rates of guesses are debiased as in the reference, with the original in
    the place of reference models. 1 is what the original used, 0 is nothing.

    A model that forgets everybody has nothing of the forget set left, as asked, and nothing of the
    retain set either: here it shows.

    Args:
        own: the answers of the model in question.
        original: the answers of the model before forgetting.
        sets: the sets of the request, which say who is in which sample.
        seed: the seed of the resampling.

    Returns:
        Shares with intervals over people, or why there are none.

    Reference:
        Tong et al., How Much of My Dataset Did You Use?, 2025, section 4 (debiased guesses, added
        up).
    """
    threshold = _threshold(strongest(original.retain), strongest(original.unseen))
    rng = np.random.default_rng([seed, 91])
    # One draw of unseen people for both shares, so that they may be compared.
    weight_RU = subject_weights(sets.test.subject_N, REPLICATES, rng).astype(np.float64)
    shares: dict[str, Estimate] = {}
    parts: Mapping[str, NDArray[np.int64]] = {
        "forget": sets.forget.subject_N,
        "retain": sets.train.subject_N,
    }
    for name, people_N in parts.items():
        weight_RN = subject_weights(people_N, REPLICATES, rng).astype(np.float64)
        gaps = [_gap(model, name, threshold, weight_RN, weight_RU) for model in (own, original)]
        (value, value_R), (whole, whole_R) = gaps
        if interval(whole_R)[0] <= CLEAR:
            told = f"in {100 * whole:.0f} of 100" if whole >= 0.005 else "no better than chance"
            why = (
                f"a threshold tells the {name} set from unseen samples {told} even in the original"
            )
            return NotGiven(reason=f"{why}, too few for a share")
        shares[name] = with_interval(value / whole, value_R / whole_R)
    return Usage(forget=shares["forget"], retain=shares["retain"])


def _threshold(member_N: Array, unseen_U: Array) -> float:
    """Where the shares above differ most."""
    score_T = np.unique(np.concatenate([member_N, unseen_U]))
    above = [
        1 - np.searchsorted(np.sort(side), score_T, side="right") / len(side)
        for side in (member_N, unseen_U)
    ]
    return float(score_T[int((above[0] - above[1]).argmax())])


def _gap(
    model: Signals, name: str, threshold: float, weight_RN: Array, weight_RU: Array
) -> tuple[float, Array]:
    """P[s > t] in a set minus that in unseen samples, and of every replicate (R,)."""
    own_N = (strongest(getattr(model, name)) > threshold).astype(np.float64)
    unseen_U = (strongest(model.unseen) > threshold).astype(np.float64)
    rate_R = weight_RN @ own_N / weight_RN.sum(axis=1) - weight_RU @ unseen_U / weight_RU.sum(
        axis=1
    )
    return float(own_N.mean() - unseen_U.mean()), np.asarray(rate_R, np.float64)
