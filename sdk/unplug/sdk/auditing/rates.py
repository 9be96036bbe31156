"""True-positive rates with intervals, and intervals that hold for several attacks at once.

Shapes: F forget scores, U unseen scores, R bootstrap replicates.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unplug.sdk.statistics import CONFIDENCE, Array, Resamples, interval, tpr_at

from .report import Estimate


def tpr_estimate(forget_F: Array, unseen_U: Array, rate: float, draws: Resamples) -> Estimate | None:
    """True-positive rate at a false-positive rate of at most `rate`; None where the sample cannot support it.

    In every replicate the threshold is chosen anew: just above the unseen score whose weight would exceed the rate.
    """
    value = tpr_at(forget_F, unseen_U, rate)
    if value is None:
        return None
    order = np.argsort(-unseen_U, kind="stable")
    falling = unseen_U[order]
    unseen_RU = np.cumsum(draws.unseen_RU[:, order], axis=1, dtype=np.float64)
    forget_order = np.argsort(-forget_F, kind="stable")
    forget_RF = np.cumsum(draws.forget_RF[:, forget_order], axis=1, dtype=np.float64)
    # How many forget scores lie above each unseen one, and above none of them.
    above = np.append(np.searchsorted(np.sort(-forget_F), -falling, side="left"), len(forget_F))
    # A last bit of a product must not decide whether one sample more fits under the rate.
    first_R = (unseen_RU <= rate * unseen_RU[:, -1:] * (1 + 1e-12)).sum(axis=1)
    count_R = above[first_R]
    hits_R = np.where(count_R > 0, forget_RF[np.arange(len(count_R)), count_R - 1], 0.0) / forget_RF[:, -1]
    low, high = interval(np.asarray(hits_R, np.float64))
    return Estimate(value=value, low=low, high=high)


def simultaneous(gaps: Mapping[str, tuple[float, Array]]) -> dict[str, Estimate]:
    """Intervals that hold for all attacks together with 95 % confidence: value -+ q s, q the quantile of max_k |d_k| / s_k.

    With eight attacks at 95 % each, a model like the oracle would raise an alarm every few audits. The attacks' replicates
    are of the same resamples, so their correlation is in the maximum, and q stays well below Bonferroni's.

    Args:
        gaps: an attack's value and the values of its replicates (R,).

    Reference:
        Romano and Wolf, Exact and Approximate Stepdown Methods for Multiple Hypothesis Testing, 2005.
    """
    spread = {name: float(gap_R.std()) for name, (_, gap_R) in gaps.items()}
    moving = [np.abs(gap_R - value) / spread[name] for name, (value, gap_R) in gaps.items() if spread[name] > 0]
    q = float(np.quantile(np.max(moving, axis=0), CONFIDENCE)) if moving else 0.0
    return {
        name: Estimate(value=value, low=value - q * spread[name], high=value + q * spread[name])
        for name, (value, _) in gaps.items()
    }
