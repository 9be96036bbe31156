"""Predictions of a model over a set, and what they are worth.

Shapes: N samples, G age groups.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from unplug.core import InputError

Array = NDArray[np.float64]


class Predictions(ABC):
    """What a model says of N samples, with the truth: all that attacks and comparisons of
    two models read.
    """

    @property
    @abstractmethod
    def log_prob_N(self) -> Array:
        """log p(truth) of each sample (N,) in nats."""

    @property
    @abstractmethod
    def confidence_N(self) -> Array:
        """phi = ln(p / (1 - p)) of the truth, finite and exact where p rounds to 0 or 1; over many
        models near Gaussian.

        Reference:
            Carlini et al., Membership Inference Attacks From First Principles, 2022, section IV.C.
        """

    @property
    @abstractmethod
    def probability_NG(self) -> Array:
        """The distribution that the model answers with; of a model without classes p and 1 - p."""

    @property
    @abstractmethod
    def answer_N(self) -> Array:
        """What two models are compared by: expected age in years, or the loss."""

    @property
    @abstractmethod
    def error_N(self) -> Array:
        """How far off the answer is, in years or as a loss; NaN where neither is known."""

    @property
    @abstractmethod
    def finite(self) -> bool:
        """Whether all that the model said are numbers."""


@dataclass(frozen=True, kw_only=True)
class ClassPredictions(Predictions):
    """What a model with age groups or classes says of N samples.

    Args:
        logits_NG: logits of the age groups or classes, float64.
        age_N: expected age in years; NaN for models and data without ages.
        true_age_N: years, or NaN.
        true_group_N: index of the age group or class.
        classes: names of the classes, of a model that has some.
    """

    logits_NG: Array
    age_N: Array
    true_age_N: Array
    true_group_N: NDArray[np.int64]
    classes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, logits_NG: NDArray[Any], true_group_N: NDArray[Any], classes: Sequence[str] = ()
    ) -> ClassPredictions:
        """The predictions of a model without ages."""
        none_N = np.full(len(logits_NG), np.nan)
        logits_NG = np.asarray(logits_NG, np.float64)
        return cls(
            logits_NG=logits_NG,
            age_N=none_N,
            true_age_N=none_N,
            true_group_N=np.asarray(true_group_N, np.int64),
            classes=tuple(classes),
        )

    @property
    def log_prob_N(self) -> Array:
        """log softmax(z)_y of the true group."""
        shifted = self.logits_NG - self.logits_NG.max(axis=1, keepdims=True)
        log_NG = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        picked: Array = log_NG[np.arange(len(log_NG)), self.true_group_N]
        return picked

    @property
    def confidence_N(self) -> Array:
        """ln p_y - ln sum_{k != y} p_k = z_y - logsumexp_{k != y} z_k; `InputError` with one class,
        where there is no other.
        """
        if self.logits_NG.ndim != 2 or self.logits_NG.shape[1] < 2:
            raise InputError(
                "confidence",
                f"logits of shape {self.logits_NG.shape} have no second class",
                "Use a model with classes",
            )
        rows = np.arange(len(self.logits_NG))
        others_NG = self.logits_NG.copy()
        others_NG[rows, self.true_group_N] = -np.inf
        return np.asarray(
            self.logits_NG[rows, self.true_group_N] - logsumexp(others_NG, axis=1), np.float64
        )

    @property
    def probability_NG(self) -> Array:
        """softmax(z), the probability of each class (N, G)."""
        powers_NG = np.exp(self.logits_NG - self.logits_NG.max(axis=1, keepdims=True))
        return np.asarray(powers_NG / powers_NG.sum(axis=1, keepdims=True), np.float64)

    @property
    def answer_N(self) -> Array:
        """Expected age in years; without ages the probability of the truth."""
        return np.exp(self.log_prob_N) if np.isnan(self.age_N).all() else self.age_N

    @property
    def error_N(self) -> Array:
        """|expected age - age| in years."""
        return np.abs(self.age_N - self.true_age_N)

    @property
    def finite(self) -> bool:
        """Whether logits and ages are finite; a model without ages has none that could be."""
        ages = np.isfinite(self.age_N).all() or np.isnan(self.true_age_N).all()
        return bool(np.isfinite(self.logits_NG).all() and ages)

    @property
    def correct_N(self) -> NDArray[np.bool_]:
        """True where the largest logit is the true group's."""
        return np.asarray(self.logits_NG.argmax(axis=1) == self.true_group_N)


