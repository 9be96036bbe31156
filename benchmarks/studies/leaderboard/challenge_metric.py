"""The score of the NeurIPS 2023 machine unlearning challenge, beside the score that perfect
unlearning would get.

Shapes: U unlearned models, N retrained models, S forget samples, K pooled values of one sample; P
    right and Q left ends of
windows, W windows.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.evidence.auditing import check_different
from unplug.sdk.evidence.statistics import Estimate

from .half_samples import Draws, check_models, draw_halves, estimate, spread, weighted_mean

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Variant = Literal["spec", "code"]

DELTA = 1e-5
BIN_WIDTH = 0.5
BINS: dict[Variant, int] = {"spec": 13, "code": 14}
RANGE_RATIO, CAP = 0.01, 50.0  # "code": such unequal ranges count as told apart without a look
PER_UNIT = 100  # thresholds in a unit of phi
REACH = 2.0  # how far a window's ends may lie from the ends of the narrower sample, in units of phi
TICKS = int(2 * REACH * PER_UNIT)
TOUCH = 1e-7  # of a grid step: a value this near a threshold lies on it, and is inside
PAIRS = 2**18  # values by values at once, about what a processor's cache holds


@dataclass(frozen=True, kw_only=True)
class ChallengeMetric:
    """F and F / F_null of one method.

    Args:
        forgetting: F of all models.
        null: F_null, of retrained against other retrained models, `null_models` a side.
        ratio: F / F_null, both at `null_models` a side; 1 is what retraining itself would get.
        score: F (RA_U / RA_R) (TA_U / TA_R); None where no accuracies were given.
        epsilon_S: of each forget sample.
        models, oracle_models, null_models: U, N, and models a side in `null` and `ratio`.
        samples: S.
        variant: "spec" or "code".
    """

    forgetting: Estimate
    null: Estimate
    ratio: Estimate
    score: float | None
    epsilon_S: tuple[float, ...]
    models: int
    oracle_models: int
    null_models: int
    samples: int
    variant: Variant


def challenge(
    phi_unlearned_US: Array,
    phi_retrained_NS: Array,
    subjects_S: NDArray[np.int64] | None = None,
    *,
    utility: tuple[float, float, float, float] | None = None,
    variant: Variant = "code",
    replicates: int = 100,
    seed: int = 0,
) -> ChallengeMetric:
    """F, F_null and their ratio, with intervals.

    F_null comes from random halves of the retrained models; F in the ratio from as many unlearned
    and retrained ones, since F depends on how many models there are. Intervals: halves of the
    models of both kinds drawn without replacement, and whole subjects with replacement, at once
    (see `draw_halves`).

    Args:
        phi_unlearned_US, phi_retrained_NS: `stats.confidence` of each model on each forget sample.
        subjects_S: whole subjects are resampled; None takes every sample as its own.
        utility: RA_U, RA_R, TA_U, TA_R: retain and test accuracy, unlearned and retrained, 0 to 1.
        variant: "code" is comparable with the competition's scores; "spec" is stricter, see
            `epsilons`.
        replicates: draws of halves, at least 2.
        seed: of the draws.

    Raises:
        InputError: too few models, shapes that do not agree, values that are not finite, or a
            retrained accuracy of 0.

    Reference:
        Triantafillou et al., Are we making progress in unlearning?, 2024, section 4 and appendix A.
    """
    check_models(phi_unlearned_US, phi_retrained_NS)
    check_different("retrained models", list(phi_retrained_NS))
    epsilon_S = epsilons(phi_unlearned_US, phi_retrained_NS, variant)
    value = forgetting(epsilon_S, variant)

    def credit_S(first: Array, second: Array) -> Array:
        return credits_of(epsilons(first, second, variant), variant)

    draws = draw_halves(
        credit_S, phi_unlearned_US, phi_retrained_NS, subjects_S, draws=replicates, seed=seed
    )
    return ChallengeMetric(
        forgetting=estimate(draws.own_DS, draws.weight_DS, weighted_mean, center=value),
        null=estimate(draws.null_DS, draws.weight_DS, weighted_mean),
        ratio=_ratio(draws),
        score=None if utility is None else value * _utility(*utility),
        epsilon_S=tuple(float(item) for item in epsilon_S),
        models=len(phi_unlearned_US),
        oracle_models=len(phi_retrained_NS),
        null_models=draws.per_side,
        samples=len(epsilon_S),
        variant=variant,
    )


def forgetting_gap(
    phi_first_US: Array,
    phi_second_US: Array,
    phi_retrained_NS: Array,
    subjects_S: NDArray[np.int64] | None = None,
    *,
    factors: tuple[float, float] = (1.0, 1.0),
    variant: Variant = "code",
    replicates: int = 100,
    seed: int = 0,
) -> Estimate:
    """a F(first) - b F(second), paired: both meet the same retrained models and samples in every
    draw.

    Args:
        phi_first_US, phi_second_US, phi_retrained_NS, subjects_S, variant, replicates, seed: as in
            `challenge`.
        factors: a and b, the utility factors that make a score of F.

    Raises:
        InputError: as `challenge`.
    """
    values, draws = [], []
    for phi_US, factor in zip((phi_first_US, phi_second_US), factors, strict=True):

        def credit_S(first: Array, second: Array) -> Array:
            return credits_of(epsilons(first, second, variant), variant)

        check_models(phi_US, phi_retrained_NS)
        values.append(factor * forgetting(epsilons(phi_US, phi_retrained_NS, variant), variant))
        # The same seed draws the same halves and subjects for both.
        drawn = draw_halves(
            credit_S, phi_US, phi_retrained_NS, subjects_S, draws=replicates, seed=seed
        )
        draws.append(factor * weighted_mean(drawn.own_DS, drawn.weight_DS))
    return spread(draws[0] - draws[1], values[0] - values[1])


def _ratio(draws: Draws) -> Estimate:
    own, null = (
        weighted_mean(draws.own_DS, draws.weight_DS),
        weighted_mean(draws.null_DS, draws.weight_DS),
    )
    return spread(own / null, float(draws.own_DS.mean() / draws.null_DS.mean()))


def _utility(retain_U: float, retain_R: float, test_U: float, test_R: float) -> float:
    if min(retain_R, test_R) <= 0:
        raise InputError(
            "challenge score",
            "a retrained model with accuracy 0",
            "Train the retrained models properly",
        )
    return (retain_U / retain_R) * (test_U / test_R)


def credits_of(epsilon_S: Array, variant: Variant = "code") -> Array:
    """H = 2 / 2^n (S,): n counts bins of width 0.5 from 1; epsilon < 0 is in the first bin, all
    above in the last.

    Example:
        >>> credits_of(np.array([-1.0, 0.2, 0.5, 6.4, np.inf]), "spec")[:3]
        array([1. , 1. , 0.5])
    """
    bin_S = np.clip(np.floor(np.minimum(epsilon_S, CAP) / BIN_WIDTH), 0, BINS[variant] - 1) + 1
    return np.asarray(2.0 / 2.0**bin_S, np.float64)


def forgetting(epsilon_S: Array, variant: Variant = "code") -> float:
    """F = mean over samples of H(s), the challenge's forgetting quality."""
    return float(credits_of(epsilon_S, variant).mean())


