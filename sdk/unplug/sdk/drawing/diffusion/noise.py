"""What a diffusion network learns: predicting the noise in a latent.

Shapes: B batch, c latent channels, h and w of a latent, L tokens, D text width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unplug.core import InputError

from .recipe import Timesteps, Weighting

MIN_SHARE = 0.005
"""Smallest share of signal that an error is divided by: the last step of a scheduler with zero
terminal SNR has none.
"""


@dataclass(frozen=True, kw_only=True)
class Noised:
    """Latents at random noise levels, and what is to be predicted from them.

    Args:
        latent_Bchw: noisy latents. step_B: their timesteps. target_Bchw: noise or velocity, as the
            scheduler says.
    """

    latent_Bchw: Tensor
    step_B: Tensor
    target_Bchw: Tensor


def draw_steps(count: int, total: int, timesteps: Timesteps, generator: torch.Generator) -> Tensor:
    """`count` timesteps: uniform, or t = (1 - u^3) T, which dwells on the noisy ones where
    structure is decided.

    Reference:
        Mou et al., T2I-Adapter, 2023, section 3.4 (cubic sampling).
    """
    u_B = torch.rand(count, generator=generator)
    share_B = u_B if timesteps == "uniform" else 1.0 - u_B**3
    return (share_B * total).long().clamp_(0, total - 1)


def add_noise(scheduler: Any, clean_Bchw: Tensor, step_B: Tensor, noise_Bchw: Tensor) -> Noised:
    """x_t = sqrt(a_t) x + sqrt(1 - a_t) e, with the target: e, or the velocity sqrt(a_t) e - sqrt(1
    - a_t) x.

    Args:
        scheduler: diffusers' scheduler of the base.
        clean_Bchw: scaled latents.
        step_B: timesteps.
        noise_Bchw: standard normal.

    Raises:
        InputError: the scheduler's base predicts something else.

    Reference:
        Salimans and Ho, Progressive Distillation, 2022, appendix D (velocity).
    """
    kind = scheduler.config.get("prediction_type")
    if kind not in ("epsilon", "v_prediction"):
        raise InputError(
            f"prediction type {kind!r}",
            "training it is not supported",
            "Use a base of epsilon or v_prediction",
        )
    # Not the scheduler's own add_noise: that of a sampler in terms of sigma (Euler, LMS) gives x +
    # sigma e.
    share_B = scheduler.alphas_cumprod.to(clean_Bchw.device)[step_B]
    signal_B111, spread_B111 = (
        share_B.sqrt().view(-1, 1, 1, 1),
        (1.0 - share_B).sqrt().view(-1, 1, 1, 1),
    )
    noisy_Bchw = signal_B111 * clean_Bchw + spread_B111 * noise_Bchw
    target_Bchw = (
        noise_Bchw if kind == "epsilon" else signal_B111 * noise_Bchw - spread_B111 * clean_Bchw
    )
    return Noised(latent_Bchw=noisy_Bchw, step_B=step_B, target_Bchw=target_Bchw)


def level_weight(scheduler: Any, step_B: Tensor, weighting: Weighting) -> Tensor:
    """Weights (B,) of the squared error of what a base predicts, so that it counts as an error of
    noise or of velocity.

    |v - v'|^2 = |e - e'|^2 / a_t = |e - e'|^2 (SNR + 1) / SNR

    Noise is easy to see where there is much of it: its error falls fifty-fold from the clean to the
    noisy steps, and with it what a control, which works at the noisy steps, gets of the gradient.
    The error of the velocity stays about level.

    Args:
        scheduler: the scheduler of the base. step_B: timesteps. weighting: the kind of error.

    Reference:
        Salimans and Ho, Progressive Distillation, 2022, section 4 (SNR + 1 weighting).
    """
    share_B: Tensor = scheduler.alphas_cumprod.to(step_B.device)[step_B].clamp(min=MIN_SHARE)
    predicted: Weighting = (
        "noise" if scheduler.config.get("prediction_type") == "epsilon" else "velocity"
    )
    if weighting == predicted:
        return torch.ones_like(share_B)
    return 1.0 / share_B if weighting == "velocity" else share_B


def noise_like(latent_Bchw: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal noise drawn on the CPU, so that a seed gives the same on every device."""
    return torch.randn(latent_Bchw.shape, generator=generator).to(latent_Bchw)


def noise_anywhere(scheduler: Any, clean_Bchw: Tensor, generator: torch.Generator) -> Noised:
    """Latents at noise levels of which each is as likely as any other, see `add_noise`."""
    total = int(scheduler.config.num_train_timesteps)
    step_B = draw_steps(len(clean_Bchw), total, "uniform", generator).to(clean_Bchw.device)
    return add_noise(scheduler, clean_Bchw, step_B, noise_like(clean_Bchw, generator))


def sample_loss(predict: Callable[[Tensor, Tensor], Tensor], noised: Noised) -> Tensor:
    """Mean squared error of each sample (B,)."""
    guess_Bchw = predict(noised.latent_Bchw, noised.step_B).float()
    return (guess_Bchw - noised.target_Bchw.float()).square().mean(dim=(1, 2, 3))
