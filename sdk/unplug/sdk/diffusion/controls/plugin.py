"""Our conditioning plugin: once a picture, residuals inside the encoder's blocks."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from unplug.plugins.conditioning import ConditioningPlugin

from ..control import parts_of
from ..small import diffusers


class PluginControl:
    """`ConditioningPlugin` in diffusers' own adapter pipeline."""

    label: ClassVar[str] = "plugin"
    scale: ClassVar[str] = "adapter_conditioning_scale"
    every_step: ClassVar[bool] = False

    def build(self, unet: Any, *, condition: str, image_size: int) -> nn.Module:
        """A plugin whose projections are zero."""
        plugin: nn.Module = ConditioningPlugin.for_unet(unet, condition=condition, image_size=image_size)
        return plugin

    def residuals(
        self, network: nn.Module, noisy_Bchw: Tensor, step_B: Tensor, text_BLD: Tensor, condition_BCHW: Tensor
    ) -> dict[str, Any]:
        """One tensor a down block."""
        return {"down_intrablock_additional_residuals": network(condition_BCHW)}

    def pipeline(self, base: Any, network: Any) -> Any:
        """``StableDiffusionAdapterPipeline``; a list of plugins is composed by diffusers' ``MultiAdapter``."""
        for plugin in network if isinstance(network, list | tuple) else [network]:
            if isinstance(plugin, ConditioningPlugin):
                plugin.check_base(base.unet)
        return diffusers().StableDiffusionAdapterPipeline(adapter=network, **parts_of(base))
