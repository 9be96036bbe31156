"""Modules that give a model's outputs the form that a converter keeps names from.

Imported in child processes only: it needs torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import TensorSpec

from .base import TargetSource


class Positional(nn.Module):
    """Takes the inputs by position and returns the outputs as a tuple, both in IOSpec order."""

    def __init__(self, source: TargetSource) -> None:
        super().__init__()
        self.model, self.iospec = source.model, source.iospec
        self.eval()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.iospec.name_outputs(self.model(*inputs)).values())


class ByName(nn.Module):
    """Takes the inputs by keyword and returns the outputs by name, in IOSpec order."""

    def __init__(self, source: TargetSource) -> None:
        super().__init__()
        self.model, self.iospec = source.model, source.iospec
        self.eval()

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        return self.iospec.name_outputs(
            self.model(*(inputs[tensor.name] for tensor in self.iospec.inputs))
        )


class ChannelsLast(nn.Module):
    """A model whose images come and go with their channels in the last axis."""

    def __init__(self, source: TargetSource) -> None:
        super().__init__()
        self.model, self.iospec = source.model, source.iospec
        self.eval()

    def forward(self, *inputs: Tensor) -> dict[str, Tensor]:
        given = [
            value.permute(0, 3, 1, 2) if item.layout == "NCHW" else value
            for item, value in zip(self.iospec.inputs, inputs, strict=True)
        ]
        made = self.iospec.name_outputs(self.model(*given))
        return {
            item.name: made[item.name].permute(0, 2, 3, 1)
            if item.layout == "NCHW"
            else made[item.name]
            for item in self.iospec.outputs
        }


def channels_last(source: TargetSource) -> TargetSource:
    """The model with NHWC images."""
    return replace(source, model=ChannelsLast(source), iospec=source.iospec.images_in("NHWC"))


def example(tensor: TensorSpec) -> Tensor:
    """A tensor of the right shape and type to trace with; converters look at nothing else."""
    dtype: Any = getattr(torch, tensor.dtype)
    return torch.zeros(tensor.shape, dtype=dtype)


def examples(source: TargetSource) -> tuple[Tensor, ...]:
    """One example an input, in IOSpec order."""
    return tuple(example(tensor) for tensor in source.iospec.inputs)
