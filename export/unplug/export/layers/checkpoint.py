"""Tensors of a checkpoint: what each module gives, in the order in which they end, and then the outputs by name.

Batch norms are folded into the convolutions first, as every converter does: what stands between them is in no file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unplug.core import IOSpec

from ..quantize.correct import folded
from .base import Traced


def open_model(model: nn.Module, iospec: IOSpec) -> Callable[[tuple[Tensor, ...]], list[Traced]]:
    """What runs a model on one sample and keeps what its modules gave; of a module that only hands on, the one inside.

    Args:
        model: it is copied, and stays as it is.
        iospec: names its outputs.

    Returns:
        From inputs in the order of the forward, one sample of each, to tensors.
    """
    twin, found = folded(model), list[Traced]()

    def note(name: str) -> Any:
        def hook(layer: nn.Module, _given: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not (found and np.array_equal(found[-1].value, output.numpy())):
                found.append(Traced(name=name, kind=type(layer).__name__, value=output.numpy().copy()))

        return hook

    for name, module in twin.named_modules():
        if name:
            module.register_forward_hook(note(name))

    def trace(inputs: tuple[Tensor, ...]) -> list[Traced]:
        found.clear()
        with torch.inference_mode():
            outputs = iospec.name_outputs(twin(*inputs))
        ends = [Traced(name=name, kind="output", value=value.numpy()) for name, value in outputs.items()]
        return [item for item in found if not any(np.array_equal(item.value, end.value) for end in ends)] + ends

    return trace
