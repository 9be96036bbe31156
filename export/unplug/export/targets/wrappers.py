"""Modules that give a model's outputs the form that a converter keeps names from.

Imported in child processes only: it needs torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unplug.plugins.iospec import TensorSpec

from .base import Source


class Positional(nn.Module):
    """Takes the inputs by position and returns the outputs as a tuple, both in IOSpec order."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.model, self.iospec = source.model, source.iospec
        self.eval()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.iospec.name_outputs(self.model(*inputs)).values())


class ByName(nn.Module):
    """Takes the inputs by keyword and returns the outputs by name, in IOSpec order."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.model, self.iospec = source.model, source.iospec
        self.eval()

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        return self.iospec.name_outputs(self.model(*(inputs[tensor.name] for tensor in self.iospec.inputs)))


def example(tensor: TensorSpec) -> Tensor:
    """A tensor of the right shape and type to trace with; converters look at nothing else."""
    dtype: Any = getattr(torch, tensor.dtype)
    return torch.zeros(tensor.shape, dtype=dtype)


def examples(source: Source) -> tuple[Tensor, ...]:
    """One example an input, in IOSpec order."""
    return tuple(example(tensor) for tensor in source.iospec.inputs)
