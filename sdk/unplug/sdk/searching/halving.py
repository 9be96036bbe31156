"""Successive halving: many candidates for a short training, the best of them for longer ones."""

from __future__ import annotations

from collections.abc import Mapping

KEEP = 3
"""One candidate in so many goes on to the next rung, which trains for so many times as long."""


def rungs(candidates: int, epochs: int) -> list[tuple[int, int]]:
    """How many candidates each rung trains, and for how many epochs; the last trains one in full.

    Every rung costs about as much as one full training: n_i = n / 3^i, e_i = e / 3^(r - i).

    Args:
        candidates: n of the first rung, at least 1.
        epochs: e of a full training.

    Example:
        >>> rungs(9, 18), rungs(4, 6), rungs(1, 6)
        ([(9, 2), (3, 6), (1, 18)], [(4, 2), (1, 6)], [(1, 6)])

    Reference:
        Jamieson and Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter
        Optimization, 2016, section 3.
    """
    counts = [candidates]
    while counts[-1] > 1:
        counts.append(max(1, counts[-1] // KEEP))
    last = len(counts) - 1
    return [
        (count, max(1, round(epochs / KEEP ** (last - rung)))) for rung, count in enumerate(counts)
    ]


def at_random(candidates: int, epochs: int) -> int:
    """How many candidates a random search trains in full at the cost of the halving: at least 1.

    Example:
        >>> at_random(9, 18), at_random(4, 6)
        (3, 2)
    """
    cost = sum(count * trained for count, trained in rungs(candidates, epochs))
    return max(1, round(cost / epochs))


def best(errors: Mapping[str, float], count: int) -> list[str]:
    """The names of the `count` smallest errors, in order; of equal ones the first by name.

    Example:
        >>> best({"a": 2.0, "b": 1.0, "c": 1.0}, 2)
        ['b', 'c']
    """
    return sorted(errors, key=lambda name: (errors[name], name))[:count]
