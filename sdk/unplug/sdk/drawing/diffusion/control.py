"""Networks for a frozen base: what one is, and those that unplug trains and compares (plugin,
ControlNet, T2I-Adapter).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from unplug.core import InputError, Registry
from unplug.plugins import ConditioningPlugin

from .small import diffusers


class Control(Protocol):
    """A kind of network that turns a condition image into what a frozen UNet adds to its features.

    Attributes:
        label: its name in tables and pictures.
        every_step: True where it runs at every step of sampling, False where it runs once a
            picture.
    """

    label: ClassVar[str]
    every_step: ClassVar[bool]

    def build(self, unet: Any, *, condition: str, image_size: int) -> nn.Module:
        """A new network for a base, which steers nothing yet or at random."""

    def residuals(
        self,
        network: nn.Module,
        noisy_Bchw: Tensor,
        step_B: Tensor,
        text_BLD: Tensor,
        condition_BCHW: Tensor,
    ) -> dict[str, Any]:
        """Arguments of the UNet's call; conditions are RGB in [0, 1]."""

    def pipeline(self, base: Any, network: Any) -> Any:
        """diffusers' pipeline of a base with this network."""


CONTROLS: Registry[Callable[[], Control]] = Registry(
    "control",
    {
        "plugin": "unplug.sdk.drawing.diffusion.control:PluginControl",
        "controlnet": "unplug.sdk.drawing.diffusion.control:ControlNetControl",
        "t2i-adapter": "unplug.sdk.drawing.diffusion.control:AdapterControl",
    },
    group="unplug.controls",
)


def predict_noise(
    control: Control | None,
    network: nn.Module | None,
    unet: Any,
    noisy_Bchw: Tensor,
    step_B: Tensor,
    text_BLD: Tensor,
    condition_BCHW: Tensor | None,
) -> Tensor:
    """e'(x_t, t, c; control(condition)) (B, c, h, w); of the bare base where there is no control.

    Args:
        control: kind of the network, or None.
        network: the control network that steers, or None.
        unet: the base's.
        noisy_Bchw: x_t.
        step_B: t.
        text_BLD: c.
        condition_BCHW: RGB in [0, 1]; not looked at without a control.
    """
    extra: dict[str, Any] = {}
    if control is not None and network is not None:
        assert condition_BCHW is not None
        extra = control.residuals(network, noisy_Bchw, step_B, text_BLD, condition_BCHW)
    guess: Tensor = unet(noisy_Bchw, step_B, text_BLD, **extra).sample
    return guess


def parts_of(base: Any) -> dict[str, Any]:
    """The parts of a Stable Diffusion pipeline, for building another pipeline on the same weights."""
    return {
        "vae": base.vae,
        "text_encoder": base.text_encoder,
        "tokenizer": base.tokenizer,
        "unet": base.unet,
        "scheduler": base.scheduler,
        "safety_checker": None,
        "feature_extractor": None,
        "requires_safety_checker": False,
    }


class _InsideBlocks:
    """What runs once a picture and adds one tensor to the features of each down block: diffusers'
    adapters and our plugin.
    """

    every_step: ClassVar[bool] = False

    def residuals(
        self,
        network: nn.Module,
        noisy_Bchw: Tensor,
        step_B: Tensor,
        text_BLD: Tensor,
        condition_BCHW: Tensor,
    ) -> dict[str, Any]:
        """One tensor a down block."""
        return {"down_intrablock_additional_residuals": network(condition_BCHW)}

    def pipeline(self, base: Any, network: Any) -> Any:
        """``StableDiffusionAdapterPipeline``; a list of plugins is composed by diffusers'
        ``MultiAdapter``.

        Raises:
            InputError: a plugin of another base, or one that does not take what diffusers feeds.
        """
        for plugin in network if isinstance(network, list | tuple) else [network]:
            if isinstance(plugin, ConditioningPlugin):
                plugin.check_base(base.unet)
                check_range(plugin)
        return diffusers().StableDiffusionAdapterPipeline(adapter=network, **parts_of(base))


def check_range(plugin: ConditioningPlugin) -> None:
    """`InputError` for a plugin of another input range than [0, 1]: it would be steered by the
    wrong contrast.
    """
    low, high = (float(edge) for edge in plugin.config["input_range"])
    if (low, high) != (0.0, 1.0):
        why = f"it takes values in [{low:g}, {high:g}] and diffusers' pipelines feed [0, 1]"
        raise InputError(
            f"{plugin.config['condition']} plugin",
            why,
            "Set input_range to [0, 1] in its config.json",
        )


class PluginControl(_InsideBlocks):
    """Our `ConditioningPlugin`, run once a picture."""

    label: ClassVar[str] = "plugin"

    def build(self, unet: Any, *, condition: str, image_size: int) -> nn.Module:
        """A plugin whose projections are zero."""
        plugin: nn.Module = ConditioningPlugin.for_unet(
            unet, condition=condition, image_size=image_size
        )
        return plugin


class AdapterControl(_InsideBlocks):
    """diffusers' ``T2IAdapter``, the full kind, at the base's widths.

    Reference:
        Mou et al., T2I-Adapter, 2023.
    """

    label: ClassVar[str] = "T2I-Adapter"

    def build(self, unet: Any, *, condition: str, image_size: int) -> nn.Module:
        """Random weights, as published: it has no zero projections."""
        adapter: nn.Module = diffusers().T2IAdapter(
            in_channels=3,
            channels=list(unet.config.block_out_channels),
            num_res_blocks=2,
            downscale_factor=8,
            adapter_type="full_adapter",
        )
        return adapter


class ControlNetControl:
    """diffusers' ``ControlNetModel``: a trained copy of the base's encoder, at every step of
    sampling.

    Reference:
        Zhang et al., Adding Conditional Control to Text-to-Image Diffusion Models, 2023.
    """

    label: ClassVar[str] = "ControlNet"
    every_step: ClassVar[bool] = True

    def build(self, unet: Any, *, condition: str, image_size: int) -> nn.Module:
        """The encoder's weights with zero convolutions after them."""
        network: nn.Module = diffusers().ControlNetModel.from_unet(unet)
        return network.requires_grad_(True).train()

    def residuals(
        self,
        network: nn.Module,
        noisy_Bchw: Tensor,
        step_B: Tensor,
        text_BLD: Tensor,
        condition_BCHW: Tensor,
    ) -> dict[str, Any]:
        """One tensor a skip connection, and one in the middle."""
        down, middle = network(noisy_Bchw, step_B, text_BLD, condition_BCHW, return_dict=False)
        return {"down_block_additional_residuals": down, "mid_block_additional_residual": middle}

    def pipeline(self, base: Any, network: Any) -> Any:
        """The stock ``StableDiffusionControlNetPipeline`` with this ControlNet."""
        return diffusers().StableDiffusionControlNetPipeline(controlnet=network, **parts_of(base))
