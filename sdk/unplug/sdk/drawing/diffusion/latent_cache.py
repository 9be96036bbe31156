"""Latents, text embeddings and conditions of a data set, computed once and memory-mapped from disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import json_sha256, open_array, progress, use_cache, write_array
from unplug.sdk.learning.data import Dataset, note_people

from .digest import settings_of, weights_digest
from .tokenizer import encode
from .vae import pictures_at_once, to_image

FORMAT = "unplug-diffusion/1"
PROMPTS = 256
"""Encoded at once."""


def cached_array(
    facts: dict[str, Any],
    shape: tuple[int, ...],
    dtype: str,
    blocks: Iterable[NDArray[Any]],
    of: Dataset | None = None,
) -> NDArray[Any]:
    """A read-only array on disk, written block by block the first time.

    Args:
        facts: all that decides the content; their hash is the file's name.
        shape, dtype: the shape and type of the whole array.
        blocks: its parts along the first axis, in order; not touched where the file is there.
        of: the data set whose pictures it comes from.
    """
    key = json_sha256({"format": FORMAT, "shape": shape, "dtype": dtype, **facts})[:32]
    path = use_cache() / "diffusion" / f"{facts['kind']}-{key}.npy"
    array = open_array(path, shape, dtype)
    if array is None:
        write_array(path, shape, dtype, blocks)
        array = np.load(path, mmap_mode="r")
    if of is not None:
        note_people(path, of.spec, of.samples)
    return array


def latents(base: Any, dataset: Dataset, *, show: bool) -> NDArray[Any]:
    """Scaled posterior means (N, c, h, w) of all pictures, float16."""
    vae = base.vae
    factor = 2 ** (len(vae.config.block_out_channels) - 1)
    side = dataset.size // factor
    shape = (len(dataset), int(vae.config.latent_channels), side, side)
    # Of the encoder alone: a decoder that has learned more leaves latents as they are.
    encoder = weights_digest(*(part for part in (vae.encoder, vae.quant_conv) if part is not None))
    facts = {
        "kind": "latents",
        "data": dataset.content,
        "encoder": encoder,
        "settings": settings_of(vae),
    }
    size = pictures_at_once(dataset.size)

    @torch.no_grad()
    def blocks() -> Iterable[NDArray[Any]]:
        with progress(total=len(dataset), label="latents", show=show) as bar:
            for start in range(0, len(dataset), size):
                rows = range(start, min(start + size, len(dataset)))
                image_BCHW = to_image(dataset.pixels(rows), vae.device).to(vae.dtype)
                mean = vae.encode(image_BCHW).latent_dist.mean.float() * vae.config.scaling_factor
                yield mean.cpu().numpy()
                bar.update(len(rows))

    return cached_array(facts, shape, "float16", blocks(), of=dataset)


def text_embeddings(base: Any, prompts: Sequence[str], *, show: bool) -> NDArray[Any]:
    """What the base's cross-attention sees (N, L, D) of N prompts, float16."""
    encoder, tokenizer = base.text_encoder, base.tokenizer
    width = int(encoder.config.hidden_size)
    shape = (len(prompts), int(tokenizer.model_max_length), width)
    ids_BL = [
        encode(tokenizer, list(prompts[start : start + PROMPTS]))
        for start in range(0, len(prompts), PROMPTS)
    ]
    # of the ids, not of the texts: another tokenizer reads the same texts in another way
    words = hashlib.sha256()
    for part_BL in ids_BL:
        words.update(part_BL.numpy().tobytes())
    facts = {
        "kind": "text",
        "ids": words.hexdigest(),
        "encoder": weights_digest(encoder),
        "settings": settings_of(encoder),
    }

    @torch.no_grad()
    def blocks() -> Iterable[NDArray[Any]]:
        with progress(total=len(prompts), label="text", unit="text", show=show) as bar:
            for part_BL in ids_BL:
                yield encoder(part_BL.to(encoder.device))[0].float().cpu().numpy()
                bar.update(len(part_BL))

    return cached_array(facts, shape, "float16", blocks())
