"""Statistics of an attack: ROC, AUC and intervals by resampling whole subjects.

Shapes: F forget scores, U unseen scores, R bootstrap replicates. A higher score means "was a member".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Array = NDArray[np.float64]

CONFIDENCE = 0.95
REPLICATES = 1000
MIN_FALSE_POSITIVES = 10
"""TPR at a false-positive rate is refused where that rate is fewer than ten unseen samples: its value would be noise."""


def auc(forget_F: Array, unseen_U: Array) -> float:
    """Area under the ROC: P(forget score > unseen score) + P(equal) / 2 (the Mann-Whitney statistic).

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


def tpr_at(forget_F: Array, unseen_U: Array, rate: float) -> float | None:
    """True-positive rate at a false-positive rate of at most `rate`; None where the sample cannot support it."""
    if rate * len(unseen_U) < MIN_FALSE_POSITIVES:
        return None
    false, true = roc(forget_F, unseen_U)
    return float(true[false <= rate].max())


def threshold_accuracy(forget_F: Array, unseen_U: Array, *, folds: int = 10, seed: int = 0) -> float | None:
    """Balanced accuracy of the best single threshold, chosen on nine folds and counted on the tenth.

    A logistic regression on one score is a threshold too, so this is the starting kit's attack without its optimizer.
    None where a side has fewer samples than folds.
    """
    if min(len(forget_F), len(unseen_U)) < folds:
        return None
    rng = np.random.default_rng(seed)
    fold_F, fold_U = (rng.permutation(np.arange(len(scores)) % folds) for scores in (forget_F, unseen_U))
    rates = []
    for fold in range(folds):
        train_F, train_U = forget_F[fold_F != fold], unseen_U[fold_U != fold]
        scores = np.unique(np.concatenate([train_F, train_U]))
        thresholds = np.concatenate([scores[:1], (scores[1:] + scores[:-1]) / 2])  # between scores, as a fitted one would be
        # Sorted counts instead of an all-pairs table: audits of large sets come here many times.
        hits = 1.0 - np.searchsorted(np.sort(train_F), thresholds) / len(train_F)
        rejects = np.searchsorted(np.sort(train_U), thresholds) / len(train_U)
        best = thresholds[int(np.argmax(hits + rejects))]
        rates.append(((forget_F[fold_F == fold] >= best).mean() + (unseen_U[fold_U == fold] < best).mean()) / 2)
    return float(np.mean(rates))


@dataclass(frozen=True, kw_only=True)
class Resamples:
    """Bootstrap weights of both sides, drawn once and used for every model, so that differences are paired.

    Args:
        forget_RF: how often each forget sample is in each replicate.
        unseen_RU: the same for unseen samples.
    """

    forget_RF: NDArray[np.float32]
    unseen_RU: NDArray[np.float32]


def resamples(
    forget_subjects: NDArray[np.int64], unseen_subjects: NDArray[np.int64], *, replicates: int = REPLICATES, seed: int = 0
) -> Resamples:
    """Draws whole subjects with replacement: pictures of one person are not independent.

    Args:
        forget_subjects: (F,) subject number of each forget sample.
        unseen_subjects: (U,) the same for unseen samples.
        replicates: R.
        seed: of the draw.

    Reference:
        Field and Welsh, Bootstrapping clustered data, 2007.
    """
    rng = np.random.default_rng([seed, 1234])
    return Resamples(forget_RF=_weights(forget_subjects, replicates, rng), unseen_RU=_weights(unseen_subjects, replicates, rng))


def _weights(subjects: NDArray[np.int64], replicates: int, rng: np.random.Generator) -> NDArray[np.float32]:
    _, number = np.unique(subjects, return_inverse=True)
    people = int(number.max()) + 1
    draws = rng.multinomial(people, np.full(people, 1.0 / people), size=replicates)
    return draws[:, number].astype(np.float32)


def bootstrap_auc(forget_F: Array, unseen_U: Array, draws: Resamples) -> Array:
    """AUC of every replicate (R,): sum_fu w_f w_u [s_f > s_u] / (sum w_f sum w_u), with ties counted half.

    Row-wise through sorted cumulative weights, so that memory stays at R (F + U).
    """
    order = np.argsort(unseen_U, kind="stable")
    cumulative = np.concatenate(
        [np.zeros((len(draws.unseen_RU), 1), np.float64), np.cumsum(draws.unseen_RU[:, order], axis=1, dtype=np.float64)],
        axis=1,
    )
    ordered = unseen_U[order]
    below = cumulative[:, np.searchsorted(ordered, forget_F, side="left")]
    up_to = cumulative[:, np.searchsorted(ordered, forget_F, side="right")]
    wins_R = (draws.forget_RF * (below + up_to) / 2).sum(axis=1)
    totals_R = draws.forget_RF.sum(axis=1, dtype=np.float64) * cumulative[:, -1]
    return np.asarray(wins_R / totals_R, dtype=np.float64)


def interval(values_R: Array, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Percentile interval of bootstrap replicates."""
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(values_R, [tail, 100 - tail])
    return float(low), float(high)


def mean_interval(
    values_N: Array, subjects_N: NDArray[np.int64], *, replicates: int = REPLICATES, seed: int = 0
) -> tuple[float, float]:
    """Interval of a mean over samples, by resampling whole subjects."""
    weights_RN = _weights(subjects_N, replicates, np.random.default_rng([seed, 4321]))
    means_R = (weights_RN @ values_N) / weights_RN.sum(axis=1)
    return interval(np.asarray(means_R, dtype=np.float64))
