"""What `benchmarks.overhead` measures: a base of Stable Diffusion 1.5's shape, what can steer it,
and one image's loop.

The loop is diffusers' own (`StableDiffusionPipeline`, `StableDiffusionAdapterPipeline`,
`StableDiffusionControlNetPipeline`) without progress bar, callbacks and files; a test holds it to
those pipelines' images. Weights are random: speed does not depend on them. Shapes: B batch (2 with
guidance, else 1), C channels, H and W, T text tokens, L residuals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from diffusers import (
    AutoencoderKL,
    ControlNetModel,
    DDIMScheduler,
    T2IAdapter,
    UNet2DConditionModel,
)
from torch import Tensor, nn

from benchmarks.overhead.names import BARE, CONTROLNET, DECODER, FULL, LIGHT, PLUGIN
from unplug.plugins import ConditioningPlugin

GUIDANCE = 7.5
TOKENS = 77


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is built, as keyword arguments of the diffusers classes, and how many steps an image
    takes.
    """

    name: str
    steps: tuple[int, ...]
    unet: dict[str, Any]
    vae: dict[str, Any]
    full: dict[str, Any]
    light: dict[str, Any]


def _size(
    name: str,
    steps: tuple[int, ...],
    *,
    channels: tuple[int, ...],
    layers: int,
    text: int,
    side: int,
    vae: tuple[int, ...],
    blocks: int,
) -> Size:
    """A base of four levels, the last without attention, and adapters for it."""
    down, up = "CrossAttnDownBlock2D", "CrossAttnUpBlock2D"
    return Size(
        name=name,
        steps=steps,
        unet={
            "sample_size": side,
            "in_channels": 4,
            "out_channels": 4,
            "layers_per_block": layers,
            "block_out_channels": channels,
            "down_block_types": (down, down, down, "DownBlock2D"),
            "up_block_types": ("UpBlock2D", up, up, up),
            "cross_attention_dim": text,
            "attention_head_dim": 8,
        },
        vae={
            "in_channels": 3,
            "out_channels": 3,
            "latent_channels": 4,
            "sample_size": 8 * side,
            "block_out_channels": vae,
            "layers_per_block": layers,
            "down_block_types": ("DownEncoderBlock2D",) * 4,
            "up_block_types": ("UpDecoderBlock2D",) * 4,
        },
        full={"channels": list(channels), "num_res_blocks": blocks, "adapter_type": "full_adapter"},
        light={
            "channels": list(channels[:3]),
            "num_res_blocks": 2 * blocks,
            "adapter_type": "light_adapter",
        },
    )


SD15 = _size(
    "Stable Diffusion 1.5",
    (50, 25, 6, 4),
    channels=(320, 640, 1280, 1280),
    layers=2,
    text=768,
    side=64,
    vae=(128, 256, 512, 512),
    blocks=2,
)
QUICK = _size(
    "shrunk",
    (1, 2),
    channels=(32, 64, 64, 64),
    layers=1,
    text=16,
    side=8,
    vae=(32, 32, 32, 32),
    blocks=1,
)


class Control(Protocol):
    """What steers the base: once an image, then at every step."""

    network: nn.Module | None

    def once(self, condition_1CHW: Tensor, guidance: bool) -> Any:
        """What is done once an image."""

    def each_step(
        self, state: Any, latents_BCHW: Tensor, t: Tensor, text_BTC: Tensor
    ) -> dict[str, Any]:
        """What is done at every step; the UNet's keyword arguments."""


class Bare:
    """The base alone: what every adapter is compared with."""

    network: nn.Module | None = None

    def once(self, condition_1CHW: Tensor, guidance: bool) -> None:
        """Does nothing: a bare base has no work before its steps."""

    def each_step(
        self, state: None, latents_BCHW: Tensor, t: Tensor, text_BTC: Tensor
    ) -> dict[str, Any]:
        """Does nothing: a bare base has no work of its own in a step."""
        return {}


class Adapter:
    """A T2I-Adapter or our plugin: the network runs once; every step clones its residuals, and the
    UNet adds them.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network: nn.Module | None = network
        self._run = network

    def once(self, condition_1CHW: Tensor, guidance: bool) -> list[Tensor]:
        """Runs the network, multiplies by a strength of 1, doubles the batch for guidance."""
        residuals = [residual * 1.0 for residual in self._run(condition_1CHW)]
        return [torch.cat([residual] * 2) for residual in residuals] if guidance else residuals

    def each_step(
        self, state: list[Tensor], latents_BCHW: Tensor, t: Tensor, text_BTC: Tensor
    ) -> dict[str, Any]:
        """Clones, because the UNet's last block adds in place to what it is given to add to."""
        return {"down_intrablock_additional_residuals": clones(state)}


class SideNetwork:
    """A ControlNet: the network runs at every step."""

    def __init__(self, network: nn.Module) -> None:
        self.network: nn.Module | None = network
        self._run = network

    def once(self, condition_1CHW: Tensor, guidance: bool) -> Tensor:
        """Doubles the condition image for guidance."""
        return torch.cat([condition_1CHW] * 2) if guidance else condition_1CHW

    def each_step(
        self, state: Tensor, latents_BCHW: Tensor, t: Tensor, text_BTC: Tensor
    ) -> dict[str, Any]:
        """Runs the network on the step's latents."""
        down, mid = self._run(
            latents_BCHW,
            t,
            encoder_hidden_states=text_BTC,
            controlnet_cond=state,
            conditioning_scale=1.0,
            return_dict=False,
        )
        return {"down_block_additional_residuals": down, "mid_block_additional_residual": mid}


