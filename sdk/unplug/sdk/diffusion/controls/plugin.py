"""Our conditioning plugin: once a picture, residuals inside the encoder's blocks."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from unplug.core import InputError
from unplug.plugins import ConditioningPlugin

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
        """``StableDiffusionAdapterPipeline``; a list of plugins is composed by diffusers' ``MultiAdapter``.

        Raises:
            InputError: a plugin of another base, or one that does not take what diffusers feeds.
        """
        for plugin in network if isinstance(network, list | tuple) else [network]:
            if isinstance(plugin, ConditioningPlugin):
                plugin.check_base(base.unet)
                check_range(plugin)
        return diffusers().StableDiffusionAdapterPipeline(adapter=network, **parts_of(base))


def check_range(plugin: ConditioningPlugin) -> None:
    """`InputError` for a plugin of another input range than [0, 1]: it would be steered by the wrong contrast."""
    low, high = (float(edge) for edge in plugin.config["input_range"])
    if (low, high) != (0.0, 1.0):
        why = f"it takes values in [{low:g}, {high:g}] and diffusers' pipelines feed [0, 1]"
        raise InputError(f"{plugin.config['condition']} plugin", why, "Set input_range to [0, 1] in its config.json")
