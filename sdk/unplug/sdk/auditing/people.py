"""One person: where a model stands on her pictures among models that never saw her.

Attacks compare many forgotten people with many unseen ones; of one person no interval can be had that way. Of references that
left people out (`unplug.sdk.fleet.references`) some never saw her, and a model that forgot her is one more of those.

Shapes: F forget samples, P people, R models that never saw a person, M all models.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from unplug.core import InputError
from unplug.sdk.fleet import References
from unplug.sdk.training import Predictions, Sets

from .attack import Array, Signals
from .half_samples import MIN_MODELS
from .report import PersonRow, Standing


def standing(value: float, never_R: Array) -> Standing:
    """Where a number stands among those of R models that never saw a person.

    t = (x - mean) / (s sqrt(1 + 1/R)), p = 2 P(T_{R-1} > |t|): a new draw of the same Gaussian lies so far out with
    probability p. Both sides count, for who is treated as a stranger like no other is found as well.

    Args:
        value: x, of the model in question.
        never_R: of the models that never saw her, at least `MIN_MODELS`.

    Raises:
        InputError: fewer models.

    Example:
        >>> found = standing(9.0, np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
        >>> found.rank, found.models, round(found.p_value, 3)
        (6, 5, 0.026)

    Reference:
        The prediction interval of a Gaussian with unknown variance (Student's t); of the mean confidence of several samples
        it is close to one: Carlini et al., Membership Inference Attacks From First Principles, 2022, section IV.C.
    """
    count = len(never_R)
    if count < MIN_MODELS:
        why = f"{count} models never saw a person"
        raise InputError("references", why, f"{MIN_MODELS} are needed: train more, or in fewer folds")
    mean, spread = float(never_R.mean()), float(never_R.std(ddof=1))
    gap = value - mean
    if spread > 0:
        p_value = 2 * float(student.sf(abs(gap) / (spread * math.sqrt(1 + 1 / count)), count - 1))
    else:
        p_value = 1.0 if gap == 0 else 0.0
    rank = 1 + int((never_R < value).sum())
    others = tuple(np.sort(never_R).tolist())
    return Standing(value=value, mean=mean, spread=spread, rank=rank, models=count, p_value=p_value, others=others)


def person_rows(own: Signals, references: References, sets: Sets) -> tuple[PersonRow, ...]:
    """Every forgotten person's standing, on all of her pictures at once.

    Statistics are means over her pictures minus the model's mean over the test set: models that left out a fold are a little
    worse at everybody, and of that nothing is meant to be seen.

    Args:
        own: what the model in question says.
        references: see `load_references`.
        sets: of the request.

    Raises:
        InputError: samples that the references do not know, or too few models that never saw a person.
    """
    forget_F, test_U = references.rows(sets.forget.ids), references.rows(sets.test.ids)
    found = []
    for person in _in_order(sets.forget.subject_N):
        mine = np.flatnonzero(sets.forget.subject_N == person)
        models_R = references.never_saw(forget_F[mine])

        def place(
            statistic: Callable[[Predictions], Array],
            mine: NDArray[np.int64] = mine,
            models_R: NDArray[np.int64] = models_R,
        ) -> Standing | None:
            value = float(statistic(own.forget)[mine].mean() - statistic(own.unseen).mean())
            never_R = _means(references, models_R, forget_F[mine], statistic) - _means(references, models_R, test_U, statistic)
            return standing(value, never_R) if math.isfinite(value) else None

        confidence = place(lambda said: said.confidence_N)
        assert confidence is not None  # what is not finite was refused before
        found.append(PersonRow(samples=len(mine), confidence=confidence, error=place(lambda said: said.error_N)))
    return tuple(found)


def composites(references: References, sets: Sets) -> list[Signals]:
    """R reference signals for attacks: on every person's samples those of her k-th model that never saw her.

    Of a request of one person each is one model's. Of several it is put together: few models saw none of them.

    Raises:
        InputError: as `person_rows`.
    """
    forget_F = references.rows(sets.forget.ids)
    subject_F = sets.forget.subject_N
    chosen = {person: references.never_saw(forget_F[subject_F == person]) for person in _in_order(subject_F)}
    count = min(len(models_R) for models_R in chosen.values())
    first_R = next(iter(chosen.values()))
    others = {name: references.rows(part.ids) for name, part in (("unseen", sets.test), ("population", sets.validation))}
    retain_N = references.rows(sets.train.ids)
    found = []
    for number in range(count):
        model_F = np.array([chosen[int(person)][number] for person in subject_F], np.int64)

        def said(row_N: NDArray[np.int64], number: int = number) -> Predictions:
            return references.said(np.full(len(row_N), first_R[number]), row_N)

        found.append(
            Signals(
                forget=references.said(model_F, forget_F), unseen=said(others["unseen"]),
                population=said(others["population"]), retain=said(retain_N),
            )
        )  # fmt: skip
    return found


def _means(
    references: References, models_R: NDArray[np.int64], row_N: NDArray[np.int64], statistic: Callable[[Predictions], Array]
) -> Array:
    """Mean of a statistic over some samples, by model (R,)."""
    grid_RN = np.repeat(models_R, len(row_N)), np.tile(row_N, len(models_R))
    return np.asarray(statistic(references.said(*grid_RN)).reshape(len(models_R), -1).mean(axis=1), np.float64)


def _in_order(subject_F: NDArray[np.int64]) -> list[int]:
    """People in the order of the forget set."""
    return list(dict.fromkeys(subject_F.tolist()))
