"""A mark in a decoder's weights: the loss that writes it, and the weather that it has to survive.

Shapes: B batch, K bits, H = W side of a picture.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from .vae import to_image, to_pixels

Weather = Literal["none", "jpeg", "half", "crop", "light", "noise", "all"]
WEATHERS: tuple[Weather, ...] = get_args(Weather)
LEAST_CROP, LEAST_SIDE, LEAST_QUALITY = 0.75, 0.4, 60
LIGHT, NOISE = 0.4, 0.1
MOVED = 0.5
"""How often a crop comes before a weather that is none: nothing is where it was drawn."""


def weathered(
    image_BCHW: Tensor, generator: torch.Generator, kind: Weather | None = None
) -> Tensor:
    """Pictures after what happens to pictures: JPEG, fewer pixels, a crop, more or less light, noise.

    A crop is laid as the detector lays it: about as large as it was, what is missing mirrored. JPEG
    has no gradient; what it changes is added as a constant.

    Args:
        image_BCHW: pictures in [-1, 1].
        generator: draws how much.
        kind: the change; None draws one, and in `MOVED` of all draws a crop before it. "all" is a
            crop, light and JPEG.

    Returns:
        The same shape.
    """

    def between(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=generator))

    side, moved = image_BCHW.shape[-1], kind in ("crop", "all")
    if kind is None:
        kind = WEATHERS[int(torch.randint(len(WEATHERS), (1,), generator=generator))]
        moved = kind in ("crop", "all") or between(0.0, 1.0) < MOVED
    if moved:
        kept = round(between(LEAST_CROP, 1.0) * side)
        y, x = (int(torch.randint(side - kept + 1, (1,), generator=generator)) for _ in "yx")
        shown = min(side, round(between(0.9, 1.12) * kept))
        image_BCHW = resized(image_BCHW[..., y : y + kept, x : x + kept], shown)
        low = (side - shown) // 2
        around = (low, side - shown - low, low, side - shown - low)
        image_BCHW = functional.pad(image_BCHW, around, mode="reflect")
    if kind == "half":
        image_BCHW = resized(resized(image_BCHW, round(between(LEAST_SIDE, 0.8) * side)), side)
    if kind in ("light", "all"):
        light, contrast = between(1 - LIGHT, 1 + LIGHT), between(0.8, 1.2)
        image_BCHW = (((image_BCHW + 1) * light - 1).clamp(-1, 1) * contrast).clamp(-1, 1)
    if kind == "noise":
        noise = torch.randn(image_BCHW.shape, generator=generator).to(image_BCHW)
        image_BCHW = image_BCHW + between(0.0, NOISE) * noise
    if kind in ("jpeg", "all"):
        quality = round(between(LEAST_QUALITY, 95))
        image_BCHW = image_BCHW + (_through_jpeg(image_BCHW, quality) - image_BCHW).detach()
    return image_BCHW


def resized(image_BCHW: Tensor, side: int) -> Tensor:
    """Bilinear, averaged over what a pixel covers where it gets smaller."""
    return functional.interpolate(
        image_BCHW, (side, side), mode="bilinear", antialias=True, align_corners=False
    )


def _through_jpeg(image_BCHW: Tensor, quality: int) -> Tensor:
    made = []
    for picture in to_pixels(image_BCHW.detach()):
        memory = io.BytesIO()
        Image.fromarray(picture).save(memory, "JPEG", quality=quality)
        made.append(np.asarray(Image.open(memory)))
    return to_image(np.stack(made), image_BCHW.device)


class MarkLoss(nn.Module):
    """L = - mean over bits of log p(key_k | weathered picture), with a reader that stays as it is.

    Args:
        reader: a `MarkReader`, frozen.
        side: pixels of the pictures that it looks at.
        key_K: bits, 0 or 1.
        weather: changes a picture, see `weathered`.

    Reference:
        Fernandez et al., The Stable Signature, 2023, section 4.2.
    """

    def __init__(
        self,
        reader: Any,
        side: int,
        key_K: Tensor,
        weather: Callable[[Tensor, torch.Generator], Tensor] = weathered,
    ) -> None:
        super().__init__()
        # in a tuple: what is frozen must enter neither the state nor the average
        self.frozen = (reader.requires_grad_(False).eval(), key_K, weather)
        self.side = side

    def forward(self, image_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of pictures in about [-1, 1]."""
        reader, key_K, weather = self.frozen
        each = image_BCHW.clamp(-1, 1).split(1)
        seen_BCHW = torch.cat([weather(one_1CHW, generator) for one_1CHW in each])
        seen_BCHW = resized(seen_BCHW, self.side) if seen_BCHW.shape[-1] != self.side else seen_BCHW
        logits_BK = reader.to(seen_BCHW)(seen_BCHW / 2 + 0.5)["bits"]
        wanted_BK = key_K.to(logits_BK).expand_as(logits_BK)
        return functional.binary_cross_entropy_with_logits(logits_BK, wanted_BK)
