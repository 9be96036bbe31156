"""The error attack: members have a smaller error in years."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..attack import Array, Signals
from .residual import residual


@dataclass(frozen=True, kw_only=True)
class ErrorAttack:
    """score(x) = -|E[age] - age| in years: the loss attack on the number that a regression reports.

    It sees memorizing inside an age group, which the group's probability does not.

    Raises:
        InputError: from the call, where the model or the data has no ages.

    Reference:
        Yeom et al., Privacy Risk in Machine Learning, 2018, section 3.2.
    """

    min_references: ClassVar[int] = 0

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Scores in years, at most 0, of forget (F,) and unseen (U,)."""
        return -np.abs(residual(target.forget)), -np.abs(residual(target.unseen))