@dataclass(frozen=True, kw_only=True)
class Base:
    """A frozen base (diffusers' UNet2DConditionModel, AutoencoderKL, DDIMScheduler) with the
    tensors of one image.
    """

    unet: Any
    vae: Any
    scheduler: Any
    text_2TC: Tensor
    latents_1CHW: Tensor
    condition_1CHW: Tensor

    def step(
        self, control: Control, state: Any, latents_1CHW: Tensor, t: Tensor, guidance: bool
    ) -> Tensor:
        """One denoising step: e = e_0 + 7.5 (e_1 - e_0) with guidance, then the scheduler."""
        latents_BCHW = torch.cat([latents_1CHW] * 2) if guidance else latents_1CHW
        latents_BCHW = self.scheduler.scale_model_input(latents_BCHW, t)
        text_BTC = self.text(guidance)
        extra = control.each_step(state, latents_BCHW, t, text_BTC)
        noise = self.unet(
            latents_BCHW, t, encoder_hidden_states=text_BTC, return_dict=False, **extra
        )[0]
        if guidance:
            without, given = noise.chunk(2)
            noise = without + GUIDANCE * (given - without)
        following: Tensor = self.scheduler.step(noise, t, latents_1CHW, return_dict=False)[0]
        return following

    def text(self, guidance: bool) -> Tensor:
        """Text embeddings: of the empty prompt and the prompt, or of the prompt alone."""
        return self.text_2TC if guidance else self.text_2TC[1:]

    def decode(self, latents_1CHW: Tensor) -> Tensor:
        """The image, by the VAE's decoder."""
        image: Tensor = self.vae.decode(
            latents_1CHW / self.vae.config.scaling_factor, return_dict=False
        )[0]
        return image

    @torch.no_grad()
    def generate(self, control: Control, steps: int, guidance: bool) -> Tensor:
        """One image, from text embeddings and noise to pixels."""
        self.scheduler.set_timesteps(steps, device=self.latents_1CHW.device)
        state, latents_1CHW = control.once(self.condition_1CHW, guidance), self.latents_1CHW
        for t in self.scheduler.timesteps:
            latents_1CHW = self.step(control, state, latents_1CHW, t, guidance)
        return self.decode(latents_1CHW)

    def in_place(self) -> list[bool]:
        """For each down block whether diffusers adds the residual in place (blocks without
        attention) or to a new tensor.
        """
        return [not getattr(block, "has_cross_attention", False) for block in self.unet.down_blocks]


def clones(residuals: Sequence[Tensor]) -> list[Tensor]:
    """A copy of each tensor, so that a step may change it in place."""
    return [residual.clone() for residual in residuals]


def add(
    hidden_L: Sequence[Tensor], residual_L: Sequence[Tensor], in_place_L: Sequence[bool]
) -> None:
    """The additions that a UNet does with residuals, by themselves."""
    for hidden, residual, in_place in zip(hidden_L, residual_L, in_place_L, strict=True):
        if in_place:
            hidden.add_(residual)
        else:
            torch.add(hidden, residual)


def build(size: Size, device: torch.device, dtype: torch.dtype) -> tuple[Base, dict[str, Control]]:
    """The base and everything that steers it, on the device, each allocated once."""
    unet = empty(lambda: UNet2DConditionModel(**size.unet), device, dtype)
    controlnet = empty(
        lambda: ControlNetModel.from_unet(unet, load_weights_from_unet=False), device, dtype
    )
    vae = empty(lambda: AutoencoderKL(**size.vae), device, dtype)
    plugin = ConditioningPlugin.for_unet(unet, condition="canny").eval().requires_grad_(False)
    networks: dict[str, Any] = {
        FULL: empty(lambda: T2IAdapter(**size.full), device, dtype),
        LIGHT: empty(lambda: T2IAdapter(**size.light), device, dtype),
        PLUGIN: nn.Module.to(plugin, device, dtype),
    }
    scheduler = DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )
    draw = torch.Generator().manual_seed(0)
    side = size.unet["sample_size"]
    base = Base(
        unet=unet,
        vae=vae,
        scheduler=scheduler,
        text_2TC=torch.randn(2, TOKENS, size.unet["cross_attention_dim"], generator=draw).to(
            device, dtype
        ),
        latents_1CHW=torch.randn(1, 4, side, side, generator=draw).to(device, dtype),
        condition_1CHW=torch.rand(1, 3, 8 * side, 8 * side, generator=draw).to(device, dtype),
    )
    adapters = {name: Adapter(network) for name, network in networks.items()}
    return base, {BARE: Bare(), CONTROLNET: SideNetwork(controlnet), **adapters}


@torch.no_grad()
def empty(make: Callable[[], Any], device: torch.device, dtype: torch.dtype) -> Any:
    """A diffusers model without buffers, with random weights, never held twice: shaped on "meta",
    then filled where it stays.

    W ~ U(-b, b) with b = fan_in^(-1/2), so that activations neither vanish (denormal numbers are
    slow on a CPU) nor overflow.
    """
    with torch.device("meta"):
        model = make()
    model = nn.Module.to(model, dtype).to_empty(device=device).eval().requires_grad_(False)
    draw = torch.Generator(device).manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            bound = 1.0 / math.sqrt(parameter[0].numel())
            parameter.uniform_(-bound, bound, generator=draw)
        else:
            parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    return model


def parameters(base: Base, controls: dict[str, Control]) -> dict[str, int]:
    """Parameters of every part; of the VAE only what decodes, for nothing else runs."""
    decoder = (base.vae.decoder, base.vae.post_quant_conv)
    counts = {BARE: _count(base.unet), DECODER: sum(_count(part) for part in decoder)}
    return counts | {
        name: _count(control.network)
        for name, control in controls.items()
        if control.network is not None
    }


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
