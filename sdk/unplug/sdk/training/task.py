"""What differs between model types: the loss of a sample and the measure of its use.

Shapes: B batch, G age groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .images import ImageBatch
from .recipe import Loss
from .samples import LabelledBatch

AGE_SCALE = 10.0  # years that weigh as much as one nat of cross entropy


class Task(Protocol):
    """Per-sample training loss, and the logits and labels that methods and attacks read.

    Attributes:
        output: name of the model's output that holds the logits.
    """

    @property
    def output(self) -> str: ...

    def loss(self, outputs: Mapping[str, Tensor], batch: Any) -> Tensor:
        """Training loss (B,)."""

    def log_prob(self, outputs: Mapping[str, Tensor], batch: Any) -> Tensor:
        """log p(true label) (B,)."""

    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """(B, G) in float32."""

    def ignorance(self, classes: int) -> float:
        """-log p of a model that knows nothing."""


class _Labels:
    """What tasks with G classes share."""

    output: ClassVar[str]

    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """(B, G) in float32."""
        return outputs[self.output].float()

    def log_prob(self, outputs: Mapping[str, Tensor], batch: LabelledBatch) -> Tensor:
        """log p(true class) (B,)."""
        return self.logits(outputs).log_softmax(dim=1).gather(1, batch.group_B[:, None])[:, 0]

    def ignorance(self, classes: int) -> float:
        """ln G: a uniform guess."""
        return math.log(classes)


@dataclass(frozen=True, kw_only=True)
class ClassTask(_Labels):
    """L = CE(z, y), for labels without an order.

    Args:
        smoothing: label smoothing, 0 to 0.5.
    """

    smoothing: float = 0.0

    output: ClassVar[str] = "logits"

    def loss(self, outputs: Mapping[str, Tensor], batch: LabelledBatch) -> Tensor:
        """Training loss (B,)."""
        return F.cross_entropy(self.logits(outputs), batch.group_B, reduction="none", label_smoothing=self.smoothing)


@dataclass(frozen=True, kw_only=True)
class AgeTask(_Labels):
    """Age groups by cross entropy, years by the expectation.

    ce:       L = CE(z, q)                                with q the one-hot group, smoothed by `smoothing`
    ce+l1:    L = CE(z, q) + |E[age] - age| / 10
    ordinal:  L = CE(z, t) + |E[age] - age| / 10          with t_g proportional to exp(-(c_g - age)^2 / 2 width^2)

    Args:
        loss_name: one of `LOSSES`.
        centers: (G,) ages in years of the groups.
        smoothing: label smoothing of ce and ce+l1, 0 to 0.5.
        width: of the soft targets in years.

    Reference:
        Gao et al., Deep Label Distribution Learning with Label Ambiguity, 2017, section 3 (soft age targets).
    """

    centers: Tensor
    loss_name: Loss = "ordinal"
    smoothing: float = 0.0
    width: float = 4.0

    output: ClassVar[str] = "age_logits"

    def loss(self, outputs: Mapping[str, Tensor], batch: ImageBatch) -> Tensor:
        """Training loss (B,)."""
        logits_BG = self.logits(outputs)
        if self.loss_name == "ordinal":
            distance_BG = (self.centers - batch.age_B[:, None]) / self.width
            target_BG = (-0.5 * distance_BG.square()).softmax(dim=1)
            entropy_B = -(target_BG * logits_BG.log_softmax(dim=1)).sum(dim=1)
        else:
            entropy_B = F.cross_entropy(logits_BG, batch.group_B, reduction="none", label_smoothing=self.smoothing)
        if self.loss_name == "ce":
            return entropy_B
        return entropy_B + (outputs["expected_age"][:, 0].float() - batch.age_B).abs() / AGE_SCALE


def group_centers(age_N: Tensor, group_N: Tensor, edges: tuple[float, ...]) -> tuple[float, ...]:
    """Mean training age of each group in years; the middle of the group where no sample falls into it."""
    centers = []
    for group, (low, high) in enumerate(itertools.pairwise(edges)):
        ages = age_N[group_N == group]
        centers.append(float(ages.double().mean()) if len(ages) else (low + high) / 2)
    return tuple(round(center, 4) for center in centers)


def finite(value: Tensor) -> bool:
    """True where every element is a number."""
    return bool(torch.isfinite(value).all())
