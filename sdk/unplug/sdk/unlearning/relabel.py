"""Wrong labels for the forget set."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch

from unplug.sdk.training import TensorSet


def random_labels(data: TensorSet, edges: tuple[float, ...], generator: torch.Generator) -> TensorSet:
    """Each sample with a class that is not its own, all others alike; known ages become the middle of that class."""
    classes, device = len(edges) - 1, data.group_N.device
    shift_N = torch.randint(1, classes, (len(data),), generator=generator).to(device)
    group_N = (data.group_N + shift_N) % classes
    middle_G = torch.tensor([(low + high) / 2 for low, high in itertools.pairwise(edges)], device=device)
    age_N = torch.where(torch.isnan(data.age_N), data.age_N, middle_G[group_N].to(data.age_N.dtype))
    return replace(data, group_N=group_N, age_N=age_N)
