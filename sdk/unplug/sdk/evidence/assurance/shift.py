"""Whether a step (forgetting, rounding) moved the decision at an age: the same people, before and
after.

Equivalence by two one-sided tests: both ends of an interval lie within a margin. Counts of people
have exact intervals, so that "nobody changed" among few is not evidence; the calibration error has
a bootstrap over people.

Shapes: N pictures, P people, R replicates, K bins.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unplug.core import Array, DataError
from unplug.sdk.drawing.inference import Decision
from unplug.sdk.evidence.statistics import (
    CONFIDENCE,
    MIN_SUBJECTS,
    REPLICATES,
    Estimate,
    lower_bound,
    simultaneous,
    subject_weights,
    upper_bound,
)

from .threshold import person_scores

BINS = 10


@dataclass(frozen=True, kw_only=True)
class GroupShift:
    """The change of false positives in one group.

    Args:
        name: the name of the group.
        people: minors of it.
        before, after: share of them that is called over.
        change: the change: after minus before.
    """

    name: str
    people: int
    before: float
    after: float
    change: Estimate


@dataclass(frozen=True, kw_only=True)
class Shift:
    """What a step did to a decision, each after minus before.

    Args:
        name: the name of the model after the step.
        sha256: the SHA-256 of its weights or file.
        false_positives: share of minors called over.
        false_negatives: share of adults called under.
        calibration: error of P(age >= T), see `calibration_error`.
        groups: the same for the minors of each group.
    """

    name: str
    sha256: str
    false_positives: Estimate
    false_negatives: Estimate
    calibration: Estimate
    groups: tuple[GroupShift, ...] = ()

    @property
    def gap(self) -> tuple[float, float] | None:
        """The largest share of minors called over in a group above the smallest, before and after;
        None without groups.
        """
        if not self.groups:
            return None
        before, after = (
            [getattr(item, name) for item in self.groups] for name in ("before", "after")
        )
        return max(before) - min(before), max(after) - min(after)


def people_for(margin: float, confidence: float = CONFIDENCE) -> int:
    """The fewest people among whom "nobody changed" shows a change of a rate within a margin; no
    number of them for none.

    Example:
        >>> people_for(0.02), people_for(0.05)
        (183, 72)
    """
    if not 0.0 < margin < 1.0:
        return 1 if margin >= 1.0 else sys.maxsize
    return math.ceil(math.log((1.0 - confidence) / 2) / math.log(1.0 - margin))


def rate_change(before_P: Array, after_P: Array, confidence: float = CONFIDENCE) -> Estimate:
    """The change of a rate over the same people, with exact one-sided ends.

    change = b - c, b = P(wrong after, right before), c the reverse; its upper end is U(b) - L(c),
    each a Clopper-Pearson bound at (1 + confidence) / 2, so that both hold together with
    `confidence` whatever their correlation.

    Args:
        before_P, after_P: whether each person was answered wrongly.
        confidence: the confidence of each end by itself.

    Example:
        >>> nobody = np.zeros(299, bool)
        >>> rate_change(nobody, nobody).high < 0.0125
        True

    Reference:
        Schuirmann, A comparison of the two one-sided tests procedure and the power approach, 1987
        (equivalence by two bounds).
    """
    people, one_sided = len(before_P), (1.0 + confidence) / 2
    worse, better = int(np.sum(after_P & ~before_P)), int(np.sum(before_P & ~after_P))
    low = lower_bound(worse, people, one_sided) - upper_bound(better, people, one_sided)
    high = upper_bound(worse, people, one_sided) - lower_bound(better, people, one_sided)
    value = (int(after_P.sum()) - int(before_P.sum())) / people
    return Estimate(value=value, low=low, high=high)


def calibration_error(over_N: Array, adult_N: Array, weight_RN: Array | None = None) -> Array:
    """The expected calibration error of P(age >= T), one number a replicate (R,).

    sum over bins k of P of |sum_{i in k} w_i (p_i - [age_i >= T])| / sum_i w_i, with ten bins of
    equal width

    Args:
        over_N: P(age >= T).
        adult_N: whether the age is at least T.
        weight_RN: how often each picture counts; None is one replicate in which each counts once.

    Example:
        >>> calibration_error(np.array([0.75, 0.75, 0.75, 0.75]), np.array([True, True, True, False]))
        array([0.])

    Reference:
        Naeini et al., Obtaining Well Calibrated Probabilities Using Bayesian Binning, 2015, section
        2 (with equal widths).
    """
    weight = np.ones((1, len(over_N))) if weight_RN is None else np.asarray(weight_RN, np.float64)
    # P = 1 belongs to the last bin, not to one of its own.
    bin_N = np.minimum((over_N * BINS).astype(np.int64), BINS - 1)
    residual_NK = np.zeros((len(over_N), BINS))
    residual_NK[np.arange(len(over_N)), bin_N] = over_N - adult_N
    return np.asarray(np.abs(weight @ residual_NK).sum(axis=1) / weight.sum(axis=1))


def decision_shift(
    before_N: Array,
    after_N: Array,
    age_N: Array,
    person_N: NDArray[np.int64],
    rule: Decision,
    *,
    name: str,
    sha256: str,
    minors_from: float = 0.0,
    group_N: Sequence[str | None] | None = None,
    seed: int = 0,
) -> Shift:
    """How a step changed the answers about the same people under the same rule.

    Args:
        before_N, after_N: P(age >= T) of N pictures.
        age_N: ages in years.
        person_N: a number for each person.
        rule: the rule in force before the step.
        name, sha256: the model after it.
        minors_from: youngest age that counts as a minor.
        group_N: the group of each person; None where unknown.
        seed: the seed of the bootstrap.

    Raises:
        DataError: no minors, no adults, or fewer than five people.
    """
    minor_N, adult_N = (age_N < rule.age) & (age_N >= minors_from), age_N >= rule.age
    both_N = minor_N | adult_N
    people = len(np.unique(person_N[both_N]))
    if not minor_N.any() or not adult_N.any() or people < MIN_SUBJECTS:
        why = (
            f"{people} people, {int(minor_N.sum())} pictures of minors and {int(adult_N.sum())} of "
            "adults show no change"
        )
        raise DataError(
            "the decision",
            why,
            f"Give people on both sides of {rule.age:g} that the model never saw",
        )

    def change(side_N: Array) -> tuple[Array, Array, Estimate]:
        """Whether each person of a side was and is answered wrongly, and the change of the rate."""
        was_P, is_P = (
            _wrong(over_N, side_N, age_N, person_N, rule) for over_N in (before_N, after_N)
        )
        return was_P, is_P, rate_change(was_P, is_P)

    groups = []
    for group in sorted({item for item in group_N or () if item is not None}):
        mine_N = minor_N & np.asarray([item == group for item in group_N or ()])
        if mine_N.any():
            was_P, is_P, moved = change(mine_N)
            shares = {"before": float(was_P.mean()), "after": float(is_P.mean())}
            groups.append(GroupShift(name=group, people=len(was_P), **shares, change=moved))
    return Shift(
        name=name,
        sha256=sha256,
        groups=tuple(groups),
        false_positives=change(minor_N)[2],
        false_negatives=change(adult_N)[2],
        calibration=_calibration_change(
            before_N[both_N], after_N[both_N], adult_N[both_N], person_N[both_N], seed
        ),
    )


def _wrong(
    over_N: Array, side_N: Array, age_N: Array, person_N: NDArray[np.int64], rule: Decision
) -> Array:
    """Whether each person of one side is called wrong, by the most wrong of her pictures: a minor
    called over, an adult called under.
    """
    if age_N[side_N].min() >= rule.age:
        return person_scores(-over_N[side_N], person_N[side_N]) >= -rule.under_to
    return person_scores(over_N[side_N], person_N[side_N]) >= rule.over_from


def _calibration_change(
    before_N: Array, after_N: Array, adult_N: Array, person_N: NDArray[np.int64], seed: int
) -> Estimate:
    """The change of the calibration error, with an interval over people, drawn once for both
    models.
    """
    weight_RN = subject_weights(person_N, REPLICATES, np.random.default_rng([seed, 1818]))
    value = float(calibration_error(after_N, adult_N)[0] - calibration_error(before_N, adult_N)[0])
    change_R = calibration_error(after_N, adult_N, weight_RN) - calibration_error(
        before_N, adult_N, weight_RN
    )
    return simultaneous({"calibration": (value, change_R)}, len(np.unique(person_N)))["calibration"]