def epsilons(phi_unlearned_US: Array, phi_retrained_NS: Array, variant: Variant = "code") -> Array:
    """epsilon (S,): the largest over attacks of max{ln(1-d-FPR) - ln FNR, ln(1-d-FNR) - ln FPR}, at
    least 0.

    Both rates 0 give infinity, exactly one discards the attack. An attack calls a model positive
    when its phi is inside a window or above a threshold.

    spec: thresholds between all neighbouring values, every window, either population as the
        positive one. With many models a window can be narrow enough to be lucky: two samples of one
        Gaussian give F .07 at 64 models, less with more.
    code: as released. Thresholds 100 per unit; the population with the higher median is the
        positive one of single thresholds, the one with the smaller range that of windows, whose
        right end is within 2 of that sample's largest value and whose left end within 2 of (right
        end - its range); 50 where the ratio of ranges is under 1 %.
    """
    table = _table(len(phi_unlearned_US), len(phi_retrained_NS))
    if variant == "spec":
        return _every_window(phi_unlearned_US, phi_retrained_NS, np.maximum(*table))
    return _released(phi_unlearned_US, phi_retrained_NS, *table)


@functools.lru_cache(maxsize=8)
def _table(models: int, oracle_models: int) -> tuple[Array, Array]:
    """epsilon of a window that holds u unlearned and r retrained models, at u (N + 1) + r;
    positive: unlearned, retrained.
    """
    in_U = np.arange(models + 1)[:, None] / models
    in_N = np.arange(oracle_models + 1)[None, :] / oracle_models
    return _epsilon(in_N, 1 - in_U).ravel(), _epsilon(in_U, 1 - in_N).ravel()


