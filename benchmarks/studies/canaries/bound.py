"""Canary people with wrong labels: one training and one forget step give a lower bound on epsilon.

Shapes: M canaries, r guesses, v correct ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from unplug.core import STRICT, InputError
from unplug.sdk.evidence.auditing.audit_report import Role

Array = NDArray[np.float64]

LEAST = 20
"""Canaries: even if all of them are guessed right, fewer prove less than epsilon 1.4."""
SHARES = (0.1, 0.3, 1.0)
"""Of the canaries that are guessed, the surest first; each is a test of its own."""
CONFIDENCE = 0.95
DELTA = 1e-5
LARGEST, HALVINGS = 50.0, 60
LEAST_YEARS = 10.0
"""By which a wrong age is off: a smaller step is what a model says of anybody."""
LEAST_RANGE = 2.5 * LEAST_YEARS
"""Of ages, so that everybody has wrong ones to draw from."""


@dataclass(frozen=True, kw_only=True)
class CanaryBound:
    """A lower bound on epsilon.

    Args:
        epsilon: no (epsilon, delta) promise with a smaller epsilon fits what was seen, with 95 %
            confidence; at least 0.
        most: what that many canaries could show at most, were all guesses right.
        guesses, correct: r and v of the share that shows most.
        canaries, included: M, and how many of them were trained on.
        delta: of the promise.
    """

    epsilon: float
    most: float
    guesses: int
    correct: int
    canaries: int
    included: int
    delta: float


@dataclass(frozen=True, kw_only=True)
class CanaryRow:
    """One model and its bound.

    Args:
        name: of its folder.
        role: before forgetting, after it, or trained without those who were included.
        sha256: of its weights.
        method, budget: of the forget step; null of an original, and where the record does not say.
        bound: on the training of an original; of the others on what is left of those who were
            trained on and then forgotten.
    """

    name: str
    role: Role
    sha256: str
    method: str | None
    budget: float | None
    bound: CanaryBound


@dataclass(frozen=True, kw_only=True)
class CanaryReport:
    """``unplug-canaries/1``: a lower bound on epsilon for some models that were trained on the same
    canaries.

    Args:
        data: spec and digest of the data with the canaries in them.
        canaries, pictures, included: how many people, their pictures, and how many people were
            trained on.
        confidence: of every bound.
        delta: of the promise that is tested.
        models: as they were given.
    """

    __pydantic_config__: ClassVar = STRICT

    data: dict[str, str]
    canaries: int
    pictures: int
    included: int
    confidence: float
    delta: float
    models: tuple[CanaryRow, ...]
    versions: dict[str, str | None]
    schema: Literal["unplug-canaries/1"] = "unplug-canaries/1"


def choose_included(canaries: int, seed: int) -> NDArray[np.bool_]:
    """A fair coin for each canary (M,): who is trained on. The bound rests on these coins and on
    nothing else.

    Raises:
        InputError: fewer canaries than `LEAST`.
    """
    _check_count(canaries)
    return np.asarray(np.random.default_rng([seed, 101]).random(canaries) < 0.5)


def wrong_ages(true_M: Array, seed: int, *, low: float = 1.0, high: float = 85.0) -> Array:
    """An age for each canary (M,), uniform on [low, high] but for `LEAST_YEARS` on both sides of
    the truth.

    Raises:
        InputError: [low, high] has no room for that.
    """
    if high - low < LEAST_RANGE:
        why = (
            f"the ages go from {low:g} to {high:g} years, and a wrong one must be {LEAST_YEARS:g} "
            "off"
        )
        raise InputError(
            "canaries", why, f"Give data whose ages span {LEAST_RANGE:g} years or more"
        )
    rng = np.random.default_rng([seed, 102])
    ages = rng.uniform(low, high, len(true_M))
    while (near := np.abs(ages - true_M) < LEAST_YEARS).any():
        ages[near] = rng.uniform(low, high, int(near.sum()))
    return ages


def check_canaries(true_M: Array, given_M: Array, *, least: float = 0.0) -> None:
    """Refuses canaries that a model could know without having seen them.

    Args:
        true_M: ages or classes that are true.
        given_M: those that are trained on.
        least: a label that is off by no more is not wrong.

    Raises:
        InputError: labels that are not wrong, or fewer canaries than `LEAST`.
    """
    _check_count(len(true_M))
    right = int((np.abs(np.asarray(given_M) - np.asarray(true_M)) <= least).sum())
    if right:
        theirs = (
            "their true label"
            if least == 0.0
            else f"a label within {least:g} years of their true one"
        )
        why = (
            f"{right} of {len(true_M)} have {theirs}, which a model may know without having seen "
            "them"
        )
        raise InputError("canaries", why, "Give every canary a wrong label: `wrong_ages`")


def canary_bound(
    score_M: Array, included_M: NDArray[np.bool_], *, delta: float = DELTA
) -> CanaryBound:
    """The largest epsilon that no (epsilon, delta) mechanism with a smaller one explains, from one
    run.

    Canaries are ordered by their score. Of each share of `SHARES` the highest half are guessed to
    be in and the lowest half out, and then the other way round: who is pushed below strangers is
    told from them as well. The others are left open. Where the inclusion of each canary is
    (epsilon, delta)-private, v right guesses of r have probability at most `p_value`; every share
    and side is held to a sixth of 5 % (Bonferroni).

    Of a model before forgetting, "in" is trained on. Of an unlearned one it is trained on and then
    forgotten: the bound is on what the forget step leaves, against never having been there.

    Args:
        score_M: of each canary's wrong label, higher where the model knows it (log p, or minus the
            error in years); where a canary has several pictures, see `person_scores`.
        included_M: the coins of `choose_included`.
        delta: 0 to 1.

    Raises:
        InputError: too few canaries, all or none included, scores that are not numbers, delta out
            of range.

    Reference:
        Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run, 2023, theorem 5.2
        and algorithm 1.
    """
    score_M, included_M = np.asarray(score_M, np.float64), np.asarray(included_M, np.bool_)
    count = len(score_M)
    _check_count(count)
    if score_M.shape != included_M.shape or not np.isfinite(score_M).all():
        raise InputError(
            "canaries",
            "their scores are not one number each",
            "Score every canary, included or not",
        )
    if not 0.0 <= delta < 1.0:
        raise InputError(f"delta {delta:g}", "out of range", "Use 0 up to 1")
    if included_M.all() or not included_M.any():
        raise InputError(
            "canaries",
            "all or none were trained on",
            "Include each by a fair coin: `choose_included`",
        )
    alpha = (1 - CONFIDENCE) / (2 * len(SHARES))
    best, most = (0.0, 0, 0), 0.0
    for share, side in itertools.product(SHARES, (1.0, -1.0)):
        order = np.argsort(-side * score_M, kind="stable")
        half = max(1, round(share * count / 2))
        correct = int(included_M[order[:half]].sum() + (~included_M[order[-half:]]).sum())
        epsilon = lower_bound(count, 2 * half, correct, delta, alpha)
        most = max(most, lower_bound(count, 2 * half, 2 * half, delta, alpha))
        best = max(best, (epsilon, 2 * half, correct))
    return CanaryBound(
        epsilon=best[0],
        most=most,
        guesses=best[1],
        correct=best[2],
        canaries=count,
        included=int(included_M.sum()),
        delta=delta,
    )


def lower_bound(canaries: int, guesses: int, correct: int, delta: float, alpha: float) -> float:
    """The largest epsilon (0 to 50) whose `p_value` is at most alpha, by bisection; the p-value
    rises with epsilon.
    """
    if p_value(canaries, guesses, correct, 0.0, delta) > alpha:
        return 0.0
    low, high = 0.0, LARGEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = p_value(canaries, guesses, correct, middle, delta) > alpha
        low, high = (low, middle) if fits else (middle, high)
    return low


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """P[at least v of r guesses right] under (epsilon, delta)-DP, at most: beta + 2 M delta max_i
    P[v - i <= W < v] / i.

    W is binomial with r draws of probability e^eps / (1 + e^eps), beta = P[W >= v], i from 1 to v.

    Example:
        >>> p_value(10, 10, 10, 0.0, 0.0) == 0.5**10
        True
    """
    q = 1.0 / (1.0 + math.exp(-epsilon))
    beta = float(binom.sf(correct - 1, guesses, q))
    if delta == 0.0 or correct == 0:
        return min(1.0, beta)
    below = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, q))
    worst = float((below / np.arange(1, correct + 1)).max())
    return min(1.0, beta + 2 * canaries * delta * worst)


def person_scores(score_N: Array, person_N: NDArray[np.int64], canaries: Sequence[int]) -> Array:
    """Mean score over the pictures of each canary (M,), in the order of `canaries`.

    Raises:
        InputError: a canary without a picture.
    """
    rows = [person_N == person for person in canaries]
    if not all(row.any() for row in rows):
        raise InputError(
            "canaries",
            "some of them have no picture that was scored",
            "Score every canary, included or not",
        )
    return np.array([score_N[row].mean() for row in rows], np.float64)


def _check_count(canaries: int) -> None:
    if canaries < LEAST:
        raise InputError(
            "canaries", f"{canaries} of them show next to nothing", f"Plant {LEAST} people or more"
        )
