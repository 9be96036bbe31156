"""Packs: a thing, a style or a person learned on top of a base, in low-rank weights that its words
switch on and whose deletion forgets it exactly.

The base never sees the pictures, so without the pack's words it draws what it always drew, and
without the pack it is the model that never learned.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unplug.plugins import LORA_LAYERS

from .base_training import BaseLoss, TextPairs, tokenize, use_fast_attention
from .low_rank import add_low_rank
from .recipe import PackRecipe
from .steps import Trained, state_at, train_steps
from .tokenizer import encode

ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")


def fit_pack(
    base: Any,
    latent_Nchw: Tensor,
    captions: Sequence[Sequence[str]],
    recipe: PackRecipe,
    *,
    seed: int,
    device: torch.device,
    state_path: Path | None,
    facts: Mapping[str, Any],
    show: bool,
) -> Trained:
    """Trains low-rank updates of a base's UNet on pictures that all show one thing.

    The loss is the base's own, see `BaseLoss`; text encoder and UNet stay as they are.

    Args:
        base: see `load_base`; not changed.
        latent_Nchw: scaled latents of N pictures.
        captions: their prompts.
        recipe: how.
        seed: the seed of everything random.
        device: the device to compute on.
        state_path: the file for the state; an unfinished run there is continued.
        facts: further facts that decide the weights, for the fingerprint of the state.
        show: progress bar.

    Returns:
        ``model.unet`` has averaged updates on it, see `save_low_rank`.

    Raises:
        InputError: a base that predicts neither noise nor velocities.
        TrainingError: see `train_steps`.

    Reference:
        Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021, section 4.1.
    """
    unet = copy.deepcopy(base.unet).requires_grad_(False)
    layers = LORA_LAYERS if recipe.layers == "all" else ATTENTION
    add_low_rank(unet, recipe.rank, layers, seed)
    use_fast_attention(unet, device)
    model = BaseLoss(unet, base.text_encoder, base.scheduler)
    empty_L = encode(base.tokenizer, [""])[0]
    ids_NKL = tokenize(base.tokenizer, captions)
    draw = TextPairs(latent_Nchw, ids_NKL, empty_L, recipe.drop_text, device)
    state = state_at(state_path, "pack", recipe, seed, facts)
    return train_steps(
        model, draw, recipe, seed=seed + 1, device=device, state=state, show=show, label="pack"
    )