def _epsilon(false_positive: Array, false_negative: Array) -> Array:
    p, n = np.broadcast_arrays(false_positive, false_negative)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.fmax(np.log(1 - DELTA - p) - np.log(n), np.log(1 - DELTA - n) - np.log(p))
    value = np.where((p == 0) | (n == 0) | np.isnan(value), 0.0, value)
    return np.maximum(np.where((p == 0) & (n == 0), np.inf, value), 0.0)


def _every_window(own_US: Array, other_NS: Array, table: Array) -> Array:
    sorted_SK, before_SK = _pool(own_US, other_NS)
    best = np.zeros(len(sorted_SK))
    for sample in range(len(best)):
        # A threshold fits only between different values; the counts before it are all that an
        # attack depends on.
        ends = np.flatnonzero(np.diff(sorted_SK[sample], append=np.inf) > 0)
        before = np.concatenate([[0], before_SK[sample, ends + 1]])
        for start in range(len(before) - 1):
            best[sample] = max(best[sample], table[before[start + 1 :] - before[start]].max())
    return best


def _pool(own_US: Array, other_NS: Array) -> tuple[Array, Counts]:
    """All values of each sample in order (S, K), and the counts u (N + 1) + r of the first 0, 1,
    ..., K of them (S, K + 1).
    """
    pooled_SK = np.concatenate([own_US, other_NS]).T
    order_SK = np.argsort(pooled_SK, axis=1, kind="stable")
    steps_SK = np.where(order_SK < len(own_US), len(other_NS) + 1, 1)
    before_SK = np.concatenate(
        [np.zeros((len(pooled_SK), 1), np.int64), np.cumsum(steps_SK, axis=1)], axis=1
    )
    return np.take_along_axis(pooled_SK, order_SK, axis=1), before_SK


def _released(own_US: Array, other_NS: Array, own_table: Array, other_table: Array) -> Array:
    sorted_SK, before_SK = _pool(own_US, other_NS)
    own_range, other_range = np.ptp(own_US, axis=0), np.ptp(other_NS, axis=0)
    tables = np.stack([own_table, other_table])
    by_median = (np.median(other_NS, axis=0) > np.median(own_US, axis=0)).astype(np.int64)
    by_range = (own_range >= other_range).astype(np.int64)
    ends = [(item.min(axis=0), item.max(axis=0)) for item in (own_US, other_NS)]
    low, high = (np.where(by_range == 1, other, own) for own, other in zip(*ends, strict=True))
    best = np.maximum(
        _best_above(sorted_SK, before_SK, tables, by_median),
        _best_window(sorted_SK, before_SK, tables, by_range, low, high),
    )
    apart = np.minimum(own_range, other_range) < RANGE_RATIO * np.maximum(own_range, other_range)
    return np.where(apart, CAP, np.minimum(best, CAP))


