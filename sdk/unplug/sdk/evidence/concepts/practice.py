"""What attacks that learn from pictures of the concept have in common."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unplug.sdk.drawing.diffusion import StepRecipe
from unplug.sdk.forgetting.erasing import drawn_latents
from unplug.sdk.forgetting.unlearning import check_settings, within

from .scene import Scene


@dataclass(frozen=True, kw_only=True)
class Practice:
    """Gradient steps of an attacker, who has pictures that the original drew of the concept.

    Args:
        steps: the number of optimizer steps.
        batch_size: pictures a step.
        lr: peak learning rate of AdamW, which falls along a cosine.
        pictures: the number of pictures of the concept that the attacker has.
    """

    steps: int = within(1, 100_000, 30)
    batch_size: int = within(1, 4096, 12)
    lr: float = within(1e-8, 10.0, 1e-4)
    pictures: int = within(1, 100_000, 96)

    def __post_init__(self) -> None:
        check_settings(self)

    def shown(self, scene: Scene) -> tuple[tuple[str, ...], Tensor]:
        """Prompts that do not say the concept, and latents (N, c, h, w) of what the original draws
        of them with it.
        """
        prompts = scene.learn[: self.pictures]
        named = [scene.concept.named(prompt) for prompt in prompts]
        return prompts, drawn_latents(scene.original, named, scene.sampling, scene.show)

    def recipe(self, ema: float) -> StepRecipe:
        """How `train_steps` trains; `ema` averages the weights."""
        return StepRecipe(
            steps=self.steps,
            batch_size=self.batch_size,
            lr=self.lr,
            warmup=0,
            weight_decay=0.0,
            ema=ema,
        )
