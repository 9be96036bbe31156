"""What an audit refuses to compare: predictions of another split, and models that are one model
given twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unplug.core import InputError
from unplug.sdk.learning.training import ClassPredictions, LabelledSet, Predictions, Sets

from .attack import Array, Signals

PARTS = (
    ("forget", "forget"),
    ("unseen", "test"),
    ("population", "validation"),
    ("retain", "train"),
)
"""The parts of `Signals`, and the set of `Sets` that each is about."""


def check_split(name: str, own: Signals, sets: Sets) -> None:
    """Refuses what was said of other samples than those of the request.

    Args:
        name: the name of the model, for the message.
        own: the model's own answers.
        sets: the sets of the request.

    Raises:
        InputError: another number of samples, or other labels.
    """
    for side, part in PARTS:
        predictions, samples = getattr(own, side), getattr(sets, part)
        if len(predictions.log_prob_N) != len(samples):
            why = (
                f"it says something of {len(predictions.log_prob_N)} {part} samples, the split has "
                f"{len(samples)}"
            )
            raise InputError(name, why, "Predict the samples of this split")
        if _other_labels(predictions, samples):
            why = f"the labels of its {part} samples are not those of the split"
            raise InputError(name, why, "Predict the samples of this split, in its order")


def _other_labels(predictions: Predictions, samples: object) -> bool:
    if not (isinstance(predictions, ClassPredictions) and isinstance(samples, LabelledSet)):
        return False
    group_N = samples.group_N.cpu().numpy()
    return bool((group_N >= 0).all()) and not np.array_equal(predictions.true_group_N, group_N)


def check_references(references: Sequence[Signals]) -> None:
    """Refuses references that say the same of every sample: one model given twice makes attacks
    surer than they are.

    Raises:
        InputError: two of them are alike.
    """
    rows = [
        np.concatenate([item.forget.confidence_N, item.unseen.confidence_N]) for item in references
    ]
    check_different("reference models", rows)


def check_different(what: str, rows: Sequence[Array]) -> None:
    """Refuses a list of models of which two say the same of every sample.

    Args:
        what: the models are, for the message.
        rows: the answers of each model, one number per sample.

    Raises:
        InputError: names the first two.

    Example:
        >>> check_different("models", [np.zeros(2), np.ones(2)])
    """
    first: dict[bytes, int] = {}
    for number, row in enumerate(rows):
        earlier = first.setdefault(np.ascontiguousarray(row, np.float64).tobytes(), number)
        if earlier != number:
            why = (
                f"numbers {earlier + 1} and {number + 1} say the same of every sample: one model "
                "given twice"
            )
            raise InputError(what, why, "Train each with a seed of its own")
