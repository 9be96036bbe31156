"""What tasks have in common whose models answer with one logit a group or class.

Shapes: B batch, G groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from unplug.sdk.learning.training import (
    Fit,
    LabelledBatch,
    SampleSet,
    StateFile,
    Task,
    fit_new,
)


@dataclass(frozen=True, kw_only=True)
class GroupTask(Task):
    """p(y | x) = softmax(z)_y, with z the model's named output."""

    @property
    def ignorance(self) -> float:
        """ln G: a uniform guess."""
        return math.log(len(self.edges) - 1)

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
        """Trains a new model in the recipe's epochs."""
        return fit_new(self, train, validation, seed=seed, state=state, show=show, label=label)

    def log_prob(self, outputs: Mapping[str, Tensor], batch: LabelledBatch) -> Tensor:
        """log softmax(z)_y of the true group (B,)."""
        return self.logits(outputs).log_softmax(dim=1).gather(1, batch.group_B[:, None])[:, 0]

    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Logits of the groups (B, G) in float32."""
        return outputs[self.output].float()
