"""The entropy attack: members are answered with more certainty, whatever the truth; nobody needs to
know the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unplug.sdk.learning.training import classed

from ..attack import Array, Signals


@dataclass(frozen=True, kw_only=True)
class EntropyAttack:
    """score(x) = sum_g p_g ln p_g, minus the entropy of the answer: for somebody who holds the
    picture and not its label.

    Raises:
        InputError: from the call, of models without classes.

    Reference:
        Salem et al., ML-Leaks, 2019, section V (the third adversary, who knows no label).
    """

    min_references: ClassVar[int] = 0

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Scores in nats, at most 0, of forget (F,) and unseen (U,)."""
        sides = (classed(part).probability_NG for part in (target.forget, target.unseen))
        forget_F, unseen_U = (
            np.asarray((p_NG * np.log(np.maximum(p_NG, TINY))).sum(axis=1), np.float64)
            for p_NG in sides
        )
        return forget_F, unseen_U


TINY = 1e-300
"""p ln p is 0 at p = 0."""
