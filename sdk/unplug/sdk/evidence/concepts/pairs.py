"""Pictures with a concept, and the same or their like without it: what a judge is trained on.

Pictures are (N, 3, S, S) in [-1, 1], as `unplug.sdk.drawing.diffusion.to_image` gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from unplug.core import DataError
from unplug.sdk.drawing.diffusion import decoded, generate, image_size_of, to_image
from unplug.sdk.learning.data import load_dataset

CPU = torch.device("cpu")
SIDE = 128
AT_ONCE = 32
"""Pictures that an autoencoder takes."""


@dataclass(frozen=True, kw_only=True)
class ConceptPairs:
    """Pictures with a concept and without it.

    Args:
        with_NCHW, without_NCHW: pictures of one size; if both sets have as many, those with the
            same index are the same picture but for the concept.
        source: the source of the pictures, for the record.
    """

    with_NCHW: Tensor
    without_NCHW: Tensor
    source: str


def pairs_of_spec(spec: str, without: str, size: int, *, base: Any = None) -> ConceptPairs:
    """Drawn faces that differ in one thing: of two specs the pictures that are not the same.

    Args:
        spec: the spec with the concept, for example
            ``synth:n=400,subjects=400,seed=1,wears=eye-patch``.
        without: the same without it.
        size: side in pixels.
        base: the base; the pictures pass through its autoencoder, so that they look like pictures
            that it draws, see `through`.

    Raises:
        DataError: other samples in one than in the other, or nothing that differs.
    """
    shown, plain = (load_dataset(one, size, show=False) for one in (spec, without))
    if shown.ids != plain.ids:
        raise DataError(
            f"data {without}", f"it has other samples than {spec}", "Leave out only the concept"
        )
    rows = np.arange(len(shown))
    pictures = [data.pixels(rows) for data in (shown, plain)]
    differs_N = (pictures[0] != pictures[1]).any(axis=(1, 2, 3))
    if not differs_N.any():
        raise DataError(f"data {spec}", f"its pictures are those of {without}", "Name a concept")
    return _pairs([one[differs_N] for one in pictures], spec, base)


def pairs_of_folders(shown: Path, plain: Path, size: int, *, base: Any = None) -> ConceptPairs:
    """Anybody's pictures: a folder of those that show the concept and one of those that do not.

    Args:
        shown, plain: folders of pictures.
        size: side in pixels.
        base: see `pairs_of_spec`.

    Raises:
        DataError: no pictures in one of them, or some that cannot be read.
    """
    folders = [load_dataset(f"imagefolder:{folder}", size, show=False) for folder in (shown, plain)]
    pictures = [data.pixels(range(len(data))) for data in folders]
    return _pairs(pictures, f"imagefolder:{shown.name}", base)


def pairs_of_draws(
    base: Any, prompts: Sequence[str], words: str, *, seeds: Sequence[int], **how: Any
) -> ConceptPairs:
    """A base's own pictures of the same prompt from the same noise, with the words and without.

    No renderer is needed, and what the base cannot draw is not a concept of it. Where it draws the
    concept unasked, or not when asked, the judge learns a little noise.

    Args:
        base: see `unplug.sdk.drawing.diffusion.load_base`.
        prompts: N prompts that do not say the words.
        words: the words of the concept, put after each prompt.
        seeds: N seeds.
        how: the settings of `unplug.sdk.drawing.diffusion.generate`, which must be those of the
            pictures to judge.
    """
    size = image_size_of(base)
    sides = [
        generate(base, asked, seeds=seeds, size=size, **how)
        for asked in ([f"{prompt}, {words}" for prompt in prompts], list(prompts))
    ]
    pictures = [np.stack([np.asarray(one.convert("RGB")) for one in side]) for side in sides]
    return _pairs(pictures, f"draws: {words}", None)


def _pairs(pictures: Sequence[Any], source: str, base: Any) -> ConceptPairs:
    shown, plain = (to_image(np.ascontiguousarray(one), CPU) for one in pictures)
    if base is not None:
        shown, plain = through(base, shown), through(base, plain)
    return ConceptPairs(with_NCHW=at_most(shown), without_NCHW=at_most(plain), source=source)


def at_most(image_NCHW: Tensor) -> Tensor:
    """Pictures averaged down to `SIDE` where they are larger: a judge sees no finer."""
    large = image_NCHW.shape[-1] > SIDE
    return F.adaptive_avg_pool2d(image_NCHW, SIDE) if large else image_NCHW


@torch.no_grad()
def through(base: Any, image_NCHW: Tensor) -> Tensor:
    """Pictures as a base's decoder gives them back: what it cannot show is not evidence."""
    vae, parts = base.vae, list[Tensor]()
    for part in image_NCHW.split(AT_ONCE):
        latent = vae.encode(part.to(vae.device, vae.dtype)).latent_dist.mode()
        parts.append(decoded(base, latent))
    return torch.cat(parts).float().clamp(-1, 1).cpu()
