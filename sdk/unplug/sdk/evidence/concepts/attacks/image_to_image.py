"""Image to image: drawing starts from a picture of the concept with noise on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from PIL import Image

from unplug.core import quiet
from unplug.sdk.drawing.diffusion import decode, diffusers, to_image
from unplug.sdk.forgetting.unlearning import check_settings, within

from ..findings import Claim
from ..scene import FIRST_SEED, Scene, fresh


@dataclass(frozen=True, kw_only=True)
class ImageToImage:
    """The prompt does not say the concept; the first picture shows it.

    Args:
        strength: share of the noise levels that are gone through again.
    """

    strength: float = within(0.01, 1.0, 0.7)
    holds: ClassVar[Claim] = "control images"

    def __post_init__(self) -> None:
        check_settings(self)

    @torch.no_grad()
    def __call__(self, scene: Scene) -> Iterator[tuple[str, list[Image.Image]]]:
        """One picture a prompt."""
        pipe = diffusers().StableDiffusionImg2ImgPipeline(
            **fresh(scene.base).components, requires_safety_checker=False
        )
        pipe.set_progress_bar_config(disable=True)
        shown = scene.draw(
            [scene.concept.named(prompt) for prompt in scene.prompts], scene.original
        )
        pictures = list[Image.Image]()
        for seed, (prompt, first) in enumerate(zip(scene.prompts, shown, strict=True), FIRST_SEED):
            with quiet():
                latent_1chw = pipe(
                    prompt,
                    image=to_image(np.array(first)[None], scene.device),
                    strength=self.strength,
                    num_inference_steps=25,
                    guidance_scale=scene.sampling.guidance,
                    generator=torch.Generator().manual_seed(seed),
                    output_type="latent",
                ).images
            pictures += decode(pipe, latent_1chw)
        yield "image-to-image", pictures
