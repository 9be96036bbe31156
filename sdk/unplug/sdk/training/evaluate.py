"""Predictions of a model over a set, and what they are worth.

Shapes: N samples, G age groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import nn

from unplug.core import InputError

if TYPE_CHECKING:
    from .samples import SampleSet


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What a model says of N samples, with the truth beside it.

    Args:
        logits_NG: logits of the age groups or classes, float64.
        age_N: expected age in years; NaN for models and data without ages.
        true_age_N: years, or NaN.
        true_group_N: index of the age group or class.
    """

    logits_NG: NDArray[np.float64]
    age_N: NDArray[np.float64]
    true_age_N: NDArray[np.float64]
    true_group_N: NDArray[np.int64]

    @property
    def log_prob_N(self) -> NDArray[np.float64]:
        """log softmax(z)_y of the true group."""
        shifted = self.logits_NG - self.logits_NG.max(axis=1, keepdims=True)
        log_NG = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        picked: NDArray[np.float64] = log_NG[np.arange(len(log_NG)), self.true_group_N]
        return picked

    @property
    def answer_N(self) -> NDArray[np.float64]:
        """What two models are compared by: expected age in years."""
        return self.age_N

    @property
    def error_N(self) -> NDArray[np.float64]:
        """|expected age - age| in years."""
        return np.abs(self.age_N - self.true_age_N)

    @property
    def correct_N(self) -> NDArray[np.bool_]:
        """True where the largest logit is the true group's."""
        return np.asarray(self.logits_NG.argmax(axis=1) == self.true_group_N)


def confidence(predictions: Predictions) -> NDArray[np.float64]:
    """phi (N,) = ln p_y - ln sum_{k != y} p_k = z_y - logsumexp_{k != y} z_k, the logit of the true class's probability.

    From logits, so that it stays finite and exact where p_y rounds to 0 or 1; over many models it is near Gaussian.

    Raises:
        InputError: one class only, where there is nothing else to be confident against.

    Reference:
        Carlini et al., Membership Inference Attacks From First Principles, 2022, section IV.C.
    """
    logits_NG = np.asarray(predictions.logits_NG, np.float64)
    if logits_NG.ndim != 2 or logits_NG.shape[1] < 2:
        raise InputError("confidence", f"logits of shape {logits_NG.shape} have no second class", "Use a model with classes")
    rows = np.arange(len(logits_NG))
    others_NG = logits_NG.copy()
    others_NG[rows, predictions.true_group_N] = -np.inf
    return np.asarray(logits_NG[rows, predictions.true_group_N] - logsumexp(others_NG, axis=1), np.float64)


@dataclass(frozen=True, kw_only=True)
class LossPredictions(Predictions):
    """What a model without classes says of N samples: p = exp(-loss), read as a two-class probability of the truth.

    With p and 1 - p for logits, log p is -loss and log(p / (1 - p)) is the confidence, so that every attack on a likelihood
    reads a loss as well. Ages are NaN.

    Args:
        plain_N: the loss of the same samples without the model (a plugin's: the bare base's), or None.
    """

    plain_N: NDArray[np.float64] | None = None

    @property
    def error_N(self) -> NDArray[np.float64]:
        """The loss."""
        return -self.log_prob_N

    @property
    def answer_N(self) -> NDArray[np.float64]:
        """The loss: there is no other answer."""
        return self.error_N

    @classmethod
    def of(cls, loss_N: NDArray[Any], plain_N: NDArray[Any] | None = None) -> LossPredictions:
        """From losses above 0."""
        loss_N = np.maximum(np.asarray(loss_N, np.float64), SMALLEST_LOSS)
        nothing_N = np.full(len(loss_N), np.nan)
        return cls(
            logits_NG=np.stack([-loss_N, np.log(-np.expm1(-loss_N))], axis=1), age_N=nothing_N, true_age_N=nothing_N,
            true_group_N=np.zeros(len(loss_N), np.int64), plain_N=None if plain_N is None else np.asarray(plain_N, np.float64),
        )  # fmt: skip


SMALLEST_LOSS = 1e-12  # below it p would be 1 and its odds infinite


@torch.no_grad()
def predict(model: nn.Module, data: SampleSet) -> Predictions:
    """Runs a model in eval mode over a set; its mode is put back afterwards."""
    was_training = model.training
    said = data.predictions(model.eval())
    model.train(was_training)
    return said


def summarize(predictions: Predictions, edges: Sequence[float]) -> dict[str, Any]:
    """Accuracy, mean absolute error and both per age group, JSON-ready.

    Args:
        predictions: of N samples.
        edges: G + 1 age-group borders.

    Returns:
        ``n``, ``accuracy`` (0 to 1), ``mae`` in years (None where there are no ages), ``loss`` in nats and ``per_group`` rows.
    """
    rows = []
    for group, (low, high) in enumerate(itertools.pairwise(edges)):
        inside = predictions.true_group_N == group
        rows.append(
            {
                "ages": f"{low:g}-{high:g}",
                "n": int(inside.sum()),
                "accuracy": float(predictions.correct_N[inside].mean()) if inside.any() else None,
                "mae": _mean_error(predictions.error_N[inside]) if inside.any() else None,
            }
        )
    return {
        "n": len(predictions.age_N),
        "accuracy": float(predictions.correct_N.mean()),
        "mae": _mean_error(predictions.error_N),
        "loss": float(-predictions.log_prob_N.mean()),
        "per_group": rows,
    }


def _mean_error(error_N: NDArray[np.float64]) -> float | None:
    return None if np.isnan(error_N).any() else float(error_N.mean())
