"""How many models fit on a device at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import SampleSet, autocast

CPU_WIDTH = 8
"""Stacks on a CPU gain by sharing the cost of each call; beyond this they only leave its caches."""

GPU_WIDTH = 64
"""More models at once fill no GPU better, and lose more when a run is killed."""

WEIGHT_COPIES = 6
"""Weights, gradients, two moments of AdamW, the average, and the model itself, whose weights are
stacked.
"""

ACTIVATION_COPIES = 3
"""A layer's output is kept for the backward pass, mostly once more as a norm's input, and its
gradient comes beside it.
"""

SHARE = 0.7
"""Of the free memory: the allocator's blocks and the convolutions' workspaces take the rest."""


def stack_width(model: nn.Module | None, data: SampleSet, batch_size: int) -> int:
    """Models at once: on a GPU as many as its free memory holds by the estimate of `model_bytes`,
    up to 64; on a CPU 8.
    """
    device = data.device
    if model is None or device.type != "cuda":
        return CPU_WIDTH
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, min(GPU_WIDTH, int(SHARE * free / model_bytes(model, data, batch_size))))


@torch.no_grad()
def model_bytes(model: nn.Module, data: SampleSet, batch_size: int) -> int:
    """Memory that one more model takes in training: copies of its weights, and of its layers'
    outputs on one batch.
    """
    sizes: list[int] = []

    def note(_module: nn.Module, _inputs: object, output: object) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.numel() * output.element_size())

    leaves = [module for module in model.modules() if next(module.children(), None) is None]
    handles = [module.register_forward_hook(note) for module in leaves]
    was_training = model.training
    device = data.device
    try:
        with autocast(device):
            model.eval()(*data.batch(torch.zeros(1, dtype=torch.long, device=device)).inputs)
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return WEIGHT_COPIES * weights + ACTIVATION_COPIES * batch_size * sum(sizes)
