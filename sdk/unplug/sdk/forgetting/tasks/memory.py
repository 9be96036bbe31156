"""What one pass of a model holds in memory, measured on two small batches.

Shapes: B batch, C channels, H = W side in pixels.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import EVAL_BATCH, autocast

FLOAT = 4
PROBES = (2, 4)


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What one pass of a model holds: fixed parts, and parts that grow with each sample.

    Args:
        weights: parameters and buffers.
        trainable: parameters alone.
        fixed: saved for the backward pass whatever the batch (weights cast to another type).
        per_sample: saved for the backward pass by each sample.
        widest: the largest single tensor of `per_sample`.
        image: one float image.
        measured_at: samples that it is measured on at once.
    """

    weights: int
    trainable: int
    fixed: int
    per_sample: int
    widest: int
    image: int
    measured_at: int = EVAL_BATCH


def footprint(model: nn.Module, image_size: int, device: torch.device) -> Footprint:
    """Measures a model by two small training passes of a copy: every tensor that autograd saves is
    counted once.

    Args:
        model: left as it is.
        image_size: side in pixels.
        device: the device that will run the step, in the precision it will use there.
    """

    def images(count: int) -> tuple[Tensor, ...]:
        zeros_BCHW = torch.zeros(count, 3, image_size, image_size, device=device)
        return (zeros_BCHW.to(memory_format=torch.channels_last),)

    return footprint_of(model, images, FLOAT * 3 * image_size**2, device)


def footprint_of(
    model: nn.Module,
    example: Callable[[int], tuple[Tensor, ...]],
    sample: int,
    device: torch.device,
    *,
    frozen: nn.Module | None = None,
    measured_at: int = EVAL_BATCH,
) -> Footprint:
    """`footprint` of a model that takes something else than images.

    Args:
        model: left as it is.
        example: count to the inputs of that many samples, on the device.
        sample: bytes of one sample's input.
        device: the device that will run the step.
        frozen: a network that the model computes with and that is on the device already: its
            weights are saved for the backward pass, and take no more memory by it.
        measured_at: see `Footprint`.
    """
    probe = copy.deepcopy(model).to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    there = [*probe.parameters(), *(() if frozen is None else frozen.parameters())]
    few, many = (_saved(probe, example(count), device, there) for count in PROBES)
    extra = PROBES[1] - PROBES[0]
    # a straight line through two sizes: what is left at none is fixed
    per_sample = (sum(many) - sum(few)) / extra
    return Footprint(
        weights=_size(*probe.parameters(), *probe.buffers()),
        trainable=_size(*probe.parameters()),
        fixed=max(0, round(sum(few) - PROBES[0] * per_sample)),
        per_sample=round(per_sample),
        widest=round(max(many) / PROBES[1]),
        image=sample,
        measured_at=measured_at,
    )


def image_bytes(image_size: int, samples: int) -> int:
    """Bytes of samples resident on the device: pixels, age, group."""
    return samples * (3 * image_size**2 + FLOAT + 8)


def _saved(
    probe: nn.Module, example: tuple[Tensor, ...], device: torch.device, there: Sequence[Tensor]
) -> list[int]:
    """Bytes of each storage that a training pass keeps for its backward pass, those that are
    `there` anyway left out.
    """
    known = {parameter.untyped_storage().data_ptr() for parameter in there}
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with (
        torch.enable_grad(),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        autocast(device),
    ):
        outputs = probe(*example)  # alive until the sizes are read: no address is used twice
    assert outputs
    return list(sizes.values())


def _size(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
