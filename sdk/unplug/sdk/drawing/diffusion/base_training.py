"""``unplug train base``: a small text-to-image latent diffusion model, as an ordinary
``StableDiffusionPipeline`` folder.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import seeded

from .noise import noise_anywhere, sample_loss
from .recipe import BaseRecipe
from .small import build_scheduler, build_text_encoder, build_unet
from .steps import Trained, state_at, train_steps
from .tokenizer import encode


class BaseLoss(nn.Module):
    """L = |v - v'(x_t, t, c)|^2 with c the text encoder's answer, and v the velocity sqrt(a_t) e -
    sqrt(1 - a_t) x.

    Every noise level counts alike. The last one is nothing but noise: there v is the picture's mean
    for these words, and this is where colours and whole shapes are learned off the words and off
    nothing else.

    Args:
        unet, text_encoder: trained together.
        scheduler: the noise levels.

    Reference:
        Lin et al., Common Diffusion Noise Schedules and Sample Steps are Flawed, 2023, sections 3.1
        and 3.2.
    """

    def __init__(self, unet: Any, text_encoder: Any, scheduler: Any) -> None:
        super().__init__()
        self.unet, self.text_encoder, self.scheduler = unet, text_encoder, scheduler

    def __deepcopy__(self, memo: dict[int, Any]) -> BaseLoss:
        return BaseLoss(
            copy.deepcopy(self.unet, memo), copy.deepcopy(self.text_encoder, memo), self.scheduler
        )

    def forward(self, latent_Bchw: Tensor, ids_BL: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of scaled latents and their token ids."""
        noised = noise_anywhere(self.scheduler, latent_Bchw, generator)
        text_BLD = self.text_encoder(ids_BL)[0]
        return sample_loss(lambda x, t: self.unet(x, t, text_BLD).sample, noised).mean()


class TextPairs:
    """Draws latents with one of their prompts; some prompts are left out.

    Args:
        latent_Nchw: scaled latents.
        ids_NKL: token ids of K prompts each.
        empty_L: token ids of the empty prompt.
        drop: share of prompts replaced by it.
        device: the device for the batches.
    """

    def __init__(
        self,
        latent_Nchw: Tensor,
        ids_NKL: Tensor,
        empty_L: Tensor,
        drop: float,
        device: torch.device,
    ) -> None:
        self.latent_Nchw, self.ids_NKL, self.empty_L = latent_Nchw, ids_NKL, empty_L
        self.drop, self.device = drop, device

    def __call__(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """``latent_Bchw`` and ``ids_BL``."""
        row_B = torch.randint(len(self.latent_Nchw), (count,), generator=generator)
        which_B = torch.randint(self.ids_NKL.shape[1], (count,), generator=generator)
        ids_BL = self.ids_NKL[row_B, which_B].long()
        ids_BL[torch.rand(count, generator=generator) < self.drop] = self.empty_L
        return {
            "latent_Bchw": self.latent_Nchw[row_B].to(self.device),
            "ids_BL": ids_BL.to(self.device),
        }


def tokenize(tokenizer: Any, captions: Sequence[Sequence[str]]) -> Tensor:
    """Token ids (N, K, L) of N samples' prompts, int32; those with fewer than K repeat theirs."""
    most = max(len(own) for own in captions)
    flat = [own[index % len(own)] for own in captions for index in range(most)]
    parts = [encode(tokenizer, flat[start : start + 4096]) for start in range(0, len(flat), 4096)]
    return torch.cat(parts).int().view(len(captions), most, -1)


def fit_base(
    latent_Nchw: Tensor,
    captions: Sequence[Sequence[str]],
    tokenizer: Any,
    recipe: BaseRecipe,
    *,
    seed: int,
    device: torch.device,
    state_path: Path,
    facts: dict[str, Any],
    networks: tuple[Any, Any] | None,
    on_sample: Callable[[BaseLoss, int], None],
    sample_every: int,
    show: bool,
) -> Trained:
    """Trains UNet and text encoder on scaled latents with their prompts.

    Args:
        latent_Nchw: scaled to unit standard deviation.
        captions: N samples' prompts.
        tokenizer: the tokenizer of the prompts.
        recipe: how.
        seed: the seed of everything random.
        device: the device to compute on.
        state_path: the file for the state.
        facts: further facts that decide the weights (data, autoencoder), for the fingerprint of the
            state.
        networks: UNet and text encoder to go on from; None draws new ones from the seed.
        on_sample: see `train_steps`.
        sample_every: steps.
        show: progress bar.

    Returns:
        ``model.unet`` and ``model.text_encoder`` are the averaged weights.
    """
    scheduler = build_scheduler()
    with seeded(seed, 21):
        if networks is None:
            text_encoder = build_text_encoder(tokenizer)
            networks = (
                build_unet(
                    latent_Nchw.shape[-1], latent_Nchw.shape[1], text_encoder.config.hidden_size
                ),
                text_encoder,
            )
    unet, text_encoder = (network.requires_grad_(True) for network in networks)
    use_fast_attention(unet, device)
    model = BaseLoss(unet, text_encoder, scheduler)
    empty_L = encode(tokenizer, [""])[0]
    draw = TextPairs(latent_Nchw, tokenize(tokenizer, captions), empty_L, recipe.drop_text, device)
    return train_steps(
        model,
        draw,
        recipe,
        seed=seed + 1,
        device=device,
        state=state_at(state_path, "base", recipe, seed, facts),
        on_sample=on_sample,
        sample_every=sample_every,
        show=show,
        label="UNet",
    )


WIDE = 640
"""Channels from which on a network is taken for one of Stable Diffusion's size, whose attention
matrices fill the memory.
"""


def use_fast_attention(unet: Any, device: torch.device) -> None:
    """Plain matrix products on the CPU: its fused attention was measured 1.3 to 1.5 times slower in
    bf16 training.
    """
    if device.type == "cpu" and max(unet.config.block_out_channels) < WIDE:
        from diffusers.models.attention_processor import AttnProcessor

        unet.set_attn_processor(AttnProcessor())
