"""What of a diffusion base a phone runs: the UNet, once a step, and the decoder, once an image.

Both are diffusers' own networks with named tensors, loaded from the folders of a Stable Diffusion
pipeline. Shapes: B batch, C latent channels, H and W of the latent, T tokens, D width of the text
encoder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError, IOSpec, MissingExtraError, TensorSpec, quiet, read_json

from .bounds import check_at_most
from .unet_levels import MAX_CHANNELS, MAX_LEVELS, MAX_SAMPLE_SIZE, read_base, residual_specs

try:
    with quiet():
        from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
        from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
except ImportError as error:
    raise MissingExtraError("diffusers", "diffusion") from error

TOKENS = 77
"""The token limit of Stable Diffusion's prompts; used where no text encoder lies next to the UNet.
"""
MAX_LAYERS, MAX_KERNEL = 16, 15
MAX_DEPTH = 256
"""Layers of attention in all blocks: Stable Diffusion has 8, and each is forty modules to build."""
MAX_CONFIG_BYTES, MAX_TENSOR_BYTES = 2**20, 2**30
DECODER_LIMITS = {
    "sample_size": MAX_SAMPLE_SIZE,
    "layers_per_block": MAX_LAYERS,
    "in_channels": MAX_CHANNELS,
    "out_channels": MAX_CHANNELS,
    "latent_channels": MAX_CHANNELS,
}
UNET_LIMITS = DECODER_LIMITS | {
    "text_tokens": 1024,
    "transformer_layers_per_block": MAX_LAYERS,
    "cross_attention_dim": MAX_CHANNELS,
    "downsample_padding": 1,
    "conv_in_kernel": MAX_KERNEL,
    "conv_out_kernel": MAX_KERNEL,
}


class BaseUNet(UNet2DConditionModel):
    """One step of denoising: eps(z_t, t, text; residuals), with the residuals of plugins as inputs;
    zeros steer nothing.

    Args:
        text_tokens: T of the prompts; `complete_config` reads it off the text encoder.
        config: diffusers' configuration of a ``UNet2DConditionModel``.

    Raises:
        InputError: a configuration that is out of range, or of a UNet that takes no residuals.

    Reference:
        Rombach et al., High-Resolution Image Synthesis with Latent Diffusion Models, 2022, section
        3.3.
    """

    def __init__(self, text_tokens: int = TOKENS, **config: Any) -> None:
        levels = read_base(config).levels
        check_unet({"text_tokens": text_tokens, "sample_size": None, **config})
        if config.get("reverse_transformer_layers_per_block") is not None:
            raise InputError(
                "reverse_transformer_layers_per_block",
                "no base of this kind has it",
                "Leave it out",
            )
        for spec in residual_specs(levels, config["sample_size"]):
            if 4 * math.prod(spec.shape) > MAX_TENSOR_BYTES:
                raise InputError(
                    f"sample_size {config['sample_size']}",
                    f"{spec.name} would be {spec.shape}",
                    "Use a smaller one",
                )
        super().__init__(**config)
        self.levels, self.text_tokens = levels, text_tokens

    @staticmethod
    def complete_config(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration with the text encoder's added to it."""
        beside = folder.parent / "text_encoder" / "config.json"
        text = read_json(beside, max_bytes=MAX_CONFIG_BYTES) if beside.is_file() else {}
        tokens = text.get("max_position_embeddings", TOKENS) if isinstance(text, dict) else TOKENS
        return {"text_tokens": tokens, **config}

    def forward(
        self, z_BCHW: Tensor, t_B: Tensor, text_BTD: Tensor, *residuals: Tensor
    ) -> tuple[Tensor]:
        """The predicted noise, or whatever the base predicts, of the shape of `z_BCHW`."""
        # diffusers pops the list, and adds the last one in place.
        added = [residual + 0.0 for residual in residuals] or None
        (predicted,) = super().forward(
            z_BCHW, t_B, text_BTD, down_intrablock_additional_residuals=added, return_dict=False
        )
        return (predicted,)

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one."""
        config, side = self.config, int(self.config["sample_size"])
        latent = (1, int(config["in_channels"]), side, side)
        sample = TensorSpec(name="sample", shape=latent, layout="NCHW", description="Noisy latents")
        timestep = TensorSpec(
            name="timestep", shape=(1,), layout="N", range=(0.0, 999.0), description="Noise level"
        )
        text = TensorSpec(
            name="encoder_hidden_states",
            shape=(1, self.text_tokens, int(config["cross_attention_dim"])),
            layout="NTC",
            description="Last hidden state of the text encoder",
        )
        predicted = TensorSpec(
            name="noise_pred",
            shape=(1, int(config["out_channels"]), side, side),
            layout="NCHW",
            description="What the scheduler's step takes",
        )
        return IOSpec(
            inputs=(sample, timestep, text, *residual_specs(self.levels, side)),
            outputs=(predicted,),
        )


class GuidedUNet(nn.Module):
    """A `BaseUNet` asked twice in one call, as classifier-free guidance needs it: about a prompt
    and about its negative.

    Both questions are one batch of two inside; outside every tensor keeps a batch of one. The
    residuals go to both, as in diffusers.

    Args:
        config: see `BaseUNet`.

    Raises:
        InputError: see `BaseUNet`.

    Reference:
        Ho and Salimans, Classifier-Free Diffusion Guidance, 2022, section 3.2.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.unet = BaseUNet(**config)

    complete_config = staticmethod(BaseUNet.complete_config)

    def rename_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Gives the tensors of a UNet's file the names that they have in here."""
        for name in list(tensors):
            tensors[f"unet.{name}"] = tensors.pop(name)

    def forward(
        self,
        z_BCHW: Tensor,
        t_B: Tensor,
        text_BTD: Tensor,
        negative_BTD: Tensor,
        *residuals: Tensor,
    ) -> tuple[Tensor, ...]:
        """What the UNet predicts for the prompt, and for the negative one; each of the shape of
        `z_BCHW`.
        """
        both = [torch.cat([residual, residual]) for residual in residuals]
        (predicted,) = self.unet(
            torch.cat([z_BCHW, z_BCHW]),
            torch.cat([t_B, t_B]),
            torch.cat([text_BTD, negative_BTD]),
            *both,
        )
        return tuple(predicted.chunk(2))

    @property
    def iospec(self) -> IOSpec:
        """The named tensors of a `BaseUNet`, and `negative_hidden_states` to `noise_pred_negative`
        next to them.
        """
        bare = self.unet.iospec
        sample, timestep, text, *residuals = bare.inputs
        (predicted,) = bare.outputs
        negative = replace(
            text,
            name="negative_hidden_states",
            description="The same of the negative prompt, or of no words",
        )
        other = replace(
            predicted, name="noise_pred_negative", description="The same for the negative prompt"
        )
        return IOSpec(
            inputs=(sample, timestep, text, negative, *residuals), outputs=(predicted, other)
        )


