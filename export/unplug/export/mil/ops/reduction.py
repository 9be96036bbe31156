"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .arguments import Ops, ints


def _over(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An operator that takes `axes` (all where there are none) and `keep_dims`."""

    def op(x: Tensor, axes: Any = None, keep_dims: Any = False) -> Tensor:
        chosen = list(range(x.ndim)) if axes is None else ints(axes)
        return reduce(x, chosen, keepdim=bool(keep_dims))

    return op


def _argument(find: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def op(x: Tensor, axis: Any, keep_dims: Any = False) -> Tensor:
        return find(x, int(axis), keepdim=bool(keep_dims)).int()

    return op


OPS: Ops = {
    "reduce_mean": _over(lambda x, axes, keepdim: x.mean(axes, keepdim=keepdim)),
    "reduce_sum": _over(lambda x, axes, keepdim: x.sum(axes, keepdim=keepdim)),
    "reduce_max": _over(lambda x, axes, keepdim: x.amax(axes, keepdim=keepdim)),
    "reduce_min": _over(lambda x, axes, keepdim: x.amin(axes, keepdim=keepdim)),
    "reduce_sum_square": _over(lambda x, axes, keepdim: (x * x).sum(axes, keepdim=keepdim)),
    "reduce_l2_norm": _over(lambda x, axes, keepdim: (x * x).sum(axes, keepdim=keepdim).sqrt()),
    "reduce_log_sum_exp": _over(lambda x, axes, keepdim: x.logsumexp(axes, keepdim=keepdim)),
    "reduce_argmax": _argument(lambda x, axis, keepdim: x.argmax(axis, keepdim=keepdim)),
    "reduce_argmin": _argument(lambda x, axis, keepdim: x.argmin(axis, keepdim=keepdim)),
}
