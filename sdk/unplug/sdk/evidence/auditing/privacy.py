"""Who pays for forgetting: the privacy of the retain set, and of the worst subject.

Shapes: R retain samples (and bootstrap replicates), U unseen and F forget samples, K forget and J
    unseen subjects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from unplug.sdk.evidence.statistics import (
    NotGiven,
    auc,
    bootstrap_auc,
    interval,
    resamples,
    with_interval,
)
from unplug.sdk.learning.training import Sets

from .attack import Signals
from .audit_report import ModelAudit, RetainPrivacy, WorstSubject
from .measure import Measured, given, of_role

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

MIN_FORGET_SUBJECTS = 5  # as many as the audit asks for before it raises alarms
MIN_UNSEEN_SUBJECTS = 20  # for the variance between people
JUDGED = ("unlearned", "artifact")
TINY = 1e-12  # variance of scores that are all alike


def add_privacy(
    models: Sequence[ModelAudit], measured: Sequence[Measured], sets: Sets, seed: int
) -> tuple[tuple[ModelAudit, ...], dict[str, str]]:
    """Adds worst-subject and retain-side privacy to every model that it can be told of.

    Returns:
        The models, and what could not be told with the reason.
    """
    original, oracle = of_role(measured, "original"), of_role(measured, "retrained")
    missing: dict[str, str] = {}
    judged = any(one.item.role in JUDGED for one in measured)
    if judged and (original is None or oracle is None):
        missing["retain privacy"] = (
            "it is compared with the original's and the retrained model's, and one is not given"
        )
    rows = []
    for model, one in zip(models, measured, strict=True):
        people = sets.forget.subject_N, sets.test.subject_N
        stands_out = worst_subject(one.own.forget.log_prob_N, one.own.unseen.log_prob_N, *people)
        retain = None
        if one.item.role in JUDGED and original is not None and oracle is not None:
            three = one.own, original.own, oracle.own
            retain = retain_privacy(*three, sets.train.subject_N, people[1], seed=seed)
        worst = given(stands_out, "worst subject", missing)
        rows.append(replace(model, worst_subject=worst, retain_privacy=retain))
    return tuple(rows), missing


def retain_privacy(
    unlearned: Signals,
    original: Signals,
    oracle: Signals,
    retain_subjects_R: NDArray[np.int64],
    unseen_subjects_U: NDArray[np.int64],
    *,
    replicates: int = 200,
    seed: int = 0,
) -> RetainPrivacy:
    """AUC of the confidence phi, retain against unseen, of three models on the same resamples of
    subjects.

    Args:
        unlearned, original, oracle: `retain` and `unseen` are read.
        retain_subjects_R, unseen_subjects_U: subject numbers.
        replicates: the number of the intervals' replicates; memory is replicates x (R + U).
        seed: the seed of the resampling.
    """
    draws = resamples(retain_subjects_R, unseen_subjects_U, replicates=replicates, seed=seed)
    scores = [
        (model.retain.confidence_N, model.unseen.confidence_N)
        for model in (unlearned, original, oracle)
    ]
    value, value_R = (
        [auc(*pair) for pair in scores],
        [bootstrap_auc(*pair, draws) for pair in scores],
    )
    after, before, best = map(with_interval, value, value_R)
    return RetainPrivacy(
        auc=after,
        original=before,
        retrained=best,
        minus_original=with_interval(value[0] - value[1], value_R[0] - value_R[1]),
        minus_retrained=with_interval(value[0] - value[2], value_R[0] - value_R[2]),
        samples=len(retain_subjects_R),
    )


def worst_subject(
    forget_F: Array,
    unseen_U: Array,
    forget_subjects_F: NDArray[np.int64],
    unseen_subjects_U: NDArray[np.int64],
    *,
    replicates: int = 1000,
    seed: int = 0,
) -> WorstSubject | NotGiven:
    """Largest over forget subjects of t_k = (mean score - mean unseen) / sqrt(s_b^2 + s_w^2 / n_k).

    Scores become normal scores by their rank among the unseen ones; s_b and s_w, between and within
    people, come from the unseen subjects (one-way random effects). The null is a parametric
    bootstrap of the whole statistic, variances included: as many people with as many samples each,
    none of them a member. A permutation of people could not do this: its smallest p-value is the
    forget set's share of all people, however far one of them stands out.

    Args:
        forget_F, unseen_U: scores of any attack, higher means "was a member".
        forget_subjects_F, unseen_subjects_U: subject numbers.
        replicates: the number of the bootstrap's replicates; the smallest p-value is 1 /
            (replicates + 1).
        seed: the seed of the bootstrap.

    Returns:
        The worst subject, or why none can be named: subjects unknown, or too few.

    Reference:
        Searle, Casella and McCulloch, Variance Components, 1992, section 3.6 (unbalanced one-way
        moments).
    """
    people, number_F, count_K = np.unique(
        forget_subjects_F, return_inverse=True, return_counts=True
    )
    _, number_U, count_J = np.unique(unseen_subjects_U, return_inverse=True, return_counts=True)
    if reason := _too_few(len(people), count_J):
        return NotGiven(reason=reason)
    score_U = _normal_scores(unseen_U, unseen_U)
    mean_J = np.bincount(number_U, weights=score_U) / count_J
    squares = np.array([((score_U - mean_J[number_U]) ** 2).sum()])
    mean_K = np.bincount(number_F, weights=_normal_scores(forget_F, unseen_U)) / count_K
    t_K = _statistic(mean_K[None], count_K, mean_J[None], squares, count_J)[0]
    largest_R = _largest(
        count_K, mean_J, squares, count_J, replicates, np.random.default_rng([seed, 59])
    )
    worst = int(t_K.argmax())
    null_low, null_high = interval(largest_R)
    return WorstSubject(
        value=float(t_K[worst]),
        null_low=null_low,
        null_high=null_high,
        p_value=float((1 + (largest_R >= t_K[worst]).sum()) / (replicates + 1)),
        auc=auc(forget_F[number_F == worst], unseen_U),
        subjects=len(people),
        samples=int(count_K[worst]),
    )


def _too_few(people: int, count_J: Counts) -> str:
    """Why the worst subject cannot be named; empty where it can."""
    if count_J.max() == 1:
        return "every unseen sample is a subject of its own, so subjects are not known"
    if people < MIN_FORGET_SUBJECTS or len(count_J) < MIN_UNSEEN_SUBJECTS:
        return (
            f"{people} forget and {len(count_J)} unseen subjects, at least {MIN_FORGET_SUBJECTS} "
            "and "
            f"{MIN_UNSEEN_SUBJECTS} are needed"
        )
    return ""


def _largest(
    count_K: Counts,
    mean_J: Array,
    squares: Array,
    count_J: Counts,
    draws: int,
    rng: np.random.Generator,
) -> Array:
    """The maximum in draws without any member, from the fitted random effects (R,)."""
    between, within = (float(item[0]) for item in _components(mean_J[None], squares, count_J))

    def means(counts: Counts) -> Array:
        return rng.normal(0.0, np.sqrt(between + within / counts), size=(draws, len(counts)))

    # Sums of squares of Gaussians within people are chi-square with N - J degrees of freedom.
    squares_R = within * rng.chisquare(count_J.sum() - len(count_J), size=draws)
    return np.asarray(
        _statistic(means(count_K), count_K, means(count_J), squares_R, count_J).max(axis=1),
        np.float64,
    )


def _normal_scores(scores: Array, unseen_U: Array) -> Array:
    ordered = np.sort(unseen_U)
    middle = (
        np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")
    ) / 2
    # (rank + 1/2) / (n + 1): a score beyond all unseen ones keeps a finite normal score.
    return np.asarray(norm.ppf((middle + 0.5) / (len(ordered) + 1)), np.float64)


def _statistic(
    mean_RK: Array, count_K: Counts, unseen_RJ: Array, squares_R: Array, unseen_J: Counts
) -> Array:
    """t (R, K) from people's means, and from the unseen people's means and squares within."""
    between_R, within_R = _components(unseen_RJ, squares_R, unseen_J)
    center_R = unseen_RJ @ unseen_J / unseen_J.sum()
    variance_RK = between_R[:, None] + within_R[:, None] / count_K
    return np.asarray(
        (mean_RK - center_R[:, None]) / np.sqrt(np.maximum(variance_RK, TINY)), np.float64
    )


def _components(mean_RJ: Array, squares_R: Array, count_J: Counts) -> tuple[Array, Array]:
    """Variance between people (at least 0) and within (R,), by moments."""
    samples, people = count_J.sum(), len(count_J)
    within_R = squares_R / (samples - people)
    center_R1 = (mean_RJ @ count_J / samples)[:, None]
    mean_square_R = ((mean_RJ - center_R1) ** 2 @ count_J) / (people - 1)
    # E[mean square between people] = within + size * between, size the mean number of samples a person,
    # corrected for people of unequal numbers; solved for `between`, which chance may make negative.
    size = (samples - (count_J**2).sum() / samples) / (people - 1)
    return np.maximum(0.0, (mean_square_R - within_R) / size), within_R
