"""Counting the arithmetic of a model. Imported in child processes and only where torch is."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count


def _attention(query: torch.Size, key: torch.Size, value: torch.Size, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def flop_counter() -> FlopCounterMode:
    """PyTorch's counter of convolutions and matrix products, fused attention on CPUs included,
    which PyTorch's own leaves out.

    Example:
        >>> x = torch.zeros(1, 2, 3, 4)
        >>> with flop_counter() as counter:
        ...     _ = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        >>> counter.get_total_flops() == 2 * (2 * 3 * 3 * 4) + 2 * (2 * 3 * 3 * 4)
        True
    """
    mapping = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}
    return FlopCounterMode(display=False, custom_mapping=mapping)
