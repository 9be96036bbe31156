"""Erased stable diffusion: prompts with the words learn to steer away from the concept."""

from __future__ import annotations

from dataclasses import dataclass

from unplug.sdk.forgetting.unlearning import within

from ..problem import EraseProblem
from ..tuning import Tuned, Tuning, redirect, said_rows


@dataclass(frozen=True, kw_only=True)
class ESD(Tuning):
    """v(x, c) learns v*(x, c) - eta (v*(x, c) - v*(x, g)), see `Redirect`, on pictures of the concept
    that the original draws.

    ``layers=cross`` is the authors' ESD-x in its strict form, ``layers=all`` changes what their ESD-u
    does and cross-attention as well. Their x comes from the network's own half-drawn pictures, their
    g is the empty prompt and nothing is held; here x is a drawn picture with noise, g the prompt
    without the words, and half of the samples hold other prompts.

    Args:
        eta: negative guidance; 1 answers as without the words, more goes beyond that. Published: 2.
        keep: weight of other prompts' staying as they are; published: 0.
        steps, batch_size, lr, pictures, layers: see `Tuning`. Published: 200 of 1 at 5e-5.

    Reference:
        Gandikota et al., Erasing Concepts from Diffusion Models, 2023.
    """

    steps: int = within(1, 1_000_000, 30)
    lr: float = within(1e-8, 1.0, 2e-3)
    pictures: int = within(1, 100_000, 32)
    layers: Tuned = "cross"
    eta: float = within(0.0, 100.0, 1.5)
    keep: float = within(0.0, 1e6, 1.0)

    def __call__(self, problem: EraseProblem) -> None:
        """Fine-tunes on all concepts, earlier ones too."""
        draw = said_rows(problem, self.prompts(problem))
        self.fit(problem, lambda unet: redirect(problem, unet, eta=self.eta, keep=self.keep), draw)
