"""What a network beside a frozen base is, and the registry of those that unplug trains and compares."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from unplug.core import Registry


class Control(Protocol):
    """A kind of network that turns a condition image into what a frozen UNet adds to its features.

    Attributes:
        label: its name in tables and pictures.
        scale: argument of its pipeline that sets the strength.
        every_step: True where it runs at every step of sampling, False where it runs once a picture.
    """

    label: ClassVar[str]
    scale: ClassVar[str]
    every_step: ClassVar[bool]

    def build(self, unet: Any, *, condition: str, image_size: int) -> nn.Module:
        """A new network for a base, which steers nothing yet or at random."""

    def residuals(
        self, network: nn.Module, noisy_Bchw: Tensor, step_B: Tensor, text_BLD: Tensor, condition_BCHW: Tensor
    ) -> dict[str, Any]:
        """Arguments of the UNet's call; conditions are RGB in [0, 1]."""

    def pipeline(self, base: Any, network: Any) -> Any:
        """diffusers' pipeline of a base with this network."""


CONTROLS = Registry(
    "control",
    {
        "plugin": "unplug.sdk.diffusion.controls.plugin:PluginControl",
        "controlnet": "unplug.sdk.diffusion.controls.controlnet:ControlNetControl",
        "t2i-adapter": "unplug.sdk.diffusion.controls.t2i_adapter:AdapterControl",
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
        network: what steers, or None.
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
        "vae": base.vae, "text_encoder": base.text_encoder, "tokenizer": base.tokenizer, "unet": base.unet,
        "scheduler": base.scheduler, "safety_checker": None, "feature_extractor": None, "requires_safety_checker": False,
    }  # fmt: skip
