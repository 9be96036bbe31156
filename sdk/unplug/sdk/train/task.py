"""What differs between model types: the loss of a sample and the measure of its use.

Shapes: B batch, G age groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .tensors import Batch

Loss = Literal["ce", "ce+l1", "ordinal"]
LOSSES: tuple[Loss, ...] = ("ce", "ce+l1", "ordinal")
AGE_SCALE = 10.0  # years that weigh as much as one nat of cross entropy


class Task(Protocol):
    """Per-sample training loss, and the per-sample log-probability that attacks read."""

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """Training loss (B,)."""

    def log_prob(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """log p(true label) (B,)."""


@dataclass(frozen=True, kw_only=True)
class AgeTask:
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

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """Training loss (B,)."""
        logits_BG = outputs["age_logits"].float()
        if self.loss_name == "ordinal":
            distance_BG = (self.centers - batch.age_B[:, None]) / self.width
            target_BG = (-0.5 * distance_BG.square()).softmax(dim=1)
            entropy_B = -(target_BG * logits_BG.log_softmax(dim=1)).sum(dim=1)
        else:
            entropy_B = F.cross_entropy(logits_BG, batch.group_B, reduction="none", label_smoothing=self.smoothing)
        if self.loss_name == "ce":
            return entropy_B
        return entropy_B + (outputs["expected_age"][:, 0].float() - batch.age_B).abs() / AGE_SCALE

    def log_prob(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """log p(true age group) (B,)."""
        log_BG = outputs["age_logits"].float().log_softmax(dim=1)
        return log_BG.gather(1, batch.group_B[:, None])[:, 0]


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
