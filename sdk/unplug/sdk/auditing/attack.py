"""What a membership-inference attack is, and the registry of those that unplug knows.

Shapes: N samples, F forget, U unseen, Z population, M reference models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from unplug.core import Registry
from unplug.sdk.training import Predictions

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What one model says of each set.

    Args:
        forget: F samples that a request names (members of the original).
        unseen: U samples that no model was trained on (the test set).
        population: Z further unseen samples, disjoint from `unseen` (the validation set).
        retain: the rest of the training set.
        person_F, person_U: numbers of the people in the forget and the unseen samples; None where they were not given.
    """

    forget: Predictions
    unseen: Predictions
    population: Predictions
    retain: Predictions
    person_F: NDArray[np.int64] | None = None
    person_U: NDArray[np.int64] | None = None


class Attack(Protocol):
    """Turns what a model says into membership scores; higher means "was a member".

    Attributes:
        min_references: how many reference models it needs.
    """

    min_references: ClassVar[int]

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Scores of the forget samples (F,) and of the unseen samples (U,).

        Raises:
            InputError: too few references, or data that the attack cannot read (no ages, for one): a reason to skip it.
        """


ATTACKS: Registry[Callable[[], Attack]] = Registry(
    "attack",
    {
        "loss": "unplug.sdk.auditing.attacks.loss:LossAttack",
        "rmia": "unplug.sdk.auditing.attacks.rmia:RMIA",
        "lira": "unplug.sdk.auditing.attacks.lira:LiRA",
        "error": "unplug.sdk.auditing.attacks.error:ErrorAttack",
        "gain": "unplug.sdk.auditing.attacks.gain:GainAttack",
        "task-loss": "unplug.sdk.auditing.attacks.task_loss:TaskLossAttack",
        "person": "unplug.sdk.auditing.attacks.person:PersonAttack",
        "error-lira": "unplug.sdk.auditing.attacks.error_lira:ErrorLiRA",
    },
    group="unplug.attacks",
)
