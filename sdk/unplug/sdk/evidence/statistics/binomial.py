"""Exact bounds of a rate: they hold whatever it is, also where nothing was counted and every bootstrap
would say zero.
"""

from __future__ import annotations

from scipy.stats import beta

from unplug.core import Estimate

from .bootstrap import CONFIDENCE


def upper_bound(errors: float, people: int, confidence: float = CONFIDENCE) -> float:
    """The rate that so few errors among people exclude with that confidence: p with P(at most k
    errors | p) = 1 - confidence.

    Args:
        errors: k, 0 to n; not whole where somebody has pictures of both kinds.
        people: n, at least 1.
        confidence: the confidence of one side, in (0, 1).

    Example:
        >>> round(upper_bound(0, 299), 6), round(upper_bound(0, 298), 6)
        (0.009969, 0.010002)

    Reference:
        Clopper and Pearson, The Use of Confidence or Fiducial Limits, 1934.
    """
    return 1.0 if errors >= people else float(beta.ppf(confidence, errors + 1, people - errors))


def lower_bound(errors: float, people: int, confidence: float = CONFIDENCE) -> float:
    """The mirror of `upper_bound`: 1 - upper_bound(n - k, n)."""
    return 1.0 - upper_bound(people - errors, people, confidence)


def share(events: int, of: int) -> Estimate:
    """A share of independent things with its exact interval: half of the error at either end.

    Args:
        events: 0 to `of`.
        of: the number of things, at least 1.

    Example:
        >>> found = share(0, 24)
        >>> found.value, found.low, round(found.high, 3)
        (0.0, 0.0, 0.142)
    """
    side = (1.0 + CONFIDENCE) / 2.0
    return Estimate(
        value=events / of,
        low=lower_bound(events, of, side),
        high=upper_bound(events, of, side),
    )
