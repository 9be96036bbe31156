"""Saliency unlearning: prompts with the words learn the answers without them, in the weights alone
that the concept speaks to most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unplug.sdk.drawing.diffusion import noise_anywhere
from unplug.sdk.forgetting.unlearning import top_share, within
from unplug.sdk.learning.training import seeded

from ..problem import EraseProblem
from ..tuning import PairRows, Tuned, Tuning, redirect, said_rows


@dataclass(frozen=True, kw_only=True)
class SalientRelabel(Tuning):
    """v(x, c) learns v*(x, g), see `Redirect`, on pictures x of the concept, and a weight moves only
    if |grad L(x, c)|, with L the base's own loss on those pictures, is among the largest.

    g is the prompt without the words, or with the target in their place; the authors take another
    class, and pictures of other classes with the base's own loss for what must stay, where half of
    the samples here hold the original's answers to other prompts. Their L is guided, this one plain.

    Args:
        ratio: share of the weights that may move. Published: .5.
        keep: weight of other prompts' staying as they are.
        steps, batch_size, lr, pictures, layers: see `Tuning`. Published: 5 epochs of 8 at 1e-5.

    Reference:
        Fan et al., SalUn: Empowering Machine Unlearning via Gradient-based Weight Saliency, 2024.
    """

    steps: int = within(1, 1_000_000, 30)
    lr: float = within(1e-8, 1.0, 2e-3)
    pictures: int = within(1, 100_000, 32)
    layers: Tuned = "cross"
    ratio: float = within(1e-6, 1.0, 0.5)
    keep: float = within(0.0, 1e6, 1.0)

    def __call__(self, problem: EraseProblem) -> None:
        """Fine-tunes on all concepts, earlier ones too."""
        draw = said_rows(problem, self.prompts(problem))

        def loss(unet: Any) -> nn.Module:
            mask = top_share(saliency(problem, unet, draw, self.batch_size), self.ratio)
            for name, parameter in unet.named_parameters():
                if name in mask:
                    parameter.register_hook(mask[name].mul)
            return redirect(problem, unet, keep=self.keep)

        self.fit(problem, loss, draw)


def saliency(
    problem: EraseProblem, unet: Any, draw: PairRows, batch_size: int
) -> dict[str, Tensor]:
    """|grad of the summed loss| of every tensor that learns, on all pictures with what they say.

    Args:
        problem: the problem; its seed draws the noise.
        unet: not changed.
        draw: has the pictures.
        batch_size: pictures at once.
    """
    original = problem.original
    learns = {name: value for name, value in unet.named_parameters() if value.requires_grad}
    total = {name: torch.zeros_like(value) for name, value in learns.items()}
    with seeded(problem.seed, 43) as generator:
        for start in range(0, len(draw.latent_Nchw), batch_size):
            part = slice(start, start + batch_size)
            clean_Bchw = draw.latent_Nchw[part].to(problem.device)
            text_BLD = original.text_encoder(draw.ids_N2L[part, 0].long().to(problem.device))[0]
            noised = noise_anywhere(original.scheduler, clean_Bchw, generator)
            guess_Bchw = unet(noised.latent_Bchw, noised.step_B, text_BLD).sample
            loss = (guess_Bchw - noised.target_Bchw).square().mean(dim=(1, 2, 3)).sum()
            slopes = torch.autograd.grad(loss, [*learns.values()])
            for name, slope in zip(learns, slopes, strict=True):
                total[name] += slope
    return {name: value.abs() for name, value in total.items()}
