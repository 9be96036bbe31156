"""One person: where a model stands on her pictures among models that never saw her.

Attacks compare many forgotten people with many unseen ones; of one person no interval can be had
that way. Of references that left people out (`unplug.sdk.evidence.fleet.references`) some never saw
her. How a model stands among those on her pictures is compared with how it stands among them on
those of unseen people: of a model that forgot her she is one more of them.

Shapes: F forget and U test samples, J people of the test set, R models that never saw a person, M
    all models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.evidence.fleet import References
from unplug.sdk.learning.training import Predictions, Sets

from .attack import Array, Signals
from .audit_report import PersonRow, Standing

STATISTICS: tuple[Callable[[Predictions], Array], ...] = (
    lambda said: said.confidence_N,
    lambda said: said.error_N,
)
LEAST = 4
"""Models that never saw a person: fewer rank nobody."""
TINY = 1e-12
"""Standard error of models that all say the same."""


def standing(value: float, never_R: Array, unseen_J: Array, unseen_never_RJ: Array) -> Standing:
    """Where a model stands on one person among R models that never saw her, judged by J people whom
    no model saw.

    t = (x - mean_R) / (s_R sqrt(1 + 1/R)) of her and of each unseen person. Where she is one more
    of those, |t - median| is among theirs by chance alone: p = (1 + #{j: |t_j - median| >= |t -
    median|}) / (J + 1), the median taken over all J + 1. That needs no distribution, and no model
    that is just like the R others: what sets it apart from them, it does on unseen people too. Both
    sides count, for who is treated as a stranger like no other is found as well.

    Args:
        value: x, a statistic of the model in question on her pictures.
        never_R: the same for each model that never saw her, at least `LEAST` of them.
        unseen_J, unseen_never_RJ: the same on each unseen person, of the model in question and of
            those R.

    Raises:
        InputError: too few models never saw the person.

    Example:
        >>> unseen = np.linspace(-1, 1, 19)
        >>> found = standing(9.0, np.array([1.0, 2.0, 3.0, 4.0, 5.0]), unseen, np.tile(np.arange(5.0)[:, None] - 2, 19))
        >>> found.rank, found.models, found.people, found.p_value
        (6, 5, 19, 0.05)

    Reference:
        Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005, section 2.2
        (p-values of conformal prediction). Carlini et al., Membership Inference Attacks From First
        Principles, 2022, section IV.C (phi).
    """
    count, people = len(never_R), len(unseen_J)
    if count < LEAST:
        why = f"{count} models never saw a person"
        raise InputError("references", why, f"{LEAST} are needed: train more, or in fewer folds")
    t_all = _t(np.append(unseen_J, value), np.column_stack([unseen_never_RJ, never_R]))
    # Distances from the median of all, her own among them: under the null all J + 1 are exchangeable.
    far = np.abs(t_all - np.median(t_all))
    # the two in the middle are equally far, but for rounding
    as_far = far >= far[-1] - 1e-9 * (1 + far[-1])
    p_value = float(as_far.mean())  # she is one of them, so it is at least 1 / (J + 1)
    mean, spread = float(never_R.mean()), float(never_R.std(ddof=1))
    ends = np.percentile(t_all[:-1], [2.5, 97.5]) if people else np.zeros(2)
    low, high = (mean + spread * math.sqrt(1 + 1 / count) * ends).tolist()
    return Standing(
        value=value,
        mean=mean,
        spread=spread,
        low=low,
        high=high,
        rank=1 + int((never_R < value).sum()),
        models=count,
        people=people,
        p_value=p_value,
        others=tuple(np.sort(never_R).tolist()),
    )


def _t(value_K: Array, never_RK: Array) -> Array:
    """Gap to the mean of R models in standard errors of one more of them (K,); they may all say the
    same.
    """
    gap_K = value_K - never_RK.mean(axis=0)
    error_K = never_RK.std(axis=0, ddof=1) * math.sqrt(1 + 1 / len(never_RK))
    return np.asarray(gap_K / np.maximum(error_K, TINY), np.float64)


def person_rows(own: Signals, references: References, sets: Sets) -> tuple[PersonRow, ...]:
    """Every forgotten person's standing, on all of her pictures at once; people of whom other
    pictures stay have none.

    A model that was retrained without some of her pictures still knows her by the others: no
    stranger is like that.

    Statistics are means over her pictures minus the model's mean over the test set, over the other
    people's part of it for the people of the test set themselves.

    Args:
        own: the answers of the model in question.
        references: see `load_references`.
        sets: the sets of the request.

    Raises:
        InputError: samples that the references do not know, or too few models that never saw a
            person.
    """
    forget_F, test_U = references.rows(sets.forget.ids), references.rows(sets.test.ids)
    known_F = stays(references, sets)
    whole = _in_order(sets.forget.subject_N[~known_F])
    people = [np.flatnonzero(sets.forget.subject_N == person) for person in whole]
    models = [references.never_saw(forget_F[mine]) for mine in people]
    if not people:
        return ()
    rows = forget_F, test_U
    confidence, error = (
        _places(own, references, sets, rows, people, models, one) for one in STATISTICS
    )
    return tuple(
        PersonRow(samples=len(mine), confidence=place, error=error[number] if error else None)
        for number, (mine, place) in enumerate(zip(people, confidence, strict=True))
    )


def _places(
    own: Signals,
    references: References,
    sets: Sets,
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    people: Sequence[NDArray[np.int64]],
    models: Sequence[NDArray[np.int64]],
    statistic: Callable[[Predictions], Array],
) -> list[Standing]:
    """Where each person stands by one statistic; nothing where the model has none of it."""
    own_F, own_U = statistic(own.forget), statistic(own.unseen)
    if not (np.isfinite(own_F).all() and np.isfinite(own_U).all()):  # there are no years
        return []
    forget_MF, test_MU = (by_model(references, row_N, statistic) for row_N in rows)
    subject_U = sets.test.subject_N
    own_J, all_MJ = _of_people(own_U[None], subject_U)[0], _of_people(test_MU, subject_U)
    return [
        standing(
            float(own_F[mine].mean() - own_U.mean()),
            forget_MF[models_R][:, mine].mean(axis=1) - test_MU[models_R].mean(axis=1),
            own_J,
            all_MJ[models_R],
        )
        for mine, models_R in zip(people, models, strict=True)
    ]


def by_model(
    references: References, row_N: NDArray[np.int64], statistic: Callable[[Predictions], Array]
) -> Array:
    """A statistic of some samples, by every model (M, N)."""
    count = references.record.models
    answers = references.said(np.repeat(np.arange(count), len(row_N)), np.tile(row_N, count))
    return np.asarray(statistic(answers).reshape(count, -1), np.float64)


def _of_people(value_XU: Array, subject_U: NDArray[np.int64]) -> Array:
    """Mean over the samples of each of J people minus the mean over those of all others (X, J); of
    a lone person nothing.
    """
    people, person_U = np.unique(subject_U, return_inverse=True)
    if len(people) < 2:
        return np.zeros((len(value_XU), 0))
    own_UJ = (person_U[:, None] == np.arange(len(people))).astype(np.float64)
    sum_XJ, count_J = value_XU @ own_UJ, own_UJ.sum(axis=0)
    rest_XJ = value_XU.sum(axis=1, keepdims=True) - sum_XJ
    return np.asarray(sum_XJ / count_J - rest_XJ / (len(subject_U) - count_J), np.float64)


def stays(references: References, sets: Sets) -> NDArray[np.bool_]:
    """Which forget samples (F,) are of people of whom other pictures stay in the training set."""
    person_F, person_T = (
        references.person_N[references.rows(part.ids)] for part in (sets.forget, sets.train)
    )
    return np.isin(person_F, person_T)


def composites(references: References, sets: Sets) -> list[Signals]:
    """R reference signals for attacks: on every person's samples those of her k-th model that never
    saw her.

    Of a request of one person each is one model's. Of several it is put together: few models saw
    none of them.

    Raises:
        InputError: as `person_rows`.
    """
    forget_F = references.rows(sets.forget.ids)
    subject_F = sets.forget.subject_N
    chosen = {
        person: references.never_saw(forget_F[subject_F == person])
        for person in _in_order(subject_F)
    }
    count = min(len(models_R) for models_R in chosen.values())
    first_R = next(iter(chosen.values()))
    others = {
        name: references.rows(part.ids)
        for name, part in (("unseen", sets.test), ("population", sets.validation))
    }
    retain_N = references.rows(sets.train.ids)
    signals = []
    for number in range(count):
        model_F = np.array([chosen[int(person)][number] for person in subject_F], np.int64)

        def said(row_N: NDArray[np.int64], number: int = number) -> Predictions:
            return references.said(np.full(len(row_N), first_R[number]), row_N)

        signals.append(
            Signals(
                forget=references.said(model_F, forget_F),
                unseen=said(others["unseen"]),
                population=said(others["population"]),
                retain=references.said(_saw(references, int(first_R[number]), retain_N), retain_N),
                person_F=sets.forget.subject_N,
                person_U=sets.test.subject_N,
            )
        )
    return signals


def _saw(references: References, model: int, row_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """On each training sample a model that was trained on it (N,): this one, or the next of its
    round: it left out others.
    """
    folds = references.record.folds
    other = model // folds * folds + (model + 1) % folds
    return np.where(references.seen_MN[model, row_N], model, other)


def _in_order(subject_F: NDArray[np.int64]) -> list[int]:
    """People in the order of the forget set."""
    return list(dict.fromkeys(subject_F.tolist()))
