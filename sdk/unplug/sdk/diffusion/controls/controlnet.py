"""ControlNet (Zhang et al., 2023): a trained copy of the encoder, at every step of sampling."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from ..control import parts_of
from ..small import diffusers


class ControlNetControl:
    """diffusers' ``ControlNetModel``, started from the base's encoder."""

    label: ClassVar[str] = "ControlNet"
    scale: ClassVar[str] = "controlnet_conditioning_scale"
    every_step: ClassVar[bool] = True

    def build(self, unet: Any, *, condition: str, image_size: int) -> nn.Module:
        """The encoder's weights with zero convolutions behind."""
        network: nn.Module = diffusers().ControlNetModel.from_unet(unet)
        return network.requires_grad_(True).train()

    def residuals(
        self, network: nn.Module, noisy_Bchw: Tensor, step_B: Tensor, text_BLD: Tensor, condition_BCHW: Tensor
    ) -> dict[str, Any]:
        """One tensor a skip connection, and one in the middle."""
        down, middle = network(noisy_Bchw, step_B, text_BLD, condition_BCHW, return_dict=False)
        return {"down_block_additional_residuals": down, "mid_block_additional_residual": middle}

    def pipeline(self, base: Any, network: Any) -> Any:
        """``StableDiffusionControlNetPipeline``."""
        return diffusers().StableDiffusionControlNetPipeline(controlnet=network, **parts_of(base))
