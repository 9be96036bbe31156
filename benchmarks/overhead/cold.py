"""Clones and additions of residuals, measured by themselves with cold caches, or on a CPU where
they happen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.overhead.parts import Adapter, add, clones


class Clocked(Tensor):
    """A residual that adds up how long the UNet's additions with it take; for a CPU, where an
    operation ends when it returns.

    The result is a plain tensor, so that nothing but the addition is timed.
    """

    spent = 0.0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            start = time.perf_counter()
            result = func(*args, **(kwargs or {}))
            Clocked.spent += time.perf_counter() - start
        return result


class InSitu:
    """An adapter whose clones and additions are timed where they happen."""

    def __init__(self, adapter: Adapter) -> None:
        self.network: nn.Module | None = adapter.network
        self._adapter = adapter
        self.clone_s = 0.0

    def once(self, condition_1CHW: Tensor, guidance: bool) -> list[Tensor]:
        """What the adapter computes once a picture, untimed."""
        return self._adapter.once(condition_1CHW, guidance)

    def each_step(
        self, state: list[Tensor], latents_BCHW: Tensor, t: Tensor, text_BTC: Tensor
    ) -> dict[str, Any]:
        """The adapter's, timed; the residuals go on to time their additions."""
        start = time.perf_counter()
        given = self._adapter.each_step(state, latents_BCHW, t, text_BTC)
        self.clone_s = time.perf_counter() - start
        Clocked.spent = 0.0
        return {
            name: [residual.as_subclass(Clocked) for residual in residuals]
            for name, residuals in given.items()
        }


class Cold:
    """Memory that pushes everything else out of the caches, and residuals too many to stay in them.

    Args:
        shapes_L: of the residuals of one image, with the batch doubled.
        total: bytes to reach with copies; twice that is allocated, and once more to overwrite
            caches.
    """

    def __init__(
        self, shapes_L: Sequence[torch.Size], total: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        one = sum(math.prod(shape) for shape in shapes_L) * dtype.itemsize
        self.copies = math.ceil(total / one)
        draw = torch.Generator(device).manual_seed(1)

        def tensors() -> list[Tensor]:
            return [
                torch.empty(shape, device=device, dtype=dtype).uniform_(-1, 1, generator=draw)
                for shape in shapes_L
            ]

        residuals, hidden = ([tensors() for _ in range(self.copies)] for _ in range(2))
        self._residuals, self._hidden = (
            {batch: [[tensor[:batch] for tensor in copy] for copy in copies] for batch in (1, 2)}
            for copies in (residuals, hidden)
        )
        self._sweep = torch.zeros(total, dtype=torch.uint8, device=device)

    def sweep(self) -> None:
        """Writes over what the caches hold."""
        self._sweep.add_(1)

    def clone(self, batch: int) -> None:
        """Clones the residuals of every copy, for a batch of 1 or 2."""
        for residual_L in self._residuals[batch]:
            clones(residual_L)

    def add(self, batch: int, in_place_L: Sequence[bool]) -> None:
        """Adds the residuals of every copy to tensors of their shapes."""
        for hidden_L, residual_L in zip(self._hidden[batch], self._residuals[batch], strict=True):
            add(hidden_L, residual_L, in_place_L)
