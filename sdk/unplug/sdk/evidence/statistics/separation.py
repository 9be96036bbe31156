"""How well scores tell members from others: ROC, AUC, rates, with intervals by resampling whole
subjects.

Shapes: F forget scores, U unseen scores, R bootstrap replicates. A higher score means "was a
    member".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import rankdata

from unplug.core import Estimate

from .bootstrap import CONFIDENCE, REPLICATES, Array, few_people, subject_weights, with_interval

MIN_FALSE_POSITIVES = 10
"""TPR at a false-positive rate is refused where that rate is fewer than ten unseen samples: its
value would be noise.
"""


@dataclass(frozen=True, kw_only=True)
class NotGiven:
    """Why a number is not given: stands where the number would."""

    reason: str


def auc(forget_F: Array, unseen_U: Array) -> float:
    """Area under the ROC: P(forget score > unseen score) + P(equal) / 2 (the Mann-Whitney
    statistic).

    Example:
        >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
        0.875
    """
    ranks = rankdata(np.concatenate([forget_F, unseen_U]))
    f, u = len(forget_F), len(unseen_U)
    return float((ranks[:f].sum() - f * (f + 1) / 2) / (f * u))


def roc(forget_F: Array, unseen_U: Array) -> tuple[Array, Array]:
    """False- and true-positive rates at every threshold, from (0, 0) to (1, 1)."""
    thresholds = np.unique(np.concatenate([forget_F, unseen_U]))[::-1]
    # Counts from sorted scores: a table of all pairs would not fit for a large audit.
    false = 1.0 - np.searchsorted(np.sort(unseen_U), thresholds, side="left") / len(unseen_U)
    true = 1.0 - np.searchsorted(np.sort(forget_F), thresholds, side="left") / len(forget_F)
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], true])


def tpr_or_reason(forget_F: Array, unseen_U: Array, rate: float) -> float | NotGiven:
    """True-positive rate at a false-positive rate of at most `rate` (above 0, up to 1), or why the
    sample cannot tell.
    """
    if round(rate * len(unseen_U), 9) < MIN_FALSE_POSITIVES:
        needed = int(np.ceil(round(MIN_FALSE_POSITIVES / rate, 9)))
        return NotGiven(
            reason=f"TPR at FPR {rate:g} needs at least {needed} unseen samples, {len(unseen_U)} given"
        )
    false, true = roc(forget_F, unseen_U)
    return float(true[false <= rate].max())


def _folds(
    forget_F: Array, unseen_U: Array, folds: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which fold each sample of either side is in."""
    rng = np.random.default_rng(seed)
    fold_F, fold_U = (
        rng.permutation(np.arange(len(scores)) % folds) for scores in (forget_F, unseen_U)
    )
    return fold_F, fold_U


def threshold_accuracy(
    forget_F: Array, unseen_U: Array, *, folds: int = 10, seed: int = 0
) -> float | None:
    """Balanced accuracy of the best single threshold, chosen on nine folds and counted on the
    tenth.

    A logistic regression on one score is a threshold too, so this is the starting kit's attack
    without its optimizer. None where a side has fewer samples than folds.
    """
    if min(len(forget_F), len(unseen_U)) < folds:
        return None
    fold_F, fold_U = _folds(forget_F, unseen_U, folds, seed)
    rates = []
    for fold in range(folds):
        train_F, train_U = forget_F[fold_F != fold], unseen_U[fold_U != fold]
        scores = np.unique(np.concatenate([train_F, train_U]))
        # between scores, as a fitted one would be
        thresholds = np.concatenate([scores[:1], (scores[1:] + scores[:-1]) / 2])
        # Sorted counts instead of an all-pairs table: audits of large sets come here many times.
        hits = 1.0 - np.searchsorted(np.sort(train_F), thresholds) / len(train_F)
        rejects = np.searchsorted(np.sort(train_U), thresholds) / len(train_U)
        best = thresholds[int(np.argmax(hits + rejects))]
        rates.append(
            ((forget_F[fold_F == fold] >= best).mean() + (unseen_U[fold_U == fold] < best).mean())
            / 2
        )
    return float(np.mean(rates))


