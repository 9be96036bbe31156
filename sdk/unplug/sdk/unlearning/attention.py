"""Where a network looks: the attention maps that one model may be held to another's with.

Shapes: B batch, C channels, H = W side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.nn.functional as F
from torch import Tensor, nn

from .anatomy import convolutions


def attention_difference(x_BCHW: Tensor, y_BCHW: Tensor) -> Tensor:
    """Mean squared difference of two attention maps."""
    return F.mse_loss(attention_map(x_BCHW), attention_map(y_BCHW))


def attention_map(x_BCHW: Tensor) -> Tensor:
    """mean_c x^2, flat and of length one: (B, H W)."""
    return F.normalize(x_BCHW.float().square().mean(dim=1).flatten(1), dim=1)


@contextmanager
def last_features(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collects what the last convolution gives (B, C, H, W) in each forward pass while the context is open."""
    seen: list[Tensor] = []
    *_, (_, last) = convolutions(model)
    handle = last.register_forward_hook(lambda _, __, output: seen.append(output))
    try:
        yield seen
    finally:
        handle.remove()
