"""What a network gives in half precision, on any machine: CPUs widen float16 to float32 before they
compute with it.

So a file of half precision can pass there and overflow on the phone that it is for. Imported in
child processes only: it needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .watching import watched

LARGEST = float(torch.finfo(torch.float16).max)
NORMS = ("native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
"""Every converter folds these into the convolution in front of them, whose own output is then in no
file.
"""
DIVIDES = (
    "gives infinity or NaN: it divides by what float16 rounds to 0, as it does an epsilon of 1e-12"
)
TAKEN_APART = ("var", "std", "var_mean", "std_mean")
"""Converters write these as squares and means."""


class Halves:
    """A model whose operators compute in float32 and whose tensors are float16, as
    `unplug.export.mil` reads Core ML files.

    Args:
        model: a float32 model in eval mode; it is not changed.

    Example:
        >>> class Square(nn.Module):
        ...     def forward(self, x):
        ...         return (x * x).sqrt()
        >>> halves = Halves(Square())
        >>> halves([torch.tensor([300.0])]), halves.trouble
        (tensor([inf]), 'operator mul in the model reaches 9e+04, and float16 ends at 65,504')
    """

    trouble: str | None
    """What the first operator did that made infinity or NaN of numbers that fit, or None."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.trouble = model, None
        self._kernels = {item.data_ptr() for item in model.parameters() if item.ndim > 1}
        self._unfolded: dict[int, tuple[Tensor, str]] = {}

    def __call__(self, inputs: Sequence[Tensor]) -> Any:
        """The outputs of one batch."""
        made = watched(self.model, [_half(tensor) for tensor in inputs], self._see)
        for tensor, path in self._unfolded.values():
            self._round(tensor, path, "convolution", ())
        self._unfolded.clear()
        return made

    def _see(self, path: str, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        name = func.overloadpacket.__name__
        for given in _flat(args):
            if (
                isinstance(given, Tensor)
                and (waiting := self._unfolded.pop(id(given), None))
                and name not in NORMS
            ):
                self._round(*waiting, "convolution", ())
        if name in TAKEN_APART:
            return self._variance(path, name, *args, **kwargs)
        args = tuple(
            _half(arg) if isinstance(arg, Tensor) and arg.data_ptr() in self._kernels else arg
            for arg in args
        )
        made = func(*args, **kwargs)
        for result in () if func.is_view else _flat([made]):
            if not isinstance(result, Tensor) or result.dtype != torch.float32:
                continue
            if name == "convolution":
                self._unfolded[id(result)] = result, path
            else:
                # An operator that writes into its argument gives that argument back.
                given = [value for value in _flat(args) if value is not result]
                self._round(result, path, name, given)
        return made

    def _variance(
        self,
        path: str,
        name: str,
        x: Tensor,
        dim: Any = None,
        *,
        correction: float | None = None,
        keepdim: bool = False,
    ) -> Any:
        mean = self._round(x.mean(dim, keepdim=True), path, name, ())
        squares = self._round((x - mean).square(), path, name, ())
        count = x.numel() / mean.numel() - (1 if correction is None else correction)
        variance = self._round(squares.sum(dim, keepdim=keepdim) / count, path, name, ())
        if name.startswith("std"):
            variance = _half(variance.sqrt())
        return (variance, mean.reshape(variance.shape)) if name.endswith("_mean") else variance

    def _round(self, item: Tensor, path: str, name: str, given: Iterable[Any]) -> Tensor:
        """Rounds a tensor in place: operators that write into their argument have to do so here
        too.
        """
        rounded = _half(item)
        if self.trouble is None and not rounded.isfinite().all() and all(map(_fits, given)):
            peak = float(item.abs().max())
            gives = (
                f"reaches {peak:.3g}, and float16 ends at {LARGEST:,.0f}"
                if math.isfinite(peak)
                else DIVIDES
            )
            self.trouble = f"operator {name} in {path} {gives}"
        return item.copy_(rounded)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list | tuple) else (value,)


def _half(item: Tensor) -> Tensor:
    return item.half().float() if item.dtype == torch.float32 else item


def _fits(given: Any) -> bool:
    """Whether an argument is a number of float16, or none: an infinite mask, for one, is meant."""
    if isinstance(given, Tensor):
        return not given.is_floating_point() or bool((given.abs() <= LARGEST).all())
    return not isinstance(given, float) or abs(given) <= LARGEST
