"""Few steps without guidance: a student learns to go in one step where its guided teacher goes in
several.

Two ways to teach it: by where the teacher arrives (progressive), or by one step of the teacher and
the student's own word from there (consistency).

Shapes: B batch, c latent channels, h and w of a latent, L tokens, D text width.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.plugins import LORA_LAYERS

from .base_training import TextPairs, tokenize, use_fast_attention
from .guidance import guidance_at
from .low_rank import add_low_rank
from .noise import noise_like
from .recipe import StudentRecipe
from .steps import Trained, state_at, train_steps
from .tokenizer import encode


def ddim(alpha_B: Tensor, after_B: Tensor, z_Bchw: Tensor, velocity_Bchw: Tensor) -> Tensor:
    """A step of DDIM by a velocity: z' = sqrt(a') D + sqrt(1 - a') e.

    The velocity points at the data D = sqrt(a) z - sqrt(1 - a) v and at the noise e = sqrt(1 - a) z
    + sqrt(a) v.

    Args:
        alpha_B, after_B: share of the picture's variance before and after, in [0, 1].
        z_Bchw: the latent. velocity_Bchw: predicted for it.

    Reference:
        Salimans and Ho, Progressive Distillation, 2022, appendix D.
    """
    (signal, noise), (to_signal, to_noise) = _sides(alpha_B), _sides(after_B)
    data_Bchw = signal * z_Bchw - noise * velocity_Bchw
    return to_signal * data_Bchw + to_noise * (noise * z_Bchw + signal * velocity_Bchw)


def velocity_between(alpha_B: Tensor, after_B: Tensor, z_Bchw: Tensor, then_Bchw: Tensor) -> Tensor:
    """The velocity by which one step of `ddim` goes from z to z': its inverse.

    In terms of angles, with sqrt(a) = cos p and sqrt(a') = cos p', DDIM is z' = cos(p - p') z -
    sin(p - p') v.

    Raises:
        InputError: two levels of which the second is not the cleaner one.

    Example:
        >>> a, b, z, v = torch.tensor([0.1]), torch.tensor([0.8]), torch.randn(1, 2, 3, 3), torch.randn(1, 2, 3, 3)
        >>> torch.allclose(velocity_between(a, b, z, ddim(a, b, z, v)), v, atol=1e-5)
        True
    """
    if not bool((after_B > alpha_B).all()):
        raise InputError(
            "noise levels",
            "a step does not lead to a cleaner one",
            "Draw with fewer steps than there are levels",
        )
    (signal, noise), (to_signal, to_noise) = _sides(alpha_B), _sides(after_B)
    turn_cos, turn_sin = (
        signal * to_signal + noise * to_noise,
        noise * to_signal - signal * to_noise,
    )
    return (turn_cos * z_Bchw - then_Bchw) / turn_sin


def _sides(alpha_B: Tensor) -> tuple[Tensor, Tensor]:
    return alpha_B.sqrt().view(-1, 1, 1, 1), (1.0 - alpha_B).sqrt().view(-1, 1, 1, 1)


def grid(levels: int, drawn_steps: int, substeps: int) -> Tensor:
    """Timesteps (S, K + 1) of the teacher within each step of the student; -1 is the picture
    itself.

    The first of a row is where the student steps from, the last where it arrives: trailing
    timesteps, as DDIM visits them.

    Example:
        >>> grid(1000, 2, 2).tolist()
        [[999, 749, 499], [499, 249, -1]]
    """
    # Trailing, so that the first step starts from nothing but noise.
    times_S = torch.tensor(
        [round(levels - step * levels / drawn_steps) - 1 for step in range(drawn_steps)]
    )
    after_S = (times_S - levels // drawn_steps).clamp(min=-1)
    share_K = torch.linspace(0.0, 1.0, substeps + 1)
    return (times_S[:, None] + (after_S - times_S)[:, None] * share_K).round().long()


class StudentLoss(nn.Module):
    """L = |v_student(z, t, c) - v*|^2, with v* the velocity that goes from z at t to z* at the end
    of the student's step.

    Progressive: t is the step's beginning, and z* where K steps of the guided teacher arrive.
        Consistency: t is any of the
    teacher's K places within the step; z* is where the student itself, without a gradient, jumps
    from one step of the teacher after t. At the last place that is the teacher's word alone, and
    from there it spreads to the beginning.

    Args:
        unet: the student.
        teacher: a UNet that predicts velocities, frozen.
        text_encoder: the text encoder of both, frozen.
        empty_L: token ids of the empty prompt.
        alpha_N: share of the picture's variance at each timestep.
        recipe: how.

    Reference:
        Meng et al., On Distillation of Guided Diffusion Models, 2023, sections 3.1 and 3.2; both
        stages at once, one guidance. Heek et al., Multistep Consistency Models, 2024, section 3.1;
        here with one distance for all places, and the student as it is in the place of its average.
    """

    def __init__(
        self,
        unet: Any,
        teacher: Any,
        text_encoder: Any,
        empty_L: Tensor,
        alpha_N: Tensor,
        recipe: StudentRecipe,
    ) -> None:
        super().__init__()
        self.unet = unet
        # In a tuple: what is frozen must enter neither the state nor the average.
        self.frozen = (teacher, text_encoder, empty_L, torch.cat([alpha_N, torch.ones(1)]), recipe)

    def __deepcopy__(self, memo: dict[int, Any]) -> StudentLoss:
        twin = StudentLoss.__new__(StudentLoss)
        nn.Module.__init__(twin)
        twin.unet, twin.frozen = copy.deepcopy(self.unet, memo), self.frozen
        return twin

    def forward(self, latent_Bchw: Tensor, ids_BL: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of scaled latents and their token ids."""
        text_encoder, alpha_N, recipe = (
            self.frozen[1],
            self.frozen[3].to(latent_Bchw.device),
            self.frozen[4],
        )
        times_SK = grid(len(alpha_N) - 1, recipe.drawn_steps, recipe.substeps)
        times_BK = times_SK[torch.randint(len(times_SK), (len(latent_Bchw),), generator=generator)]
        end_B, onwards = (
            times_BK[:, -1].to(latent_Bchw.device),
            recipe.distillation == "consistency",
        )
        if onwards:
            place_B = torch.randint(recipe.substeps, (len(latent_Bchw),), generator=generator)
            times_BK = times_BK.gather(1, torch.stack([place_B, place_B + 1], dim=1))
        times_BK = times_BK.to(latent_Bchw.device)
        alpha_BK = alpha_N[times_BK]  # -1 is the last, a picture without noise
        signal, noise = _sides(alpha_BK[:, 0])
        z_Bchw = signal * latent_Bchw + noise * noise_like(latent_Bchw, generator)
        with torch.no_grad():
            text_BLD = text_encoder(ids_BL)[0]
            then_Bchw = self._teach(z_Bchw, times_BK, alpha_BK, text_BLD)
            if onwards:  # where that is the end already, the jump is of no length
                velocity_Bchw = self.unet(
                    then_Bchw, times_BK[:, -1].clamp(min=0), text_BLD
                ).sample.float()
                then_Bchw = ddim(alpha_BK[:, -1], alpha_N[end_B], then_Bchw, velocity_Bchw)
            target_Bchw = velocity_between(alpha_BK[:, 0], alpha_N[end_B], z_Bchw, then_Bchw)
        guess_Bchw = self.unet(z_Bchw, times_BK[:, 0], text_BLD).sample.float()
        loss: Tensor = (guess_Bchw - target_Bchw).square().mean()
        return loss

    def _teach(
        self, z_Bchw: Tensor, times_BK: Tensor, alpha_BK: Tensor, text_BLD: Tensor
    ) -> Tensor:
        """Where the teacher's steps from the first of the timesteps to the last lead."""
        teacher, text_encoder, empty_L, alpha_N, recipe = self.frozen
        guidance, levels = float(recipe.teacher_guidance), len(alpha_N) - 1
        none_BLD = (
            text_encoder(empty_L[None].to(z_Bchw.device))[0].expand_as(text_BLD)
            if guidance > 1.0
            else None
        )
        for step in range(times_BK.shape[1] - 1):
            velocity_Bchw = teacher(z_Bchw, times_BK[:, step], text_BLD).sample.float()
            if none_BLD is not None:
                plain_Bchw = teacher(z_Bchw, times_BK[:, step], none_BLD).sample.float()
                scale_B = guidance_at(times_BK[:, step], levels, guidance, recipe.teacher_schedule)
                velocity_Bchw = plain_Bchw + scale_B.view(-1, 1, 1, 1) * (
                    velocity_Bchw - plain_Bchw
                )
            z_Bchw = ddim(alpha_BK[:, step], alpha_BK[:, step + 1], z_Bchw, velocity_Bchw)
        return z_Bchw


def fit_student(
    teacher: Any,
    latent_Nchw: Tensor,
    captions: Sequence[Sequence[str]],
    recipe: StudentRecipe,
    *,
    seed: int,
    device: torch.device,
    state_path: Path,
    facts: dict[str, Any],
    show: bool,
) -> Trained:
    """Trains a student of a pipeline.

    Args:
        teacher: a pipeline that predicts velocities, see `load_base`; its UNet and text encoder are
            not changed.
        latent_Nchw: scaled latents of N pictures.
        captions: their prompts.
        recipe: how.
        seed: the seed of everything random.
        device: the device to compute on.
        state_path: the file for the state; an unfinished run there is continued.
        facts: further facts that decide the weights, for the fingerprint of the state.
        show: progress bar.

    Returns:
        ``model.unet`` is the student with averaged weights; with a rank it has peft's adapter
        ``student`` on it.

    Raises:
        InputError: a base that does not predict velocities, or more steps than it has noise levels.
        TrainingError: see `train_steps`.
    """
    if (kind := teacher.scheduler.config.get("prediction_type")) != "v_prediction":
        raise InputError(
            f"a base of prediction type {kind}",
            "only velocities are distilled",
            "Give a base of `unplug train base`",
        )
    alpha_N = teacher.scheduler.alphas_cumprod.float()
    if recipe.drawn_steps * recipe.substeps > len(alpha_N):
        why = f"the base has {len(alpha_N)} noise levels"
        raise InputError(f"{recipe.drawn_steps} steps of {recipe.substeps}", why, "Ask for fewer")
    unet = copy.deepcopy(teacher.unet).requires_grad_(recipe.rank == 0)
    if recipe.rank:
        add_low_rank(unet, recipe.rank, LORA_LAYERS, seed)
    for network in (unet, teacher.unet):
        use_fast_attention(network, device)
    empty_L = encode(teacher.tokenizer, [""])[0]
    model = StudentLoss(unet, teacher.unet, teacher.text_encoder, empty_L, alpha_N, recipe)
    draw = TextPairs(latent_Nchw, tokenize(teacher.tokenizer, captions), empty_L, 0.0, device)
    state = state_at(state_path, "student", recipe, seed, facts)
    return train_steps(
        model, draw, recipe, seed=seed + 1, device=device, state=state, show=show, label="student"
    )