@dataclass(frozen=True, kw_only=True)
class Resamples:
    """Bootstrap weights of both sides, drawn once and used for every model, so that differences are
    paired.

    Args:
        forget_RF: how often each forget sample is in each replicate.
        unseen_RU: the same for unseen samples.
        people: how many subjects the side with fewer of them has; None where that does not matter.
    """

    forget_RF: NDArray[np.float32]
    unseen_RU: NDArray[np.float32]
    people: int | None = None


def resamples(
    forget_subjects: NDArray[np.int64],
    unseen_subjects: NDArray[np.int64],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Resamples:
    """Draws whole subjects with replacement: pictures of one person are not independent.

    Args:
        forget_subjects: (F,) subject number of each forget sample.
        unseen_subjects: (U,) the same for unseen samples.
        replicates: R.
        seed: the seed of the draw.

    Reference:
        Field and Welsh, Bootstrapping clustered data, 2007.
    """
    rng = np.random.default_rng([seed, 1234])
    people = min(len(np.unique(side)) for side in (forget_subjects, unseen_subjects))
    weights = [
        subject_weights(side, replicates, rng) for side in (forget_subjects, unseen_subjects)
    ]
    return Resamples(forget_RF=weights[0], unseen_RU=weights[1], people=people)


def bootstrap_auc(forget_F: Array, unseen_U: Array, draws: Resamples) -> Array:
    """AUC of every replicate (R,): sum_fu w_f w_u [s_f > s_u] / (sum w_f sum w_u), with ties
    counted half.

    Row-wise through sorted cumulative weights, so that memory stays at R (F + U).
    """
    order = np.argsort(unseen_U, kind="stable")
    cumulative = np.concatenate(
        [
            np.zeros((len(draws.unseen_RU), 1), np.float64),
            np.cumsum(draws.unseen_RU[:, order], axis=1, dtype=np.float64),
        ],
        axis=1,
    )
    ordered = unseen_U[order]
    # Ties count half: the mean of the weight strictly below and of the weight up to the score.
    below = cumulative[:, np.searchsorted(ordered, forget_F, side="left")]
    up_to = cumulative[:, np.searchsorted(ordered, forget_F, side="right")]
    wins_R = (draws.forget_RF * (below + up_to) / 2).sum(axis=1)
    totals_R = draws.forget_RF.sum(axis=1, dtype=np.float64) * cumulative[:, -1]
    return np.asarray(wins_R / totals_R, dtype=np.float64)


def logistic_accuracy(
    loss_F: Array, loss_U: Array, draws: Resamples, *, folds: int = 10, seed: int = 0
) -> Estimate | NotGiven:
    """The starting kit's attack ("loss-logistic"): balanced accuracy of a logistic regression on
    the loss, held out.

    Each fold is judged by the regression fitted to the others. The interval resamples subjects and
    keeps the fits.

    Args:
        loss_F, loss_U: one number a sample.
        draws: the draws of `resamples`.
        folds, seed: the number of folds, at least 2 (the kit has 10), and the seed of how samples
            fall into them.

    Reference:
        NeurIPS 2023 machine unlearning challenge, starting kit.
    """
    if min(len(loss_F), len(loss_U)) < folds:
        return NotGiven(
            reason=f"{folds} folds need as many samples a side, {min(len(loss_F), len(loss_U))} given"
        )
    fold_F, fold_U = _folds(loss_F, loss_U, folds, seed)
    right_F, right_U = np.empty(len(loss_F)), np.empty(len(loss_U))
    for fold in range(folds):
        out_F, out_U = fold_F == fold, fold_U == fold
        bias, slope = fit_logistic(loss_F[~out_F], loss_U[~out_U])
        right_F[out_F] = bias + slope * loss_F[out_F] > 0
        right_U[out_U] = bias + slope * loss_U[out_U] <= 0
    accuracy_R = (
        draws.forget_RF @ right_F / draws.forget_RF.sum(axis=1)
        + draws.unseen_RU @ right_U / draws.unseen_RU.sum(axis=1)
    ) / 2
    value = float((right_F.mean() + right_U.mean()) / 2)
    return with_interval(value, accuracy_R)


def fit_logistic(
    one_F: Array, zero_U: Array, *, ridge: float = 1.0, steps: int = 50
) -> tuple[float, float]:
    """(b, w) of p(one | x) = 1 / (1 + exp(-b - w x)): Newton's method on the class-balanced
    likelihood.

    minimizes sum_i c_i softplus(-t_i (b + w x_i)) + ridge / 2 (w s)^2, c_i = n / 2 n_class, s =
    standard deviation of x. The ridge keeps w finite where a threshold separates the sides.
    """
    # Centred and scaled, the two columns of Newton's system are of one size whatever the unit of the
    # scores is.
    x_N = np.concatenate([one_F, zero_U])
    center, scale = float(x_N.mean()), float(x_N.std()) or 1.0
    design_N2 = np.stack([np.ones(len(x_N)), (x_N - center) / scale], axis=1)
    target_N = np.r_[np.ones(len(one_F)), np.zeros(len(zero_U))]
    class_N = np.r_[
        np.full(len(one_F), 0.5 / len(one_F)), np.full(len(zero_U), 0.5 / len(zero_U))
    ] * len(x_N)
    penalty = np.diag([0.0, ridge])
    theta = np.zeros(2)
    for _ in range(steps):
        p_N = expit(design_N2 @ theta)
        gradient = design_N2.T @ (class_N * (p_N - target_N)) + penalty @ theta
        curvature = (design_N2 * (class_N * p_N * (1 - p_N))[:, None]).T @ design_N2 + penalty
        # Scores that are all alike leave the slope without curvature but for the ridge.
        change = np.linalg.solve(curvature + 1e-12 * np.eye(2), gradient)
        theta -= change
        if np.abs(change).max() < 1e-10:
            break
    return float(theta[0] - theta[1] * center / scale), float(theta[1] / scale)


def tpr_estimate(
    forget_F: Array, unseen_U: Array, rate: float, draws: Resamples
) -> Estimate | NotGiven:
    """True-positive rate at a false-positive rate of at most `rate`, or why the sample cannot tell.

    In every replicate the threshold is chosen anew: just above the unseen score whose weight would
    exceed the rate.
    """
    value = tpr_or_reason(forget_F, unseen_U, rate)
    if isinstance(value, NotGiven):
        return value
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
    hits_R = (
        np.where(count_R > 0, forget_RF[np.arange(len(count_R)), count_R - 1], 0.0)
        / forget_RF[:, -1]
    )
    return with_interval(value, hits_R)


def simultaneous(
    gaps: Mapping[str, tuple[float, Array]], people: int | None = None
) -> dict[str, Estimate]:
    """Intervals that hold for all attacks together with 95 % confidence: value -+ q s, q the
    quantile of max_k |d_k| / s_k.

    With eight attacks at 95 % each, a model like the oracle would raise an alarm every few audits.
    The attacks' replicates are of the same resamples, so their correlation is in the maximum, and q
    stays well below Bonferroni's.

    Args:
        gaps: an attack's value and the values of its replicates (R,).
        people: how many were resampled, see `few_people`.

    Reference:
        Romano and Wolf, Exact and Approximate Stepdown Methods for Multiple Hypothesis Testing,
        2005.
    """
    spread = {name: float(gap_R.std()) for name, (_, gap_R) in gaps.items()}
    moving = [
        np.abs(gap_R - value) / spread[name]
        for name, (value, gap_R) in gaps.items()
        if spread[name] > 0
    ]
    q = (
        few_people(people) * float(np.quantile(np.max(moving, axis=0), CONFIDENCE))
        if moving
        else 0.0
    )
    return {
        name: Estimate(value=value, low=value - q * spread[name], high=value + q * spread[name])
        for name, (value, _) in gaps.items()
    }