def _best_above(sorted_SK: Array, before_SK: Counts, tables: Array, positive_S: Counts) -> Array:
    """The largest table value (S,) over single thresholds: "positive at or above it".

    Args:
        sorted_SK: all values of each sample in order.
        before_SK: (S, K + 1), a count of the first 0, 1, ..., K of them that indexes a table.
        tables: (2, T), what an attack is worth by the count inside it, for either positive
            population.
        positive_S: row of `tables`.
    """
    range_S = sorted_SK[:, -1] - sorted_SK[:, 0]
    count_S = np.maximum(1, np.ceil(range_S * PER_UNIT)).astype(np.int64)
    step_S = np.where(count_S > 1, range_S / np.maximum(count_S - 1, 1), np.inf)
    first = np.floor((sorted_SK - sorted_SK[:, :1]) / step_S[:, None] + TOUCH).astype(np.int64) + 1
    first_SK, last_SK = _grid_spans(np.minimum(first, count_S[:, None]), count_S[:, None])
    value_SK = tables[positive_S[:, None], before_SK[:, -1:] - before_SK]
    return np.asarray(np.where(first_SK <= last_SK, value_SK, 0.0).max(axis=1), np.float64)


def _best_window(
    sorted_SK: Array,
    before_SK: Counts,
    tables: Array,
    positive_S: Counts,
    low_S: Array,
    high_S: Array,
) -> Array:
    """The largest table value (S,) over windows.

    Right ends are high - 2 + k / 100, left ends low - 4 + (k + m) / 100, k and m from 0 to 400.

    Args:
        sorted_SK, before_SK, tables, positive_S: as in `_best_above`.
        low_S, high_S: ends of the positive population.
    """
    from_right = (sorted_SK - (high_S - REACH)[:, None]) * PER_UNIT
    from_left = (sorted_SK - (low_S - 2 * REACH)[:, None]) * PER_UNIT
    right = np.clip(np.ceil(from_right - TOUCH), 0, TICKS + 1).astype(np.int64)
    left = np.clip(np.floor(from_left + TOUCH) + 1, 0, 2 * TICKS + 1).astype(np.int64)
    best = np.zeros(len(sorted_SK))
    some = max(1, PAIRS // sorted_SK.shape[1] ** 2)
    for start in range(0, len(best), some):
        part = slice(start, start + some)
        best[part] = _best_pair(right[part], left[part], before_SK[part], tables, positive_S[part])
    return best


def _best_pair(
    right_SK: Counts, left_SK: Counts, before_SK: Counts, tables: Array, positive_S: Counts
) -> Array:
    (first_right, last_right), (first_left, last_left) = (
        _grid_spans(right_SK, TICKS + 1),
        _grid_spans(left_SK, 2 * TICKS + 1),
    )
    sample_P, i_P = np.nonzero(first_right <= last_right)
    sample_Q, j_Q = np.nonzero(first_left <= last_left)
    # The left ends that go with a right end are neighbours. With the sample as the leading digit of
    # every key, all of them are found by three searches.
    row_P, row_Q = 4 * TICKS * sample_P, 4 * TICKS * sample_Q
    low_P = np.searchsorted(row_Q + last_left[sample_Q, j_Q], row_P + first_right[sample_P, i_P])
    high_P = np.searchsorted(
        row_Q + first_left[sample_Q, j_Q], row_P + last_right[sample_P, i_P] + TICKS, side="right"
    )
    width = before_SK.shape[1]
    high_P = np.minimum(
        high_P, np.searchsorted(width * sample_Q + j_Q, width * sample_P + i_P, side="right")
    )
    length_P = np.maximum(high_P - low_P, 0)
    start_P = np.cumsum(length_P) - length_P
    left_W = np.arange(length_P.sum()) - np.repeat(start_P - low_P, length_P)
    end_P = positive_S[sample_P] * tables.shape[1] + before_SK[sample_P, i_P]
    value_W = tables.ravel()[np.repeat(end_P, length_P) - before_SK[sample_Q, j_Q][left_W]]
    best, tried = np.zeros(len(before_SK)), np.flatnonzero(length_P)
    if len(tried):
        np.maximum.at(best, sample_P[tried], np.maximum.reduceat(value_W, start_P[tried]))
    return best


def _grid_spans(first: Counts, count: Counts | int) -> tuple[Counts, Counts]:
    """First and last grid index at which 0, 1, ..., K values lie before the threshold (S, K + 1);
    empty where last < first.
    """
    start = np.concatenate([np.zeros((len(first), 1), np.int64), first], axis=1)
    stop = np.concatenate([first, np.broadcast_to(count, (len(first), 1))], axis=1)
    return start, stop - 1
