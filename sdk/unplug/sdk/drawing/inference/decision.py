"""Over, under or unsure at an age: the probability that a model's groups give, and the rule that a
manifest carries.

The apps and the web page do the same arithmetic in double precision; ``tests/vectors/decision``
holds all to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unplug.core import Array, InputError

Answered = Literal["over", "under", "unsure"]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The rule "over from here, under up to there, unsure between".

    Args:
        age: T in years; who has had that birthday is over.
        over_from: the smallest P(age >= T) that is answered "over", in [0, 1]; above 1 nobody is.
        under_to: the largest P(age >= T) that is answered "under"; below 0 nobody is. Smaller than
            `over_from`.

    Raises:
        InputError: the two cross, or are not numbers.

    Example:
        >>> Decision(age=18.0, over_from=0.9, under_to=0.2).answers(np.array([0.95, 0.5, 0.2]))
        ['over', 'unsure', 'under']
    """

    age: float
    over_from: float
    under_to: float

    def __post_init__(self) -> None:
        if not self.under_to < self.over_from:
            why = (
                f"under up to {self.under_to} and over from {self.over_from} cross, or are no "
                "numbers"
            )
            raise InputError(
                f"decision at {self.age:g}", why, "Make it anew with `unplug threshold`"
            )

    def answers(self, over_N: Array) -> list[Answered]:
        """What is said for N values of P(age >= T)."""
        return [
            "over" if p >= self.over_from else "under" if p <= self.under_to else "unsure"
            for p in over_N.tolist()
        ]


def over_probability(logits_NG: Array, edges: Sequence[float], age: float) -> Array:
    """P(age >= T) (N,) in double precision: the groups above T, and of the group around T the share
    above it.

    p = sum over groups g of softmax(logits)_g * clip((high_g - T) / (high_g - low_g), 0, 1)

    Inside a group ages are taken as even, so only a T that is one of `edges` is free of an
    assumption.

    Args:
        logits_NG: the logits of G groups.
        edges: G + 1 group borders in years.
        age: T in years, above the first border and below the last.

    Raises:
        InputError: T lies outside of the borders, so no output speaks of it.

    Example:
        >>> over_probability(np.zeros((1, 2)), (0.0, 18.0, 100.0), 18.0)
        array([0.5])
    """
    if not edges[0] < age < edges[-1]:
        why = (
            f"the model's age groups go from {edges[0]:g} to {edges[-1]:g} years, so no output "
            f"speaks of {age:g}"
        )
        raise InputError(
            f"age {age:g}", why, "Ask for an age between them, or train with other edges"
        )
    low_G, high_G = (
        np.asarray(edges[:-1], dtype=np.float64),
        np.asarray(edges[1:], dtype=np.float64),
    )
    share_G = np.clip((high_G - age) / (high_G - low_G), 0.0, 1.0)
    wide_NG = np.asarray(logits_NG, dtype=np.float64)
    weight_NG = np.exp(wide_NG - wide_NG.max(axis=1, keepdims=True))
    return np.asarray((weight_NG * share_G).sum(axis=1) / weight_NG.sum(axis=1))
