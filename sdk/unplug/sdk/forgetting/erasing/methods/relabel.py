"""Relabelled fine-tuning: prompts with the words learn the pictures that the base draws without
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from unplug.sdk.drawing.diffusion import BaseLoss, TextPairs, encode, tokenize
from unplug.sdk.forgetting.unlearning import within

from ..problem import EraseProblem
from ..tuning import Tuning, meant_rows


@dataclass(frozen=True, kw_only=True)
class Relabel(Tuning):
    """The base's own loss on pairs (prompt with the words, picture without), half of the time, and
    (prompt without, the same picture), the other half.

    Both are drawn by the original from the same noise, so that nobody needs photographs.

    Args:
        steps, batch_size, lr, layers, pictures: see `Tuning`.

    Reference:
        The relabelling baseline of Fan et al., SalUn, 2024, section 4, with the picture that the
        same noise gives as the label.
    """

    lr: float = within(1e-8, 1.0, 3e-4)

    def __call__(self, problem: EraseProblem) -> None:
        """Fine-tunes on all concepts, earlier ones too, and on the retained words."""
        latent_Nchw, rows = meant_rows(problem, self.prompts(problem))
        original = problem.original
        draw = TextPairs(
            latent_Nchw,
            tokenize(original.tokenizer, rows),
            encode(original.tokenizer, [""])[0],
            0.1,
            problem.device,
        )
        self.fit(
            problem,
            lambda unet: BaseLoss(unet, original.text_encoder, original.scheduler),
            draw,
        )
