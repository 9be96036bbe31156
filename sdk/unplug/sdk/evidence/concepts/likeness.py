"""How alike the pictures of an erased base and of its original are where no prompt says a concept.

Shapes: N pictures, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from unplug.core import Estimate
from unplug.sdk.drawing.diffusion import to_image
from unplug.sdk.evidence.statistics import (
    fit_gaussian,
    frechet_distance,
    mean_estimate,
    projection,
)

from .findings import FrechetApart
from .pairs import AT_ONCE

SHUFFLES = 3
"""How often the noises are cut into two halves."""


def same_noise_db(one: Sequence[Image.Image], other: Sequence[Image.Image], seed: int) -> Estimate:
    """Mean PSNR in dB of pictures that were drawn from the same noise; of 100 they are equal.

    Args:
        one, other: N pictures of two bases.
        seed: the seed of the interval.
    """
    one_NHWC, other_NHWC = (_pixels(side).astype(np.float64) / 255 for side in (one, other))
    error_N = np.square(one_NHWC - other_NHWC).mean(axis=(1, 2, 3))
    db_N = -10 * np.log10(np.maximum(error_N, 1e-10))
    return mean_estimate(db_N, np.arange(len(db_N)), seed)


def frechet_apart(
    erased: Sequence[Image.Image], original: Sequence[Image.Image], vae: Any, seed: int
) -> FrechetApart:
    """The Fréchet distance of two bases' pictures, in what their autoencoder sees.

    Picture n of both is drawn from the same noise, and two samples that share their noise are too
    close. So the noises are cut into two halves, three times, and the erased base's pictures of
    one half are compared with the original's of the other, both ways round; the original's own
    halves say what that gives where nothing was erased.

    Args:
        erased, original: N pictures, at least 6.
        vae: the autoencoder of both.
        seed: the seed of the halves.
    """
    half = len(original) // 2
    scale = float(vae.config.scaling_factor)  # to the unit variance that a UNet takes
    now_ND, then_ND = (
        scale * posterior_means(vae, _pixels(side), vae.device) for side in (erased, original)
    )
    reduce = projection(then_ND, half)
    now_NK, then_NK = reduce(now_ND), reduce(then_ND)
    rng, apart, alone = np.random.default_rng([seed, 929]), list[float](), list[float]()
    for _ in range(SHUFFLES):
        order_N = rng.permutation(len(original))
        sides = order_N[:half], order_N[half : 2 * half]
        ours, theirs = ([fit_gaussian(one[side]) for side in sides] for one in (now_NK, then_NK))
        apart += [frechet_distance(ours[0], theirs[1]), frechet_distance(ours[1], theirs[0])]
        alone.append(frechet_distance(theirs[0], theirs[1]))
    return FrechetApart(
        erased=float(np.mean(apart)),
        original=float(np.mean(alone)),
        pictures=half,
        components=then_NK.shape[1],
    )


@torch.no_grad()
def posterior_means(
    vae: Any, pictures_NHWC: NDArray[np.uint8], device: torch.device
) -> NDArray[np.float64]:
    """Latents (N, D) of pictures: features where no network knows what is in them."""
    parts = []
    for start in range(0, len(pictures_NHWC), AT_ONCE):
        image_BCHW = to_image(np.array(pictures_NHWC[start : start + AT_ONCE]), device)
        latent_Bchw = vae.encode(image_BCHW.to(vae.dtype)).latent_dist.mean
        parts.append(latent_Bchw.flatten(1).double().cpu().numpy())
    return np.concatenate(parts)


def _pixels(pictures: Sequence[Image.Image]) -> NDArray[np.uint8]:
    return np.stack([np.asarray(one.convert("RGB")) for one in pictures])
