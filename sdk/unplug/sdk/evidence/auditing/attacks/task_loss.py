"""The loss attack on what the recipe minimised: the groups' entropy and the error in years
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unplug.sdk.learning.training import ClassPredictions, Predictions

from ..attack import Array, Signals
from .residual import residual

YEARS = 10.0
"""The years that weigh as much as one nat, as in `unplug.sdk.forgetting.tasks.AgeTask.loss`."""


@dataclass(frozen=True, kw_only=True)
class TaskLossAttack:
    """score(x) = ln p_y(x) - |E[age] - age| / 10: minus the training loss, with the true group in
    place of soft ones.

    Training lowered this sum and not its parts, so memorizing may show in it where each part alone
    hides it.

    Raises:
        InputError: from the call, where the model or the data has no ages: there the loss attack is
            this one.

    Reference:
        Yeom et al., Privacy Risk in Machine Learning, 2018, section 3.2.
    """

    min_references: ClassVar[int] = 0

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Scores in nats, at most 0, of forget (F,) and unseen (U,)."""
        return _score(target.forget), _score(target.unseen)


def strongest(predictions: Predictions) -> Array:
    """Minus the training loss (N,) of models with years, ln p_y of others: what one number a sample
    says most with.
    """
    aged = isinstance(predictions, ClassPredictions) and bool(
        np.isfinite(predictions.error_N).all()
    )
    return _score(predictions) if aged else predictions.log_prob_N


def _score(predictions: Predictions) -> Array:
    return predictions.log_prob_N - np.abs(residual(predictions)) / YEARS
