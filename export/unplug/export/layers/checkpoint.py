"""Tensors of a checkpoint: what each module gives, in the order in which they end, and then the outputs by name.

Batch norms are folded into the convolutions first, as every converter does: what stands between them is in no file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unplug.plugins.iospec import IOSpec

from ..quantize.correct import folded
from .base import Traced


def trace_model(model: nn.Module, iospec: IOSpec, inputs: tuple[Tensor, ...]) -> list[Traced]:
    """Runs a model once and keeps what its modules gave; of a module that only hands on, the one inside.

    Args:
        model: in eval mode.
        iospec: names its outputs.
        inputs: one sample.
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
    with torch.inference_mode():
        outputs = iospec.name_outputs(twin(*inputs))
    ends = [Traced(name=name, kind="output", value=value.numpy()) for name, value in outputs.items()]
    inner = [item for item in found if not any(np.array_equal(item.value, end.value) for end in ends)]
    return inner + ends
