"""Packs: a thing, a style or a person learned on top of a base, in low-rank weights that its words
switch on and whose deletion forgets it exactly.

The base never sees the pictures, so without the pack's words it draws what it always drew, and
without the pack it is the model that never learned.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from unplug.core import InputError
from unplug.plugins import LORA_LAYERS

from .base_training import BaseLoss, TextPairs, tokenize, use_fast_attention
from .low_rank import add_low_rank
from .recipe import StepRecipe, check_prompting
from .steps import Trained, state_at, train_steps
from .student import MAX_RANK
from .tokenizer import encode

PackLayers = Literal["all", "attention"]
ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")


@dataclass(frozen=True, kw_only=True)
class PackRecipe(StepRecipe):
    """How a pack is trained.

    Args:
        rank: the rank of the low-rank update of each layer.
        layers: "all" changes the convolutions too, which small sharp things need; "attention" is a
            fifth of the bytes.
        drop_text: share of prompts that are replaced by the empty one.
        captions: prompts a picture.
    """

    steps: int = 200
    batch_size: int = 12
    lr: float = 2e-3
    warmup: int = 10
    weight_decay: float = 0.0
    ema: float = 0.95
    rank: int = 8
    layers: PackLayers = "all"
    drop_text: float = 0.1
    captions: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prompting(self.drop_text, self.captions)
        if not isinstance(self.rank, int) or not 1 <= self.rank <= MAX_RANK:
            raise InputError(f"rank {self.rank}", "out of range", f"Use 1 to {MAX_RANK}")
        if self.layers not in ("all", "attention"):
            raise InputError(f"layers {self.layers!r}", "no such choice", "Use all or attention")


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