@dataclass(frozen=True, kw_only=True)
class LossPredictions(Predictions):
    """What a model without classes says of N samples: a loss, read as p = exp(-loss).

    Args:
        loss_N: the losses, at least `SMALLEST_LOSS`, see `of`.
        plain_N: the loss of the same samples without the model (a plugin's: the bare base's), or
            None.
    """

    loss_N: Array
    plain_N: Array | None = None

    @classmethod
    def of(cls, loss_N: NDArray[Any], plain_N: NDArray[Any] | None = None) -> LossPredictions:
        """Predictions from losses (N,), which are held above 0."""
        loss_N = np.maximum(np.asarray(loss_N, np.float64), SMALLEST_LOSS)
        return cls(
            loss_N=loss_N, plain_N=None if plain_N is None else np.asarray(plain_N, np.float64)
        )

    @property
    def log_prob_N(self) -> Array:
        """The negative loss of each sample (N,)."""
        return -self.loss_N

    @property
    def confidence_N(self) -> Array:
        """ln(p / (1 - p)) = -loss - ln(1 - exp(-loss))."""
        return np.asarray(-self.loss_N - np.log(-np.expm1(-self.loss_N)), np.float64)

    @property
    def probability_NG(self) -> Array:
        """p and 1 - p."""
        return np.stack([np.exp(-self.loss_N), -np.expm1(-self.loss_N)], axis=1)

    @property
    def answer_N(self) -> Array:
        """The loss: there is no other answer."""
        return self.loss_N

    @property
    def error_N(self) -> Array:
        """The loss of each sample (N,)."""
        return self.loss_N

    @property
    def finite(self) -> bool:
        """Whether every loss is a number."""
        return bool(np.isfinite(self.loss_N).all())


SMALLEST_LOSS = 1e-12  # below it p would be 1 and its odds infinite


def classed(predictions: Predictions) -> ClassPredictions:
    """Predictions of a model with classes, for what reads logits or ages; `InputError` where it has
    none.
    """
    if not isinstance(predictions, ClassPredictions):
        raise InputError(
            "a model without classes", "it says no class logits", "Use what reads the loss alone"
        )
    return predictions


def summarize(predictions: Predictions, edges: Sequence[float]) -> dict[str, Any]:
    """Accuracy, mean absolute error and both per age group, JSON-ready.

    Args:
        predictions: the predictions for N samples.
        edges: G + 1 age-group borders.

    Returns:
        ``n``, ``accuracy`` (0 to 1), ``mae`` in years (None where there are no ages), ``loss`` in
        nats and ``per_group`` rows; a model without classes has ``n`` and ``loss`` alone, the
        others are None and empty. Of a model whose classes have names ``n``, ``accuracy``, ``loss``
        and ``per_class`` rows.
    """
    loss = float(-predictions.log_prob_N.mean())
    if not isinstance(predictions, ClassPredictions):
        return {
            "n": len(predictions.error_N),
            "accuracy": None,
            "mae": None,
            "loss": loss,
            "per_group": [],
        }
    if predictions.classes:
        return {
            "n": len(predictions.correct_N),
            "accuracy": float(predictions.correct_N.mean()),
            "loss": loss,
            "per_class": _class_rows(predictions),
        }
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
        "loss": loss,
        "per_group": rows,
    }


def _class_rows(predictions: ClassPredictions) -> list[dict[str, Any]]:
    groups = len(predictions.classes)
    n_G = np.bincount(predictions.true_group_N, minlength=groups)
    right_G = np.bincount(predictions.true_group_N[predictions.correct_N], minlength=groups)
    return [
        {"label": label, "n": int(n), "accuracy": float(right / n) if n else None}
        for label, n, right in zip(predictions.classes, n_G, right_G, strict=True)
    ]


def _mean_error(error_N: NDArray[np.float64]) -> float | None:
    return None if np.isnan(error_N).any() else float(error_N.mean())
