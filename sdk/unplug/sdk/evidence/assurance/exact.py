"""What a count of errors among people shows: exact bounds of a rate, and how many people a claim
needs.

k errors among n people, each with probability p on their own: the bounds of Clopper and Pearson
hold whatever p is, also where nobody was an error and every bootstrap would say zero. Pictures of
one person are not independent, so n counts people, and of somebody with several pictures the share
of errors counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.evidence.statistics import CONFIDENCE, MIN_SUBJECTS, lower_bound, upper_bound

from .evaluation_report import Claim, Rate

MAX_MISSING = 10_000_000


def people_needed(limit: float, confidence: float = CONFIDENCE) -> int:
    """How many people without an error show that a rate is at most `limit`.

    The smallest n with (1 - limit)^n <= 1 - confidence.

    Raises:
        InputError: a limit outside (0, 1).

    Example:
        >>> people_needed(0.01), people_needed(0.05), people_needed(0.001)
        (299, 59, 2995)

    Reference:
        Hanley and Lippman-Hand, If Nothing Goes Wrong, Is Everything All Right?, 1983 (the rule of
        three, 3 / limit).
    """
    if not 0.0 < limit < 1.0:
        raise InputError(
            f"limit {limit:g}",
            "it is not a share between 0 and 1",
            "Write for example 0.01 for 1 %",
        )
    return math.ceil(math.log(1.0 - confidence) / math.log1p(-limit) - 1e-12)


def people_missing(errors: float, people: int, limit: float, confidence: float = CONFIDENCE) -> int:
    """How many more people, none of them an error, would show that the rate is at most `limit`; 0
    where it is shown.

    Example:
        >>> people_missing(0, 200, 0.01), people_missing(1, 200, 0.01), people_missing(0, 299, 0.01)
        (99, 273, 0)
    """
    if people and upper_bound(errors, people, confidence) <= limit:
        return 0
    # The bound falls with every person without an error, so the fewest are found by halving.
    low, high = people, max(2 * people, people_needed(limit, confidence))
    while high < MAX_MISSING and upper_bound(errors, high, confidence) > limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if upper_bound(errors, middle, confidence) <= limit else (middle, high)
        )
    return high - people


def rate(
    event_N: NDArray[np.bool_], among_N: NDArray[np.bool_], person_N: NDArray[np.int64]
) -> Rate:
    """The share of pictures of a kind that are an event, with its bounds over people.

    Args:
        event_N: True for the pictures that are.
        among_N: True for the pictures that count at all.
        person_N: the person in each picture.

    Example:
        >>> rate(np.array([True, False, False]), np.array([True, True, False]), np.arange(3)).people
        2
    """
    pictures, events = int(among_N.sum()), int(event_N[among_N].sum())
    people = len(np.unique(person_N[among_N]))
    counts = {"events": events, "pictures": pictures, "people": people}
    if people < MIN_SUBJECTS:
        return Rate(**counts, value=None, low=None, high=None, upper=None)
    # Of somebody with pictures of both kinds the share counts, so errors may be no whole number.
    errors, side = events / pictures * people, (1.0 + CONFIDENCE) / 2.0
    return Rate(
        **counts,
        value=events / pictures,
        low=lower_bound(errors, people, side),
        high=upper_bound(errors, people, side),
        upper=upper_bound(errors, people),
    )


def claim(found: Rate, limit: float) -> Claim:
    """Whether a rate is shown to keep a limit, and how many people are missing to that."""
    share = found.events / found.pictures if found.pictures else 0.0
    missing = people_missing(share * found.people, found.people, limit)
    if missing == 0:
        return Claim(held="held", missing=None)
    if found.low is not None and found.low > limit:
        return Claim(held="broken", missing=None)
    return Claim(held="open", missing=missing)
