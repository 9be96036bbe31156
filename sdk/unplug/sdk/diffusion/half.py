"""Weights that are numbers, also in the float16 in which they are stored."""

from __future__ import annotations

import torch
from torch import nn

from unplug.core import TrainingError

LOWER = "Lower --lr or check the data"


def check_finite(model: nn.Module, when: str) -> None:
    """A step's loss was taken before its update, which can still break the weights."""
    for name, value in model.state_dict().items():
        if not bool(value.isfinite().all()):
            raise TrainingError("training", f"the weights {name} are NaN or infinite {when}", LOWER)


@torch.no_grad()
def round_to_half(model: nn.Module) -> None:
    """Rounds weights to what float16 holds; they stay float32.

    Raises:
        TrainingError: one of them is beyond float16.
    """
    for value in model.state_dict().values():
        if value.is_floating_point():
            value.copy_(value.half())
    check_finite(model, "in float16")
