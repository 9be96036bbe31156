"""A UNet whose low-rank updates are an input of it, so that one exported file serves every variant
of a base.

Shapes: R rank of the slots, K numbers of one rank-one update of all layers together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unplug.core import IOSpec, TensorSpec

from .base_parts import GuidedUNet

LORA_RANK = 16
"""R of every exported file: LoRA weights of a lower rank leave rows of zeros."""
LORA_LAYERS = (
    "to_q",
    "to_k",
    "to_v",
    "to_out.0",
    "proj_in",
    "proj_out",
    "ff.net.0.proj",
    "ff.net.2",
    "conv1",
    "conv2",
    "conv_shortcut",
)
"""The layers of a UNet that have slots: attention, its projections, and the convolutions of
its blocks.
"""
LORA_INPUT = "lora"


@dataclass(frozen=True, kw_only=True)
class LoraSlot:
    """One layer that an update can change.

    Args:
        layer: its name in the UNet.
        fan_in: numbers of the update's first factor; of a convolution its kernels' channels times
            their area.
        fan_out: numbers of its second factor.
    """

    layer: str
    fan_in: int
    fan_out: int


def slots_of(unet: nn.Module) -> tuple[LoraSlot, ...]:
    """The layers with slots, in the UNet's order.

    In each row of the input `LORA_INPUT` a slot has its first factor's numbers, row by row of the
    kernel, and its second factor's after them; the next slot follows.
    """
    return tuple(
        LoraSlot(layer=name, fan_in=layer.weight[0].numel(), fan_out=layer.weight.shape[0])
        for name, layer in unet.named_modules()
        if isinstance(layer, nn.Linear | nn.Conv2d)
        and any(name.endswith(f".{kind}") for kind in LORA_LAYERS)
    )


class SlottedUNet(nn.Module):
    """A `GuidedUNet` with one more input: W' = W + sum_r b_r a_r^T in every layer that has a slot;
    zeros change nothing.

    Row r of `LORA_INPUT` (1, R, K) is one update of rank one of all layers. Several LoRAs stand in
    rows below each other, each with its strength multiplied in.

    Args:
        config: see `BaseUNet`.

    Raises:
        InputError: see `BaseUNet`.

    Reference:
        Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021, section 4.1.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.guided = GuidedUNet(**config)
        self.slots = slots_of(self.guided.unet)

    complete_config = staticmethod(GuidedUNet.complete_config)

    def rename_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Gives the tensors of a UNet's file the names that they have in here."""
        for name in list(tensors):
            tensors[f"guided.unet.{name}"] = tensors.pop(name)

    def forward(
        self, z_BCHW: Tensor, t_B: Tensor, text_BTD: Tensor, negative_BTD: Tensor, *rest: Tensor
    ) -> tuple[Tensor, ...]:
        """See `GuidedUNet.forward`; the last of `rest`, after the residuals, holds the updates (1,
        R, K).
        """
        *residuals, lora_1RK = rest
        lora_RK = lora_1RK[0]
        changed, start = dict[str, Tensor](), 0
        for slot in self.slots:
            # in a row: the slot's first factor, then its second
            middle, end = start + slot.fan_in, start + slot.fan_in + slot.fan_out
            weight = self.guided.unet.get_parameter(f"{slot.layer}.weight")
            update = torch.matmul(lora_RK[:, middle:end].transpose(0, 1), lora_RK[:, start:middle])
            # As matrices: LiteRT's converter takes a sum of four axes for pictures, and turns the
            # kernels' axes around.
            changed[f"unet.{slot.layer}.weight"] = (weight.flatten(1) + update).reshape(
                weight.shape
            )
            start = end
        predicted: tuple[Tensor, ...] = functional_call(
            self.guided, changed, (z_BCHW, t_B, text_BTD, negative_BTD, *residuals)
        )
        return predicted

    @property
    def iospec(self) -> IOSpec:
        """The named tensors of a `GuidedUNet`, and the updates after them."""
        guided = self.guided.iospec
        width = sum(slot.fan_in + slot.fan_out for slot in self.slots)
        lora = TensorSpec(
            name=LORA_INPUT,
            shape=(1, LORA_RANK, width),
            layout="NTC",
            description="Low-rank updates; zeros are the bare base",
        )
        return IOSpec(inputs=(*guided.inputs, lora), outputs=guided.outputs)
