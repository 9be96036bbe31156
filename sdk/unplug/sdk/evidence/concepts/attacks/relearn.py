"""Relearning: a few steps of fine-tuning on pictures of the concept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from PIL import Image

from unplug.sdk.drawing.diffusion import (
    BaseLoss,
    StepRecipe,
    TextPairs,
    encode,
    tokenize,
    train_steps,
)
from unplug.sdk.forgetting.erasing import drawn_latents
from unplug.sdk.forgetting.unlearning import check_settings, within

from ..attack import Claim
from ..scene import Scene, fresh, with_own_unet

AFTER = (4, 12, 30, 100)
"""Steps after which pictures are drawn."""


@dataclass(frozen=True, kw_only=True)
class Relearn:
    """How soon a base draws the concept again: the whole UNet learns the original's pictures of it.

    A base that never saw the concept learns it as well, in its own time: that time is what an
    erasure is held against.

    Args:
        steps: of fine-tuning at most.
        batch_size: pictures a step.
        lr: peak learning rate of AdamW, which falls along a cosine.
        pictures: of the concept that the attacker has.
    """

    steps: int = within(1, 100_000, 30)
    batch_size: int = within(1, 4096, 12)
    lr: float = within(1e-8, 1.0, 1e-4)
    pictures: int = within(1, 100_000, 96)
    holds: ClassVar[Claim] = "weights"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, scene: Scene) -> Iterator[tuple[str, list[Image.Image]]]:
        """Pictures after 4, 12, 30 and 100 steps, as far as they go."""
        original, prompts = scene.original, scene.learn[: self.pictures]
        named = [scene.concept.named(prompt) for prompt in prompts]
        latent_Nchw = drawn_latents(original, named, scene.sampling, scene.show)
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

        recipe = StepRecipe(
            steps=self.steps,
            batch_size=self.batch_size,
            lr=self.lr,
            warmup=0,
            weight_decay=0.0,
            ema=0.0,
        )
        train_steps(
            model,
            draw,
            recipe,
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
