"""Two cut-offs of P(age >= T): a model says "over" above one, so that few minors are called over,
and "under" below the other.

One number a person: a minor with several pictures counts by the one that looks oldest, an adult by
the one that looks youngest. Then no picture is counted twice, and what holds for a person holds for
each of her pictures.

Shapes: N pictures, P people of one side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from unplug.core import Array, DataError, InputError
from unplug.sdk.drawing.inference import Decision

from .exact import people_needed

Method = Literal["clopper-pearson", "conformal"]
METHODS: tuple[Method, ...] = ("clopper-pearson", "conformal")
Side = Literal["minors", "adults"]
STEP = 1e-12
"""A threshold lies this far beyond a score: the last bit of another language's exponential does not
decide about a person.
"""
MOST_UNKNOWN = 0.1
"""Share of people whose group nobody knows up to which a limit by group is worth its name."""
TOP = 1.0 + STEP


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a decision must hold.

    Args:
        age: T in years.
        max_fpr: share of minors that is called over, at most, in (0, 1).
        max_fnr: share of adults that is called under, at most, in (0, 1).
        method: "clopper-pearson": with `confidence` over the draw of the people that it is fitted
            on, the share among all people like them is within the limit. "conformal": the next
            person is called wrongly with at most this probability, on average over such draws:
            fewer people are enough, and many a draw lies above it.
        confidence: the confidence in the first, in (0, 1).
        minors_from: youngest age that counts as a minor; children far below T are seldom taken for
            adults and dilute the limit.

    Raises:
        InputError: one is out of range.
    """

    age: float
    max_fpr: float
    max_fnr: float
    method: Method = "clopper-pearson"
    confidence: float = 0.95
    minors_from: float = 0.0

    def __post_init__(self) -> None:
        for name in ("max_fpr", "max_fnr", "confidence"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise InputError(
                    f"{name} {getattr(self, name):g}",
                    "it is not a share between 0 and 1",
                    "Use for example 0.01",
                )
        if self.method not in METHODS:
            raise InputError(
                f"method {self.method!r}", "no such method", f"Use one of {', '.join(METHODS)}"
            )
        if not (math.isfinite(self.age) and self.age > 0.0):
            raise InputError(
                f"age {self.age:g}",
                "nobody is under it, or it is not a number",
                "Give one in years, for example 18",
            )
        if not 0.0 <= self.minors_from < self.age:
            why = f"nobody is a minor at {self.age:g} from that age on"
            raise InputError(
                f"minors from {self.minors_from:g}", why, "Give an age below the limit"
            )

    def share(self, side: Side) -> float:
        """The limit of one side."""
        return self.max_fpr if side == "minors" else self.max_fnr


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The threshold of one side and group.

    Args:
        people: the number of people that it was fitted on.
        errors: how many of them may lie beyond it; None where they are too few for any.
        needed: people from which on there is a threshold.
        at: P(age >= T) from which a minor, or up to which an adult, would be called wrongly; None
            where `errors` is.
    """

    people: int
    errors: int | None
    needed: int
    at: float | None


@dataclass(frozen=True, kw_only=True)
class GroupCuts:
    """Both sides of the people of one group; `name` is None for all people together."""

    name: str | None
    minors: Cut
    adults: Cut

    @property
    def holds(self) -> bool:
        """Whether there were enough people on both sides."""
        return self.minors.at is not None and self.adults.at is not None


@dataclass(frozen=True, kw_only=True)
class FittedThreshold:
    """A decision that holds its limits.

    Args:
        decision: the rule, of the worst group, for a phone does not know the group.
        limits: the limits that it holds.
        whole: all people together.
        groups: one each that somebody is of, the small ones as well, in which nothing holds.
        unknown: people whose group nobody knows.
    """

    decision: Decision
    limits: Limits
    whole: GroupCuts
    groups: tuple[GroupCuts, ...] = ()
    unknown: int = 0


def errors_allowed(
    people: int, limit: float, method: Method = "clopper-pearson", confidence: float = 0.95
) -> int | None:
    """How many people may lie beyond a threshold; None where they are too few for any.

    clopper-pearson: the largest k with P(Bin(n, limit) <= k) <= 1 - confidence, so that the upper
    bound of k errors in n is within the limit; the threshold is then an upper confidence bound of a
    quantile, one order statistic fixed in advance, and needs no correction for a choice among many.
    conformal: the largest k with (k + 1) / (n + 1) <= limit.

    Example:
        >>> errors_allowed(298, 0.01), errors_allowed(299, 0.01), errors_allowed(99, 0.01, "conformal")
        (None, 0, 0)

    Reference:
        Wilks, Determination of Sample Sizes for Setting Tolerance Limits, 1941; Clopper and
        Pearson, 1934; Vovk et al., Algorithmic Learning in a Random World, 2005, section 4.2 (split
        conformal).
    """
    if method == "conformal":
        errors = math.floor(limit * (people + 1) + 1e-9) - 1
        return errors if errors >= 0 else None
    tail = 1.0 - confidence
    # the smallest k whose tail is at least that: it, or the one below
    errors = int(binom.ppf(tail, people, limit))
    while errors >= 0 and binom.cdf(errors, people, limit) > tail:
        errors -= 1
    return errors if errors >= 0 else None


def needed(limit: float, method: Method = "clopper-pearson", confidence: float = 0.95) -> int:
    """The fewest people with whom there is a threshold at all.

    Example:
        >>> needed(0.01), needed(0.01, "conformal"), needed(0.05)
        (299, 99, 59)
    """
    return (
        math.ceil(1.0 / limit - 1.0 - 1e-9)
        if method == "conformal"
        else people_needed(limit, confidence)
    )


def person_scores(value_N: Array, person_N: NDArray[np.int64]) -> Array:
    """The highest value of each person (P,).

    Example:
        >>> person_scores(np.array([0.1, 0.9, 0.5]), np.array([4, 4, 7]))
        array([0.9, 0.5])
    """
    _, place_N = np.unique(person_N, return_inverse=True)
    best_P = np.full(int(place_N.max()) + 1 if len(place_N) else 0, -np.inf)
    np.maximum.at(best_P, place_N, value_N)
    return best_P


def cut_of(score_P: Array, limits: Limits, side: Side) -> Cut:
    """The threshold of one side: just beyond the (k + 1)-th most wrong person, where k may be
    wrong.

    Args:
        score_P: the highest P(age >= T) of each minor, or the highest 1 - P of each adult.
        limits: the limits to hold.
        side: the side to cut.
    """
    share = limits.share(side)
    errors = errors_allowed(len(score_P), share, limits.method, limits.confidence)
    at = None
    if errors is not None:
        above = float(np.sort(score_P)[::-1][errors]) + STEP
        at = min(above, TOP) if side == "minors" else max(1.0 - above, -STEP)
    return Cut(
        people=len(score_P),
        errors=errors,
        at=at,
        needed=needed(share, limits.method, limits.confidence),
    )


def fit_decision(
    over_N: Array,
    age_N: Array,
    person_N: NDArray[np.int64],
    limits: Limits,
    group_N: Sequence[str | None] | None = None,
    attribute: str = "group",
) -> FittedThreshold:
    """The rule that calls at most so many minors over and so many adults under, as often as it can
    say anything.

    With groups, the threshold is that of the worst among all people and those groups that have
    enough of them: the limits then hold in each of these by itself (Mondrian). Where both ends
    cross, the model tells the two apart so well that any threshold between them holds both limits:
    the one in the middle is taken, and nobody is unsure.

    Args:
        over_N: P(age >= T) of pictures of people that the model never saw.
        age_N: ages in years.
        person_N: a number for each person.
        limits: the limits to hold.
        group_N: the group of each person; None where unknown.
        attribute: the name of the groups' attribute, for errors.

    Raises:
        DataError: no minors, no adults, one year only, too few people, or a group that is not known
            of too many.
    """
    minor_N = (age_N < limits.age) & (age_N >= limits.minors_from)
    adult_N = age_N >= limits.age
    _check(age_N, minor_N, adult_N, limits)
    whole = _cuts(None, over_N, person_N, minor_N, adult_N, limits)
    for side, cut in (("minors", whole.minors), ("adults", whole.adults)):
        if cut.at is None:
            limit = limits.share(side)  # type: ignore[arg-type]
            raise DataError(f"a limit of {limit:g}", _too_few(cut, side, limits), _more(limits))
    groups, unknown = _by_group(group_N, attribute, over_N, person_N, minor_N, adult_N, limits)
    holding = [whole, *(item for item in groups if item.holds)]
    over_from = max(item.minors.at for item in holding if item.minors.at is not None)
    under_to = min(item.adults.at for item in holding if item.adults.at is not None)
    # The ends cross: any threshold between them holds both limits, and nobody has to be unsure.
    if under_to >= over_from:
        over_from = (over_from + under_to) / 2
        under_to = over_from - STEP
    rule = Decision(age=limits.age, over_from=over_from, under_to=under_to)
    return FittedThreshold(
        decision=rule, limits=limits, whole=whole, groups=groups, unknown=unknown
    )


def _check(age_N: Array, minor_N: Array, adult_N: Array, limits: Limits) -> None:
    if len(np.unique(age_N)) == 1:
        why = f"everybody in it is {age_N[0]:g} years old"
        raise DataError("the data", why, f"Give people on both sides of {limits.age:g}")
    for name, side_N, where in (("minors", minor_N, "below"), ("adults", adult_N, "from")):
        if not side_N.any():
            since = (
                f" from {limits.minors_from:g} years on"
                if name == "minors" and limits.minors_from
                else ""
            )
            why = f"it has no {name}{since}, so nothing is known of errors {where} {limits.age:g}"
            raise DataError("the data", why, f"Give people on both sides of {limits.age:g}")


def _cuts(
    name: str | None,
    over_N: Array,
    person_N: NDArray[np.int64],
    minor_N: Array,
    adult_N: Array,
    limits: Limits,
) -> GroupCuts:
    return GroupCuts(
        name=name,
        minors=cut_of(person_scores(over_N[minor_N], person_N[minor_N]), limits, "minors"),
        adults=cut_of(person_scores(1.0 - over_N[adult_N], person_N[adult_N]), limits, "adults"),
    )


def _too_few(cut: Cut, side: str, limits: Limits) -> str:
    sure = "" if limits.method == "conformal" else f" with {100 * limits.confidence:g} % confidence"
    return (
        f"it takes {cut.needed} {side} that the model never saw to hold it{sure}, and the data "
        f"have {cut.people}"
    )


def _more(limits: Limits) -> str:
    other = (
        ""
        if limits.method == "conformal"
        else ", or take `method=conformal`, which says less with fewer people"
    )
    return f"Give more people or a larger limit{other}"


def _by_group(
    group_N: Sequence[str | None] | None,
    attribute: str,
    over_N: Array,
    person_N: NDArray[np.int64],
    minor_N: Array,
    adult_N: Array,
    limits: Limits,
) -> tuple[tuple[GroupCuts, ...], int]:
    if group_N is None:
        return (), 0
    label_N = np.asarray(["" if item is None else item for item in group_N])
    counted_N = minor_N | adult_N
    known = len(np.unique(person_N[counted_N & (label_N != "")]))
    total = len(np.unique(person_N[counted_N]))
    if total - known > MOST_UNKNOWN * total:
        why = (
            f"nobody knows it of {total - known} of {total} people, so no limit by group would "
            "hold of them"
        )
        raise DataError(
            f"the attribute {attribute!r}", why, "Complete it in the data, or leave `by` out"
        )
    names = sorted(set(label_N[counted_N].tolist()) - {""})
    cuts = [
        _cuts(
            name, over_N, person_N, minor_N & (label_N == name), adult_N & (label_N == name), limits
        )
        for name in names
    ]
    return tuple(cuts), total - known
