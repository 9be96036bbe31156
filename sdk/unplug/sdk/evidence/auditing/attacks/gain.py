"""The gain attack: members gain more from the plugin than others do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unplug.core import InputError
from unplug.sdk.learning.training import LossPredictions, Predictions

from ..attack import Array, Signals


@dataclass(frozen=True, kw_only=True)
class GainAttack:
    """score(x) = log loss_base(x) - log loss_plugin(x): the frozen base is the reference model.

    The loss of a diffusion model says above all how hard a picture is. The base without its plugin
    says the same of the same picture at the same noise, and costs no reference model to train.

    Raises:
        InputError: from the call, for models that are not a plugin with a base.

    Reference:
        Watson et al., On the Importance of Difficulty Calibration in Membership Inference Attacks,
        2022, section 3.
    """

    min_references: ClassVar[int] = 0

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Gain in nats of forget (F,) and unseen (U,)."""
        return gain(target.forget), gain(target.unseen)


def gain(predictions: Predictions) -> Array:
    """log(loss without the plugin / loss with it) of each sample (N,)."""
    if not isinstance(predictions, LossPredictions) or predictions.plain_N is None:
        raise InputError(
            "attack gain",
            "it reads the loss with and without a plugin, and this model is not a plugin",
            "Use it on plugins",
        )
    return np.asarray(np.log(predictions.plain_N) - np.log(predictions.error_N), np.float64)
