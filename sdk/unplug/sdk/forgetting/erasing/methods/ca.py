"""Concept ablation: the network's answer to prompts with the words becomes its own answer to the
prompts without them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unplug.sdk.drawing.diffusion import noise_anywhere, sample_loss, tokenize
from unplug.sdk.forgetting.unlearning import within

from ..problem import EraseProblem
from ..tuning import PairRows, Tuned, Tuning, WithFrozen, meant_rows


@dataclass(frozen=True, kw_only=True)
class ConceptAblation(Tuning):
    """L = |v(x, c) - stop[v(x, g)]|^2 + prior |v(x, g) - v_x|^2 on pictures x of the anchor g, which
    the original draws: the model-based form.

    v_x is what the base learns from x by its own loss. The anchor is the prompt without the words, or
    with the target in their place; the authors' prompts come from a language model and their
    pictures from many more steps.

    Args:
        prior: weight of the base's own loss on the anchor's pictures, which alone holds retained
            words. Published: 0, or 1 for memorized pictures.
        steps, batch_size, lr, pictures, layers: see `Tuning`. Published: 100 of 8 at 1.6e-5.

    Reference:
        Kumari et al., Ablating Concepts in Text-to-Image Diffusion Models, 2023.
    """

    steps: int = within(1, 1_000_000, 30)
    lr: float = within(1e-8, 1.0, 1e-3)
    pictures: int = within(1, 100_000, 32)
    layers: Tuned = "cross"
    prior: float = within(0.0, 1e6, 0.1)

    def __call__(self, problem: EraseProblem) -> None:
        """Fine-tunes on all concepts, earlier ones too, and on the retained words."""
        original = problem.original
        parts = {"text_encoder": original.text_encoder, "scheduler": original.scheduler}
        latent_Nchw, pairs = meant_rows(problem, self.prompts(problem))
        draw = PairRows(latent_Nchw, tokenize(original.tokenizer, pairs), None, problem.device)
        self.fit(problem, lambda unet: Ablation(unet, **parts, prior=self.prior), draw)


class Ablation(WithFrozen):
    """The loss of `ConceptAblation`."""

    def forward(self, latent_Bchw: Tensor, ids_B2L: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of scaled latents with their pairs of token ids."""
        noised = noise_anywhere(self.scheduler, latent_Bchw, generator)
        said_BLD, meant_BLD = (self.text_encoder(ids_BL)[0] for ids_BL in ids_B2L.unbind(1))
        at = (noised.latent_Bchw, noised.step_B)
        anchor_Bchw = self.unet(*at, meant_BLD).sample
        guess_Bchw = self.unet(*at, said_BLD).sample.float()
        away = (guess_Bchw - anchor_Bchw.detach().float()).square().mean()
        own = sample_loss(lambda *_: anchor_Bchw, noised).mean()
        loss: Tensor = away + self.prior * own
        return loss
