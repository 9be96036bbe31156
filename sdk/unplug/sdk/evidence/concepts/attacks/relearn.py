"""Relearning: a few steps of fine-tuning on pictures of the concept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from PIL import Image

from unplug.sdk.drawing.diffusion import (
    BaseLoss,
    TextPairs,
    encode,
    tokenize,
    train_steps,
)

from ..findings import Claim
from ..practice import Practice
from ..scene import Scene, fresh, with_own_unet

AFTER = (4, 12, 30, 100)
"""Steps after which pictures are drawn."""


@dataclass(frozen=True, kw_only=True)
class Relearn(Practice):
    """How soon a base draws the concept again: the whole UNet learns the original's pictures of it.

    A base that never saw the concept learns it as well, in its own time: that time is what an
    erasure is held against.

    Args:
        steps, batch_size, lr, pictures: see `Practice`.
    """

    holds: ClassVar[Claim] = "weights"

    def __call__(self, scene: Scene) -> Iterator[tuple[str, list[Image.Image]]]:
        """Pictures after 4, 12, 30 and 100 steps, as far as they go."""
        original = scene.original
        prompts, latent_Nchw = self.shown(scene)
        named = [scene.concept.named(prompt) for prompt in prompts]
        pipe = with_own_unet(scene.base)
        model = BaseLoss(
            pipe.unet.requires_grad_(True), scene.base.text_encoder, scene.base.scheduler
        )
        draw = TextPairs(
            latent_Nchw,
            tokenize(original.tokenizer, [[text] for text in named]),
            encode(original.tokenizer, [""])[0],
            0.1,
            scene.device,
        )
        asked = [scene.concept.named(prompt) for prompt in scene.prompts]
        pictures = dict[int, list[Image.Image]]()

        def show(average: Any, step: int) -> None:
            if step in AFTER:
                pictures[step] = scene.draw(asked, fresh(scene.base, unet=average.unet))

        train_steps(
            model,
            draw,
            self.recipe(ema=0.0),
            seed=scene.seed,
            device=scene.device,
            on_sample=show,
            sample_every=1,
            show=scene.show,
            label="relearn",
        )
        for step in AFTER:
            if step in pictures:
                yield f"relearn {step}", pictures[step]
