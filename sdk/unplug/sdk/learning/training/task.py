"""What differs between kinds of model while they are trained, forgotten with and measured.

Shapes: B batch, G classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from .recipe import Recipe
from .samples import SampleSet
from .state import StateFile


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A finished training.

    Args:
        model: the averaged weights, in eval mode.
        history: one row an epoch, as in ``metrics.jsonl``.
        passes: training samples seen, each forward and backward.
        wall_s: seconds over all parts of the run, also of those before a kill.
    """

    model: nn.Module
    history: tuple[dict[str, Any], ...]
    passes: int
    wall_s: float


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """One kind of model: how it is built and trained, its loss, and what methods and attacks read
    off its outputs.

    Its samples are a `SampleSet` and a `Batch` of its own. `unplug.sdk.forgetting.tasks.StoredTask`
    adds what the command line asks of models that are saved.

    Args:
        recipe: how its models are trained.
        edges: G + 1 borders of the classes; for labels without an order 0, 1, ..., G.

    Attributes:
        output: name of the model's output that holds the class logits, or the loss where there are
            no classes.
    """

    recipe: Recipe
    edges: tuple[float, ...]

    output: ClassVar[str]

    @property
    @abstractmethod
    def ignorance(self) -> float:
        """-log p of a model that knows nothing: ln G for G classes."""

    @abstractmethod
    def build(self, train: SampleSet) -> nn.Module:
        """A new model with random weights (drawn from torch's global generator) for this training
        data.
        """

    @abstractmethod
    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        """Counts again, without the forget set, what the model keeps of its training data besides
        its weights.
        """

    @abstractmethod
    def fit(
        self,
        train: SampleSet,
        validation: SampleSet,
        *,
        seed: int,
        state: StateFile | None,
        show: bool,
        label: str,
    ) -> Fit:
        """Trains a model from scratch; `fit_new` does so by epochs."""

    @abstractmethod
    def loss(self, model: nn.Module, outputs: Mapping[str, Tensor], batch: Any) -> Tensor:
        """Training loss (B,) of what `model` said of a batch; most tasks need the outputs alone."""

    @abstractmethod
    def log_prob(self, outputs: Mapping[str, Tensor], batch: Any) -> Tensor:
        """log p(truth) of each sample (B,), in nats."""

    @abstractmethod
    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Class logits (B, G) in float32; `InputError` where there are none."""


def finite(value: Tensor) -> bool:
    """True where every element is a number."""
    return bool(torch.isfinite(value).all())
