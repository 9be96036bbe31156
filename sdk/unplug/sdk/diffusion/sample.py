"""Pictures from any diffusers pipeline, one seed a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from unplug.core import quiet

from .load import is_ours
from .vae import pictures_at_once

STEPS, GUIDANCE, USUAL_GUIDANCE = 25, 3.0, 7.5
"""DDIM steps and guidance that the small base was tuned with, and the guidance that Stable Diffusion wants."""
BATCH = 16


def guidance_of(base_name: str) -> float:
    """The guidance that suits a base by default: lower for those of `unplug train base`."""
    return GUIDANCE if is_ours(base_name) else USUAL_GUIDANCE


@torch.no_grad()
def generate(
    pipe: Any,
    prompts: Sequence[str],
    *,
    seeds: Sequence[int],
    size: int,
    steps: int = STEPS,
    guidance: float = GUIDANCE,
    negative: str = "",
    batch_size: int = BATCH,
    progress: Any = None,
    shared: Mapping[str, Any] | None = None,
    **extra: Any,
) -> list[Image.Image]:
    """One picture a prompt; the same seed starts from the same noise in every pipeline and batch size.

    Args:
        pipe: a diffusers pipeline for text to image, with or without a control.
        prompts: B prompts.
        seeds: B seeds.
        size: side in pixels.
        steps: of the scheduler, at least 1.
        guidance: scale of classifier-free guidance; 1 turns it off.
        negative: what to steer away from.
        batch_size: pictures at once.
        progress: a tqdm bar that counts pictures, or None.
        shared: more arguments of the pipeline, the same for every batch.
        extra: more arguments of the pipeline; a list of B values is cut into the same batches.
    """
    pipe.set_progress_bar_config(disable=True)
    pictures: list[Image.Image] = []
    for start in range(0, len(prompts), batch_size):
        part = slice(start, start + batch_size)
        own = dict(shared or {}) | {key: value[part] if isinstance(value, list) else value for key, value in extra.items()}
        noise = [torch.Generator().manual_seed(seed) for seed in seeds[part]]
        count = len(noise)
        with quiet():
            latent_Bchw = pipe(
                list(prompts[part]), height=size, width=size, num_inference_steps=steps, guidance_scale=guidance,
                negative_prompt=[negative] * count if guidance > 1 else None, generator=noise, output_type="latent", **own,
            ).images  # fmt: skip
        pictures += decode(pipe, latent_Bchw)
        if progress is not None:
            progress.update(count)
    return pictures


def decode(pipe: Any, latent_Bchw: Tensor) -> list[Image.Image]:
    """Pictures of scaled latents: diffusers' pipelines each round in their own way, which tells equal latents apart."""
    side = latent_Bchw.shape[-1] * 2 ** (len(pipe.vae.config.block_out_channels) - 1)
    pictures: list[Image.Image] = []
    for part_Bchw in latent_Bchw.split(pictures_at_once(side)):
        decoded_BCHW = pipe.vae.decode(part_Bchw / pipe.vae.config.scaling_factor).sample
        pictures += pipe.image_processor.postprocess(decoded_BCHW, output_type="pil")
    return pictures
