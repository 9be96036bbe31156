"""A quick decoder learns an autoencoder's latents: from pictures, and from pictures that the base
draws.

Shapes: B batch, N pictures, c latent channels, h and w of a latent, H and W of a picture.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unplug.plugins import QuickDecoder

from .load import FACTOR
from .mark_loss import MarkLoss
from .noise import noise_like
from .vae import RandomFeatures, reconstruction, to_image

WHOLE_EVERY = 3
"""One step in so many sees whole pictures: crops show neither borders nor what lies far apart."""


class DecoderLoss(nn.Module):
    """L = |x' - x| + |grad x' - grad x| / 2 + |f(x') - f(x)| / 2, with x' decoded from a latent with
    a little noise on it, as in `VAELoss`.

    Args:
        decoder: the quick decoder.
        jitter: standard deviation of the noise, in latents that are not scaled.
        mark: adds its loss of whole pictures, `weight` times.
    """

    def __init__(
        self,
        decoder: QuickDecoder,
        jitter: float,
        mark: MarkLoss | None = None,
        weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.decoder, self.features, self.jitter = decoder, RandomFeatures(), jitter
        self.mark, self.weight = mark, weight

    def forward(
        self, latent_Bchw: Tensor, image_BCHW: Tensor, generator: torch.Generator
    ) -> Tensor:
        """The mean loss of images in [-1, 1] and their latents."""
        noise_Bchw = self.jitter * noise_like(latent_Bchw, generator)
        decoded_BCHW = self.decoder.decode(latent_Bchw + noise_Bchw).float()
        loss: Tensor = reconstruction(decoded_BCHW, image_BCHW)
        loss = loss + 0.5 * self.features.distance(decoded_BCHW, image_BCHW)
        whole = decoded_BCHW.shape[-1] == self.decoder.config["image_size"]
        if self.mark is not None and whole:
            loss = loss + self.weight * self.mark(decoded_BCHW, generator)
        return loss


class LatentCrops:
    """Draws crops of pictures with those of their latents; every third time whole pictures, fewer.

    Args:
        latent_Nchw: not scaled.
        pictures: gives uint8 pixels (B, H, W, 3) of some of the N.
        crop: side of the crops in pixels; at least the pictures' takes them whole.
        device: the device for the crops.
    """

    def __init__(
        self,
        latent_Nchw: Tensor,
        pictures: Callable[[list[int]], NDArray[np.uint8]],
        crop: int,
        device: torch.device,
    ) -> None:
        self.latent_Nchw, self.pictures, self.device = latent_Nchw, pictures, device
        self.crop = min(crop // FACTOR, latent_Nchw.shape[-1])

    def __call__(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """``latent_Bchw`` and ``image_BCHW`` in [-1, 1]."""
        side = self.latent_Nchw.shape[-1]
        whole = int(torch.randint(WHOLE_EVERY, (1,), generator=generator)) == 0
        crop = side if whole else self.crop
        count = max(1, round(count * (self.crop / side) ** 2)) if whole else count
        rows_B = torch.randint(len(self.latent_Nchw), (count,), generator=generator)
        y, x = (int(torch.randint(side - crop + 1, (1,), generator=generator)) for _ in "yx")
        ys, xs = (slice(FACTOR * at, FACTOR * (at + crop)) for at in (y, x))
        return {
            "latent_Bchw": self.latent_Nchw[rows_B, :, y : y + crop, x : x + crop].to(self.device),
            "image_BCHW": to_image(self.pictures(rows_B.tolist())[:, ys, xs], self.device),
        }
