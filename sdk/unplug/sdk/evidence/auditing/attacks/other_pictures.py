"""The other-pictures attack: is the person known by pictures that nobody trained on?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..attack import Array, Lacks, Signals
from .task_loss import strongest


@dataclass(frozen=True, kw_only=True)
class OtherPicturesAttack:
    """score(x) = mean s(x') over pictures x' of the person of x that no model saw, s = -task loss
    (ln p_y without years).

    People who ask about a person rarely have the picture of the training set. What is learned of a
    face, and not of a file, shows here, whatever was done to the pictures of the request.

    Raises:
        Lacks: from the call, where there is no such picture of each person, or the model was not
            asked.

    Reference:
        Li et al., User-Level Membership Inference Attack against Metric Embedding Learning, 2022
        (other pictures of a member).
    """

    min_references: ClassVar[int] = 0
    reads: ClassVar[str] = "others"

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """The person's score on each of her pictures, of forget (F,) and unseen (U,)."""
        if target.others is None or target.person_F is None or target.person_U is None:
            raise Lacks(
                "attack other-pictures",
                "the model was not asked about other pictures",
                "Give a model that runs here",
            )
        others = target.others
        return (
            _mean(strongest(others.forget), others.person_F, target.person_F),
            _mean(strongest(others.unseen), others.person_U, target.person_U),
        )


def _mean(score_O: Array, person_O: NDArray[np.int64], person_N: NDArray[np.int64]) -> Array:
    """Mean over the other pictures of the person in each sample (N,)."""
    people, number_O = np.unique(person_O, return_inverse=True)
    if not np.isin(person_N, people).all():
        missing = len(np.setdiff1d(person_N, people))
        raise Lacks(
            "attack other-pictures",
            f"{missing} people have no other picture",
            "Give one of each person",
        )
    mean_P = np.bincount(number_O, weights=score_O) / np.bincount(number_O)
    return np.asarray(mean_P[np.searchsorted(people, person_N)], np.float64)
