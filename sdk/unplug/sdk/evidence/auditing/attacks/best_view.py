"""The best-view attack: the one view of a picture, moved by a pixel or two, that the model knows
best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..attack import Array, Signals
from .views import scores_of_views


@dataclass(frozen=True, kw_only=True)
class BestViewAttack:
    """score(x) = max_v s(v(x)), views and s as in `ViewsAttack`: for what is remembered of one way
    to cut the picture.

    Raises:
        Lacks: from the call, where the model was not asked about views.

    Reference:
        Tao and Shokri, Range Membership Inference Attacks, 2024 (the maximum over a range of points
        around a query).
    """

    min_references: ClassVar[int] = 0
    reads: ClassVar[str] = "views"

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Highest scores of forget (F,) and unseen (U,)."""
        forget_VF, unseen_VU = scores_of_views(target)
        return forget_VF.max(axis=0), unseen_VU.max(axis=0)
