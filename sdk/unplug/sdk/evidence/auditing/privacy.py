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
    Estimate,
    NotGiven,
    auc,
    bootstrap_auc,
    interval,
    resamples,
)
from unplug.sdk.learning.training import Sets

from .attack import Signals
from .audit_report import ModelAudit, RetainPrivacy, WorstSubject
from .measure import Measured

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
    original = next((item for item in measured if item.item.role == "original"), None)
    oracle = next((item for item in measured if item.item.role == "retrained"), None)
    missing: dict[str, str] = {}
    found = []
    for model, item in zip(models, measured, strict=True):
        worst = worst_subject(
            item.own.forget.log_prob_N,
            item.own.unseen.log_prob_N,
            sets.forget.subject_N,
            sets.test.subject_N,
        )
        if isinstance(worst, NotGiven):
            missing["worst subject"] = worst.reason
        told = None if isinstance(worst, NotGiven) else worst
        found.append(
            replace(
                model,
                worst_subject=told,
                retain_privacy=_retain(item, original, oracle, sets, seed),
            )
        )
    if any(item.item.role in JUDGED for item in measured) and (original is None or oracle is None):
        missing["retain privacy"] = (
            "it is compared with the original's and the retrained model's, and one is not given"
        )
    return tuple(found), missing


def _retain(
    one: Measured, original: Measured | None, oracle: Measured | None, sets: Sets, seed: int
) -> RetainPrivacy | None:
    if one.item.role not in JUDGED or original is None or oracle is None:
        return None
    return retain_privacy(
        one.own, original.own, oracle.own, sets.train.subject_N, sets.test.subject_N, seed=seed
    )


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
        replicates: of the intervals; memory is replicates x (R + U).
        seed: of the resampling.
    """
    draws = resamples(retain_subjects_R, unseen_subjects_U, replicates=replicates, seed=seed)
    values, spreads = [], []
    for model in (unlearned, original, oracle):
        scores = model.retain.confidence_N, model.unseen.confidence_N
        values.append(auc(*scores))
        spreads.append(bootstrap_auc(*scores, draws))

    def gap(other: int) -> Estimate:
        low, high = interval(spreads[0] - spreads[other])
        return Estimate(value=values[0] - values[other], low=low, high=high)

    ends = [interval(item) for item in spreads]
    own, before, best = (
        Estimate(value=value, low=low, high=high)
        for value, (low, high) in zip(values, ends, strict=True)
    )
    return RetainPrivacy(
        auc=own,
        original=before,
        retrained=best,
        minus_original=gap(1),
        minus_retrained=gap(2),
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
        replicates: of the bootstrap; the smallest p-value is 1 / (replicates + 1).
        seed: of the bootstrap.

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
    size = (samples - (count_J**2).sum() / samples) / (people - 1)
    return np.maximum(0.0, (mean_square_R - within_R) / size), within_R
