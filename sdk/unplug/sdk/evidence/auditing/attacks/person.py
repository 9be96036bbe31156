"""The person attack: all pictures of a person at once, where each alone says little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.learning.training import Predictions

from ..attack import Array, Signals


@dataclass(frozen=True, kw_only=True)
class PersonAttack:
    """score(x) = -mean over the pictures x' of the person in x of her error |E[age](x') - age|, or
    of the loss of a plugin.

    Someone who asks about a person has all her pictures. What training left on each adds up, what
    makes a picture hard averages out.

    Raises:
        InputError: from the call, where no error is known, or nobody has two pictures: there the
            error attack is this one.

    Reference:
        Song and Shmatikov, Auditing Data Provenance in Text-Generation Models, 2019 (all records of
        a user at once).
    """

    min_references: ClassVar[int] = 0

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """The person's score on each of her pictures, of forget (F,) and unseen (U,)."""
        if target.person_F is None or target.person_U is None:
            raise InputError(
                "attack person", "nothing says who is in which picture", "Audit data with subjects"
            )
        if all(len(np.unique(who)) == len(who) for who in (target.person_F, target.person_U)):
            raise InputError(
                "attack person", "nobody has two pictures", "Use the error attack: it says the same"
            )
        return _mean(target.forget, target.person_F), _mean(target.unseen, target.person_U)


def _mean(predictions: Predictions, person_N: NDArray[np.int64]) -> Array:
    error_N = predictions.error_N
    if not np.isfinite(error_N).all():
        raise InputError(
            "attack person",
            "the model answers with no number, or the data have none",
            "Use an attack on class probabilities",
        )
    _, number_N = np.unique(person_N, return_inverse=True)
    return -(np.bincount(number_N, weights=error_N) / np.bincount(number_N))[number_N]
