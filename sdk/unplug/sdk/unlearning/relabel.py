"""Wrong labels for the forget set."""

from __future__ import annotations

import torch

from unplug.sdk.training import LabelledSet


def random_labels(data: LabelledSet, edges: tuple[float, ...], generator: torch.Generator) -> LabelledSet:
    """Each sample with a class that is not its own, all others alike; known ages become the middle of that class."""
    classes, device = len(edges) - 1, data.group_N.device
    shift_N = torch.randint(1, classes, (len(data),), generator=generator).to(device)
    return data.relabelled((data.group_N + shift_N) % classes, edges)
