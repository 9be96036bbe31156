"""The predictor: a latency is a fixed cost, a cost an operator, and for each kind a cost a
multiply-accumulate and a byte.

Its error is that on networks that were held out. Shapes: N rows, P coefficients.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .estimate_report import HeldOut
from .operators import KINDS, MAC_KINDS, Features

Array = NDArray[np.float64]
COLUMNS = (
    "call",
    "operators",
    *(f"{kind} MACs" for kind in MAC_KINDS),
    *(f"{kind} bytes" for kind in KINDS),
)
GROUPS = np.array([0, 1, *(2 for _ in MAC_KINDS), *(3 for _ in KINDS)])
"""Columns of one group share a coefficient until rows say otherwise: call, operators, MACs, bytes.
"""
PRIOR_SHARES = (0.05, 0.15, 0.5, 0.3)
"""Shares of the latency, by group, before anything is known."""
SHRINK_GROUPS, SHRINK_KINDS = 0.01, 0.03
"""Weight of the prior: a coefficient that is off by its own size costs as much as one row that is
off by the root of it.
"""


@dataclass(frozen=True, kw_only=True)
class LatencyModel:
    """Costs in milliseconds, none of them negative: more work never takes less time.

    Args:
        costs: the costs by column of `COLUMNS`.
    """

    costs: dict[str, float]

    def latency_ms(self, features: Features) -> float:
        """The latency of a file with these operators."""
        return float(columns(features) @ np.array([self.costs[name] for name in COLUMNS]))


def columns(features: Features) -> Array:
    """Features as one row of the design, P numbers."""
    return np.array(
        [
            1.0,
            float(features.operators),
            *(float(features.macs[kind]) for kind in MAC_KINDS),
            *(float(features.bytes[kind]) for kind in KINDS),
        ]
    )


def fit(features_N: Sequence[Features], latencies_N: Sequence[float]) -> LatencyModel:
    """Fits the costs to measured latencies.

    min over c >= 0 of sum_i ((x_i c - t_i) / t_i)^2 + lambda sum_p ((c_p - m_p) / m_p)^2, twice:
    first with one coefficient a group (m: what `PRIOR_SHARES` says), then with one a column (m:
    what the first gave). Relative errors, so that a small model counts as much as a large one; the
    prior makes one row enough for one throughput, and leaves a kind of operator that no row has at
    the common cost.

    Args:
        features_N: the features of each row's file.
        latencies_N: milliseconds, above 0.

    Raises:
        ValueError: there are no rows, or a latency is not above 0.

    Example:
        >>> zeros = dict.fromkeys(KINDS, 0)
        >>> file = Features(macs=zeros | {"conv": 1_000_000}, bytes=zeros | {"conv": 4_000}, operators=1)
        >>> round(fit([file], [2.0]).latency_ms(file), 6)
        2.0

    Reference:
        Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23 (nonnegative least
        squares).
    """
    times_N = np.asarray(latencies_N, np.float64)
    if not len(times_N) or not np.all(times_N > 0.0):
        raise ValueError("a fit needs rows, each with a latency above 0")
    design_NP = np.stack([columns(features) for features in features_N])
    grouped = np.stack(
        [design_NP[:, group == GROUPS].sum(axis=1) for group in range(len(PRIOR_SHARES))], axis=1
    )
    prior = np.array(
        [_share(grouped[:, group], times_N, share) for group, share in enumerate(PRIOR_SHARES)]
    )
    shared = _shrunk(grouped, times_N, prior, prior, SHRINK_GROUPS)
    costs = _shrunk(design_NP, times_N, shared[GROUPS], prior[GROUPS], SHRINK_KINDS)
    return LatencyModel(costs=dict(zip(COLUMNS, costs.tolist(), strict=True)))


def _share(amounts_N: Array, times_N: Array, share: float) -> float:
    """What one unit costs when `share` of each latency goes with this column: the geometric mean
    over the rows.
    """
    known = amounts_N > 0.0
    return (
        share * float(np.exp(np.mean(np.log(times_N[known] / amounts_N[known]))))
        if known.any()
        else 0.0
    )


def _shrunk(
    design_NP: Array, times_N: Array, mean_P: Array, scale_P: Array, weight: float
) -> Array:
    """Nonnegative least squares of relative errors with a ridge towards `mean_P`, in units of
    `scale_P`.
    """
    from scipy.optimize import nnls

    used = scale_P > 0.0
    # A coefficient in units of its scale is of the order of one, so that both parts of the sum can
    # be weighed.
    rows = design_NP[:, used] * scale_P[used] / times_N[:, None]
    ridge = np.sqrt(weight) * np.eye(int(used.sum()))
    wanted = np.concatenate([np.ones(len(times_N)), np.sqrt(weight) * mean_P[used] / scale_P[used]])
    solution: Any = nnls(np.vstack([rows, ridge]), wanted)[0]
    costs = np.zeros(design_NP.shape[1])
    costs[used] = solution * scale_P[used]
    return costs


Row = TypeVar("Row")


def leave_one_out(
    rows: Sequence[Row],
    *,
    model_of: Callable[[Row], Hashable],
    measured: Callable[[Row], float],
    predicted: Callable[[Sequence[Row], Row], float],
) -> HeldOut | None:
    """Predicts the rows of each model from those of the others.

    Args:
        rows: rows of one setting.
        model_of: the model of a row, left out together with its other rows; the same network in
            another precision or trained anew is the same model.
        measured: milliseconds of a row.
        predicted: a function that predicts milliseconds of a left-out row from the rows kept.

    Returns:
        None below two models: nothing can be left out.

    Example:
        >>> found = leave_one_out([1.0, 2.0], model_of=float, measured=float, predicted=lambda kept, row: kept[0])
        >>> found.low, found.high, found.models
        (0.5, 2.0, 2)
    """
    models = list(dict.fromkeys(model_of(row) for row in rows))
    if len(models) < 2:
        return None
    ratios = []
    for model in models:
        kept = [row for row in rows if model_of(row) != model]
        ratios += [measured(row) / predicted(kept, row) for row in rows if model_of(row) == model]
    return HeldOut(
        low=min(ratios),
        high=max(ratios),
        median_error=statistics.median(abs(ratio - 1.0) for ratio in ratios),
        rows=len(ratios),
        models=len(models),
        coverage=(len(models) - 1) / (len(models) + 1),
    )
