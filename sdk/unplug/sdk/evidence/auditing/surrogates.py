"""Surrogate requests: other people whom a method is asked to forget, drawn to resemble those of a
request.

Shapes: M requests of n people, T training samples.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import DataError
from unplug.sdk.learning.training import SampleSet

LIKE = 30
"""A surrogate of somebody is drawn among the so many people of the nearest age."""


def surrogates(
    train: SampleSet,
    people: Sequence[int],
    *,
    requests: int,
    count: int,
    like: Collection[str] = (),
    seed: int = 0,
) -> NDArray[np.int64]:
    """The people that each of M requests names (M, n), as subject numbers: nobody twice in one
    request, nor in two while there are enough.

    Args:
        train: the training set.
        people: the people who may be drawn, as subject numbers.
        requests: M.
        count: n people of a request.
        like: training samples of people whom each request is to resemble, by age; those people are
            never drawn.
        seed: the seed of the draws.

    Returns:
        (M, n).

    Raises:
        DataError: a request would name more people than there are to draw from.
    """
    rng = np.random.default_rng([seed, 47])
    named = {
        who
        for name, who in zip(train.ids, train.subject_N.tolist(), strict=True)
        if name in set(like)
    }
    rest = np.array([who for who in people if who not in named], np.int64)
    if len(rest) < 2 * count:
        why = f"{len(rest)} people are left to draw requests of {count} from"
        raise DataError("certification", why, "Certify smaller requests")
    if not named:
        return _dealt(rng, rest, requests, count)
    age_T = getattr(train, "age_N", None)
    if age_T is None or bool(age_T.isnan().any()):
        return np.array([rng.choice(rest, count, replace=False) for _ in range(requests)])
    ages = {
        who: float(age_T[torch.from_numpy(train.subject_N == who)].double().mean())
        for who in (*rest.tolist(), *named)
    }
    models = [ages[who] for who in sorted(named)]
    return np.array([_alike(rng, rest, ages, models, count) for _ in range(requests)])


def _dealt(
    rng: np.random.Generator, rest: NDArray[np.int64], requests: int, count: int
) -> NDArray[np.int64]:
    """Everybody once before anybody twice; where a request crosses from one shuffle to the next and
    names somebody twice, it is drawn anew.
    """
    shuffles = 1 + count * requests // len(rest)
    pool = np.concatenate([rng.permutation(rest) for _ in range(shuffles)])
    rows = pool[: len(pool) // count * count].reshape(-1, count)[:requests]
    return np.array(
        [row if len(np.unique(row)) == count else rng.choice(rest, count, False) for row in rows]
    )


def _alike(
    rng: np.random.Generator,
    rest: NDArray[np.int64],
    ages: Mapping[int, float],
    models: Sequence[float],
    count: int,
) -> list[int]:
    """One request: for each of its people somebody else of about that age, nobody twice."""
    drawn: list[int] = []
    for number in range(count):
        wanted = models[number % len(models)]
        near = sorted(
            (who for who in rest.tolist() if who not in drawn),
            key=lambda who: abs(ages[who] - wanted),
        )[:LIKE]
        drawn.append(int(rng.choice(near)))
    return drawn
