"""What the weights of a network show: its last linear layer, and what that layer reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from unplug.sdk.learning.training import SampleSet, Sets

from .attack import Array, Inside


def look_inside(model: nn.Module, sets: Sets) -> Inside | None:
    """The last linear layer of a network and what it reads of the forget, test and validation set.

    None of a network without one, or where that layer does not read each sample once (one among
    attention blocks, say).

    Args:
        model: a model on the device of the sets, in any mode.
        sets: the sets of the request.
    """
    parts = (sets.forget, sets.test, sets.validation)
    head = _last(model, sets.forget)
    if head is None:
        return None
    forget, unseen, population = read = [_read(model, head, part) for part in parts]
    # A layer that runs more than once a sample gives other numbers of rows.
    if [len(rows) for rows in read] != [len(part) for part in parts] or len(
        {rows.shape[1] for rows in read}
    ) > 1:
        return None
    weight_KC = head.weight.detach().double().cpu().numpy()
    bias = head.bias
    bias_K = np.zeros(len(weight_KC)) if bias is None else bias.detach().double().cpu().numpy()
    return Inside(
        forget_FC=forget,
        unseen_UC=unseen,
        population_ZC=population,
        weight_KC=weight_KC,
        bias_K=bias_K,
    )


@torch.no_grad()
def _last(model: nn.Module, data: SampleSet) -> nn.Linear | None:
    """The linear layer that runs last, wherever it stands: over a network of others it is
    registered before theirs.
    """
    ran: list[nn.Linear] = []
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    handles = [layer.register_forward_pre_hook(lambda at, _: ran.append(at)) for layer in layers]
    was_training = model.training
    try:
        model.eval()
        model(*next(iter(data.in_order(1))).inputs)
    finally:
        for handle in handles:
            handle.remove()
        model.train(was_training)
    return ran[-1] if ran else None


@torch.no_grad()
def _read(model: nn.Module, layer: nn.Linear, data: SampleSet) -> Array:
    """What a layer is given of every sample (N, C); the network's mode is put back afterwards."""
    rows: list[Array] = []

    def keep(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        # A pooled feature map may still be (B, C, 1, 1); on the CPU in float64, as attacks compute.
        rows.append(inputs[0].detach().flatten(1).double().cpu().numpy())

    was_training = model.training
    handle = layer.register_forward_pre_hook(keep)
    try:
        model.eval()
        for batch in data.in_order(data.eval_batch):
            model(*batch.inputs)
    finally:
        handle.remove()
        model.train(was_training)
    return np.concatenate(rows) if rows else np.empty((0, 0))
