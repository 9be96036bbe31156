"""The small base: the shapes of a latent diffusion model of a few million parameters, in diffusers'
own classes.
"""

from __future__ import annotations

from typing import Any

from unplug.core import MissingExtraError, quiet

from .vae import init_vae

TOKENS = 48
"""Tokens a prompt, padding included."""
VOCABULARY = 1024


LAZY = (
    "AutoencoderKL",
    "ControlNetModel",
    "DDIMScheduler",
    "DPMSolverMultistepScheduler",
    "StableDiffusionAdapterPipeline",
    "StableDiffusionControlNetPipeline",
    "StableDiffusionPipeline",
    "T2IAdapter",
    "UNet2DConditionModel",
)
"""What is asked of diffusers here: it imports each on first use."""


def diffusers() -> Any:
    """The diffusers package, or what to install."""
    try:
        with quiet():
            import diffusers as package
            import transformers  # noqa: F401 (diffusers leaves it to the first pipeline)
        with quiet():  # anew: they are here to be silenced now
            for name in LAZY:
                getattr(package, name)
    except ImportError as error:
        raise MissingExtraError(str(error.name), "diffusion") from error
    return package


def build_vae(image_size: int, latent_channels: int = 8) -> Any:
    """An ``AutoencoderKL`` that makes 8x8 pixels one latent, 3.1 M parameters; no attention, so
    that it works on crops.

    Reference:
        Rombach et al., High-Resolution Image Synthesis with Latent Diffusion Models, 2022, section
        3.1.
    """
    vae = diffusers().AutoencoderKL(
        in_channels=3,
        out_channels=3,
        latent_channels=latent_channels,
        block_out_channels=(24, 48, 96, 128),
        layers_per_block=1,
        norm_num_groups=2,  # of few channels each, a group norm would take the colours away
        sample_size=image_size,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        mid_block_add_attention=False,
    )
    init_vae(vae)
    return vae


def build_unet(latent_size: int, latent_channels: int = 8, text_width: int = 192) -> Any:
    """A ``UNet2DConditionModel`` of Stable Diffusion's shape with three levels, 10.8 M parameters."""
    return diffusers().UNet2DConditionModel(
        sample_size=latent_size,
        in_channels=latent_channels,
        out_channels=latent_channels,
        block_out_channels=(96, 144, 192),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=text_width,
        attention_head_dim=4,  # diffusers' name for the number of heads
        norm_num_groups=16,
    )


def build_text_encoder(tokenizer: Any, width: int = 192) -> Any:
    """A ``CLIPTextModel`` of three layers, 1.1 M parameters."""
    try:
        from transformers import CLIPTextConfig, CLIPTextModel
    except ImportError as error:
        raise MissingExtraError("transformers", "diffusion") from error
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=tokenizer.model_max_length,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return CLIPTextModel(config)


def build_scheduler() -> Any:
    """Stable Diffusion's 1,000 noise levels, shifted so that the last one is nothing but noise, and
    velocity as the answer.

    With Stable Diffusion's own levels the mean of a 16x16 latent still stands out of the noise at
    the last one: a base then reads colours off the noise that it is given, and never off words.

    Reference:
        Lin et al., Common Diffusion Noise Schedules and Sample Steps are Flawed, 2023, sections 3.1
        to 3.3.
    """
    return diffusers().DDIMScheduler(
        num_train_timesteps=1000,
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        steps_offset=1,  # has no part in trailing steps; diffusers warns of any other
        rescale_betas_zero_snr=True,
        timestep_spacing="trailing",
        prediction_type="v_prediction",
    )


def assemble(vae: Any, text_encoder: Any, tokenizer: Any, unet: Any, scheduler: Any) -> Any:
    """An ordinary ``StableDiffusionPipeline`` without a safety checker (it knows nothing but drawn
    faces).
    """
    return diffusers().StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
