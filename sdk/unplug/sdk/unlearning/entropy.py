"""How undecided outputs are.

Shapes: B batch, G classes.
"""

from __future__ import annotations

import math

from torch import Tensor


def entropy(z_BG: Tensor) -> Tensor:
    """H = -sum_g p_g ln p_g (B,), p = softmax(z).

    Example:
        >>> import torch
        >>> entropy(torch.tensor([[0.0, 0.0], [0.0, 99.0]])).round(decimals=4)
        tensor([0.6931, 0.0000])
    """
    log_BG = z_BG.log_softmax(dim=1)
    return -(log_BG.exp() * log_BG).sum(dim=1)


def not_uniform(z_BG: Tensor) -> Tensor:
    """mean KL(softmax(z) || uniform) = ln G - mean H."""
    return math.log(z_BG.shape[1]) - entropy(z_BG).mean()
