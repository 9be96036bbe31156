"""Those whom models remember most, chosen before the attack by what other models say of them.

Shapes: M models, J people, R bootstrap replicates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.evidence.fleet import References
from unplug.sdk.evidence.statistics import (
    NotGiven,
    auc,
    bootstrap_auc,
    resamples,
    with_interval,
)
from unplug.sdk.learning.training import Sets

from .attack import Array, Signals
from .audit_report import Vulnerable
from .people import by_model

SHARE = 0.25
"""The share of the forgotten people who are remembered most."""
LEAST = 5
"""People that an interval needs; so four times as many must be forgotten."""
TINY = 1e-9


def memorised(
    references: References, ids: Sequence[str], subject_N: NDArray[np.int64]
) -> tuple[Array, NDArray[np.int64]]:
    """By how much models that saw a person are surer of her than models that did not, in the
    latter's standard deviations.

    g = (mean_in - mean_out) / s_out of her mean phi, over the models of a fleet. None of them is
    the model in question.

    Args:
        references: see `load_references`.
        ids: samples of the training set.
        subject_N: the person in each sample.

    Returns:
        g of each person (J,), and who they are (J,), in ascending order of their numbers.

    Raises:
        InputError: samples that the references do not know, or a person of whom no model, or every
            model, saw a picture.

    Reference:
        Naderloui et al., Rectifying Privacy and Efficacy Measurements in Machine Unlearning, 2025
        (vulnerable samples first). Feldman and Zhang, What Neural Networks Memorize and Why, 2020
        (the score).
    """
    row_N = references.rows(ids)
    people, number_N = np.unique(subject_N, return_inverse=True)
    phi_MJ = _phi(references, row_N, number_N)
    gap_J = np.empty(len(people))
    for number in range(len(people)):
        seen_M = references.seen_MN[:, row_N[number_N == number]]
        inside, outside = phi_MJ[seen_M.all(axis=1), number], phi_MJ[~seen_M.any(axis=1), number]
        if not len(inside) or len(outside) < 2:
            why = f"{len(inside)} models saw a person and {len(outside)} did not"
            raise InputError(
                "most memorised people", why, "It needs 1 and 2: train more references"
            )
        gap_J[number] = (inside.mean() - outside.mean()) / max(float(outside.std(ddof=1)), TINY)
    return gap_J, people


def most_memorised(
    references: References, ids: Sequence[str], subject_N: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """The numbers of the `count` people with the largest `memorised`, the most remembered first.

    Raises:
        InputError: fewer people than `count`, or as `memorised`.
    """
    gap_J, people = memorised(references, ids, subject_N)
    if count > len(people):
        raise InputError(
            "most memorised people", f"{count} wanted of {len(people)}", "Ask for fewer"
        )
    return people[np.argsort(-gap_J, kind="stable")[:count]]


def vulnerable(
    own: Signals, oracle: Signals | None, references: References, sets: Sets, seed: int = 0
) -> Vulnerable | NotGiven:
    """AUC of the most remembered forgotten people against unseen ones, all pictures of a person at
    once.

    t = (x - mean_out) / s_out of a person's mean phi x, over models that never saw her: without the
    division those whom models find hard would stand out, in a model that never saw them as well.

    Args:
        own: the answers of the model in question.
        oracle: the answers of the model that never saw them, for the difference.
        references: the fleet.
        sets: the sets of the request.
        seed: the seed of the resampling.

    Returns:
        The number with its interval over people, or why there is none.
    """
    forgotten = len(np.unique(sets.forget.subject_N))
    count = round(SHARE * forgotten)
    if count < LEAST:
        return NotGiven(
            reason=f"it needs {round(LEAST / SHARE)} forgotten people, and has {forgotten}"
        )
    try:
        gap_J, people = memorised(references, sets.forget.ids, sets.forget.subject_N)
    except InputError as error:
        return NotGiven(reason=error.why)
    # In the order of their numbers again, as the scores of people are.
    chosen = np.sort(np.argsort(-gap_J, kind="stable")[:count])
    draws = resamples(people[chosen], np.unique(sets.test.subject_N), seed=seed)
    scores = [_scores(model, references, sets) for model in (own, oracle) if model is not None]
    aucs = [
        (auc(forget_J[chosen], unseen_J), bootstrap_auc(forget_J[chosen], unseen_J, draws))
        for forget_J, unseen_J in scores
    ]
    minus = None
    if oracle is not None:
        minus = with_interval(aucs[0][0] - aucs[1][0], aucs[0][1] - aucs[1][1])
    return Vulnerable(
        auc=with_interval(*aucs[0]),
        minus_retrained=minus,
        people=count,
        of=forgotten,
        gap=float(gap_J[chosen].mean()),
    )


def _scores(model: Signals, references: References, sets: Sets) -> tuple[Array, Array]:
    """t of every forgotten and of every unseen person."""
    scores = []
    for answers, part in ((model.forget, sets.forget), (model.unseen, sets.test)):
        row_N = references.rows(part.ids)
        _, number_N = np.unique(part.subject_N, return_inverse=True)
        phi_MJ = _phi(references, row_N, number_N)
        never_MJ = np.stack(
            [
                ~references.seen_MN[:, row_N[number_N == j]].any(axis=1)
                for j in range(phi_MJ.shape[1])
            ],
            axis=1,
        )
        out_MJ = np.where(never_MJ, phi_MJ, np.nan)
        # Those who saw her are NaN from here on, so that means and spreads are of the others alone.
        own_J = _by_person(answers.confidence_N[None], number_N)[0]
        spread_J = np.maximum(np.nanstd(out_MJ, axis=0, ddof=1), TINY)
        scores.append((own_J - np.nanmean(out_MJ, axis=0)) / spread_J)
    return scores[0], scores[1]


def _phi(references: References, row_N: NDArray[np.int64], number_N: NDArray[np.int64]) -> Array:
    """Every model's mean phi of each person (M, J)."""
    phi_MN = by_model(references, row_N, lambda answers: answers.confidence_N)
    return _by_person(phi_MN, number_N)


def _by_person(value_XN: Array, number_N: NDArray[np.int64]) -> Array:
    """Mean over the samples of each person (X, J)."""
    own_NJ = (number_N[:, None] == np.arange(number_N.max() + 1)).astype(np.float64)
    return np.asarray(value_XN @ own_NJ / own_NJ.sum(axis=0), np.float64)
