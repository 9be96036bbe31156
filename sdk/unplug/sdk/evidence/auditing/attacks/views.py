"""The views attack: the picture moved by a pixel or two, for what was done to the exact picture
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..attack import Array, Lacks, Signals
from .task_loss import strongest


@dataclass(frozen=True, kw_only=True)
class ViewsAttack:
    """score(x) = mean_v s(v(x)) over shifts and crops v by one and two pixels, s = -task loss (ln
    p_y without years).

    The picture itself is not among them: a table in front of the network that answers for the exact
    pictures changes nothing here. What makes one view hard averages out, as over several pictures
    of a person.

    Raises:
        Lacks: from the call, where the model was not asked about views.

    Reference:
        Tao and Shokri, Range Membership Inference Attacks, 2024 (the average over a range of points
        around a query).
    """

    min_references: ClassVar[int] = 0
    reads: ClassVar[str] = "views"

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Mean scores of forget (F,) and unseen (U,)."""
        forget_VF, unseen_VU = scores_of_views(target)
        return forget_VF.mean(axis=0), unseen_VU.mean(axis=0)


def scores_of_views(target: Signals) -> tuple[Array, Array]:
    """The score of every view of the forget (V, F) and the unseen samples (V, U); `Lacks` without
    views.
    """
    if not target.views:
        raise Lacks(
            "attack on views",
            "the model was not asked about views of the pictures",
            "Give a model that runs here",
        )
    forget, unseen = zip(*target.views, strict=True)
    return np.stack([strongest(part) for part in forget]), np.stack(
        [strongest(part) for part in unseen]
    )
