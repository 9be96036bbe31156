"""What a membership-inference attack is, and the registry of those that unplug knows.

Shapes: N samples, F forget, U unseen, Z population, M reference models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError, Registry

if TYPE_CHECKING:
    from unplug.sdk.learning.training import Predictions

Array = NDArray[np.float64]


class Lacks(InputError):
    """One model does not give what an attack reads (a file has no features): the attack is left out
    for that model alone.
    """


@dataclass(frozen=True, kw_only=True)
class Others:
    """What one model says of other pictures of the people in the forget and the unseen samples,
    none of which it saw.

    Args:
        forget, unseen: its answers for those pictures.
        person_F, person_U: numbers of the people in them, the same as in `Signals`.
    """

    forget: Predictions
    unseen: Predictions
    person_F: NDArray[np.int64]
    person_U: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Inside:
    """What the weights of one model show: its last linear layer, and what that layer reads of three
    sets.

    Args:
        forget_FC, unseen_UC, population_ZC: features, float64.
        weight_KC, bias_K: the layer's weight and bias.
    """

    forget_FC: Array
    unseen_UC: Array
    population_ZC: Array
    weight_KC: Array
    bias_K: Array


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What one model says of each set.

    Args:
        forget: F samples that a request names (members of the original).
        unseen: U samples that no model was trained on (the test set).
        population: Z further unseen samples, disjoint from `unseen` (the validation set).
        retain: the rest of the training set.
        person_F, person_U: numbers of the people in the forget and the unseen samples; None where
            they were not given.
        views: the model's answers for the forget and the unseen samples of each view (see
            `unplug.sdk.evidence.auditing.evidence`).
        others: its answers for other pictures of the same people; None where there are none.
        inside: the last linear layer and what it reads; None where nobody holds the weights.
        before: the old file's answers: the original that was unlearned. None for the original
            itself, or without one.
    """

    forget: Predictions
    unseen: Predictions
    population: Predictions
    retain: Predictions
    person_F: NDArray[np.int64] | None = None
    person_U: NDArray[np.int64] | None = None
    views: tuple[tuple[Predictions, Predictions], ...] = ()
    others: Others | None = None
    inside: Inside | None = None
    before: Signals | None = None


class Attack(Protocol):
    """Turns what a model says into membership scores; higher means "was a member".

    Attributes:
        min_references: how many reference models it needs.

    One that reads more than the sets of a split names it in ``reads``: "views", "others", "inside"
    or "before" of `Signals`. One that succeeds on a retrained model as well sets ``inherent``: no
    forget step is held to it.
    """

    min_references: ClassVar[int]

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Scores of the forget samples (F,) and of the unseen samples (U,).

        Raises:
            InputError: too few references, or data that the attack cannot read (no ages, for one):
                a reason to skip it.
            Lacks: this model does not give what the attack reads: a reason to skip it for this
                model.
        """


ATTACKS: Registry[Callable[[], Attack]] = Registry(
    "attack",
    {
        "loss": "unplug.sdk.evidence.auditing.attacks.loss:LossAttack",
        "rmia": "unplug.sdk.evidence.auditing.attacks.rmia:RMIA",
        "lira": "unplug.sdk.evidence.auditing.attacks.lira:LiRA",
        "error": "unplug.sdk.evidence.auditing.attacks.error:ErrorAttack",
        "gain": "unplug.sdk.evidence.auditing.attacks.gain:GainAttack",
        "task-loss": "unplug.sdk.evidence.auditing.attacks.task_loss:TaskLossAttack",
        "person": "unplug.sdk.evidence.auditing.attacks.person:PersonAttack",
        "error-lira": "unplug.sdk.evidence.auditing.attacks.error_lira:ErrorLiRA",
        "entropy": "unplug.sdk.evidence.auditing.attacks.entropy:EntropyAttack",
        "views": "unplug.sdk.evidence.auditing.attacks.views:ViewsAttack",
        "best-view": "unplug.sdk.evidence.auditing.attacks.best_view:BestViewAttack",
        "other-pictures": "unplug.sdk.evidence.auditing.attacks.other_pictures:OtherPicturesAttack",
        "two-versions": "unplug.sdk.evidence.auditing.attacks.two_versions:TwoVersionsAttack",
        "features": "unplug.sdk.evidence.auditing.attacks.features:FeaturesAttack",
        "head-difference": "unplug.sdk.evidence.auditing.attacks.head_difference:HeadDifferenceAttack",
    },
    group="unplug.attacks",
)


def inherent(name: str) -> bool:
    """Whether an attack succeeds on a retrained model as well, so that no forget step can be held
    to it.
    """
    return name in ATTACKS and bool(getattr(ATTACKS.get(name), "inherent", False))