class BaseDecoder(AutoencoderKL):
    """Latents to an image: x = (D(z / s + shift) + 1) / 2, clipped to [0, 1], with s the
    autoencoder's scaling factor.

    The encoder's weights are loaded with it and are in no exported file.

    Args:
        config: diffusers' configuration of an ``AutoencoderKL``.

    Raises:
        InputError: a configuration that is out of range.
    """

    def __init__(self, **config: Any) -> None:
        check_decoder({"sample_size": None, **config})
        widths = config.get("block_out_channels", (1,))
        if config["sample_size"] % (factor := 2 ** (len(widths) - 1)):
            raise InputError(
                f"sample_size {config['sample_size']}",
                f"no multiple of {factor}, by which it shrinks",
                "Use one",
            )
        _check_scale("scaling_factor", config.get("scaling_factor", 1.0), least=1e-6)
        _check_scale("shift_factor", config.get("shift_factor") or 0.0, least=-1e6)
        super().__init__(**config)

    def rename_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Gives the attention of Stable Diffusion 1's file its name of today, as diffusers does
        when it loads one.
        """
        self._fix_state_dict_keys_on_load(tensors)  # type: ignore[arg-type]

    def forward(self, z_BCHW: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        """Images (B, 3, H times the downscale, W times it) in [0, 1]."""
        # diffusers' pipelines scale latents before they decode them; here one file does both.
        z_BCHW = z_BCHW / self.config["scaling_factor"] + (self.config["shift_factor"] or 0.0)
        shown = torch.relu(self.decode(z_BCHW, return_dict=False)[0] / 2 + 0.5)
        # Of a clamp LiteRT's converter makes RELU_0_TO_1, which its GPU delegate does not take.
        return (shown - torch.relu(shown - 1),)

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one."""
        config, side = self.config, int(self.config["sample_size"])
        small = side // 2 ** (len(config["block_out_channels"]) - 1)
        return decoder_spec(config["latent_channels"], small, config["out_channels"], side)


def decoder_spec(latent_channels: int, small: int, channels: int, side: int) -> IOSpec:
    """The named tensors of a decoder, with a batch of one.

    Args:
        latent_channels: C of a latent.
        small: h and w of a latent.
        channels: colours of the picture.
        side: H and W of the picture in pixels.
    """
    latents = TensorSpec(
        name="latents",
        shape=(1, latent_channels, small, small),
        layout="NCHW",
        description="As the last step of denoising leaves them",
    )
    image = TensorSpec(
        name="image",
        shape=(1, channels, side, side),
        layout="NCHW",
        range=(0.0, 1.0),
        colour="RGB",
        description="The picture",
    )
    return IOSpec(inputs=(latents,), outputs=(image,))


def check_unet(config: Mapping[str, Any]) -> None:
    """Refuses a UNet's configuration that asks for more than any base has; `InputError` names the
    setting.
    """
    _check_sizes(config, UNET_LIMITS)
    layers = math.prod(
        config.get(name, 1) for name in ("layers_per_block", "transformer_layers_per_block")
    )
    if (depth := layers * len(config.get("block_out_channels", (1,)))) > MAX_DEPTH:
        raise InputError(
            f"{depth} layers",
            "more than any base has",
            f"Use at most {MAX_DEPTH} in all blocks together",
        )


def check_decoder(config: Mapping[str, Any]) -> None:
    """Refuses an autoencoder's configuration that asks for more than any base has; `InputError`
    names the setting.
    """
    _check_sizes(config, DECODER_LIMITS)


def _check_sizes(config: Mapping[str, Any], limits: Mapping[str, int]) -> None:
    check_at_most(config, limits)
    widths = config.get("block_out_channels", (1,))
    count = len(widths) if isinstance(widths, list | tuple) else 0
    if not 1 <= count <= MAX_LEVELS:
        raise InputError(f"{count} block_out_channels", "out of range", f"Use 1 to {MAX_LEVELS}")
    named = {f"block_out_channels[{place}]": width for place, width in enumerate(widths)}
    check_at_most(named, dict.fromkeys(named, MAX_CHANNELS))


def _check_scale(name: str, value: Any, least: float) -> None:
    if not isinstance(value, int | float) or not least <= value <= 1e6:
        raise InputError(
            f"{name} {str(value)[:200]}",
            "latents cannot be scaled by it",
            "Use what diffusers wrote",
        )
