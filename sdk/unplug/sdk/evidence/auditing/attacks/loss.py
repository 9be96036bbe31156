"""The loss attack: members have a lower loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..attack import Array, Signals


@dataclass(frozen=True, kw_only=True)
class LossAttack:
    """score(x) = log p(y | x) = -cross entropy; one threshold for everybody.

    Reference:
        Yeom et al., Privacy Risk in Machine Learning, 2018, section 3.2.
    """

    min_references: ClassVar[int] = 0

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """-loss of forget (F,) and unseen (U,)."""
        return target.forget.log_prob_N, target.unseen.log_prob_N
