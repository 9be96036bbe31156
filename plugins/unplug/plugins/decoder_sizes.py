"""Widths and depths of the quick decoder, and the bounds that a config.json must keep."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from unplug.core import InputError

from .bounds import check_list, check_memory, check_whole
from .plugin_sizes import MAX_IMAGE_SIZE

DECODER_SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "nano": {"widths": (64, 48, 24), "blocks": (2, 2, 2)},
    "small": {"widths": (96, 64, 32), "blocks": (3, 2, 3)},
    "base": {"widths": (128, 96, 40), "blocks": (3, 3, 3)},
}
"""Channels and residual blocks at each side, from the latent's on."""
MAX_LEVELS = 6
LATENTS = "latents_sha256"
"""The key of a decoder's configuration that says whose latents it reads, see `latents_sha256`."""


def check_quick_decoder(config: Mapping[str, Any]) -> None:
    """Refuses a configuration that is out of range; `InputError` names the setting."""
    widths, blocks = config["widths"], config["blocks"]
    check_list("widths", widths, 4, 1024, least=1, most=MAX_LEVELS)
    check_list("blocks", blocks, 0, 16, least=len(widths), most=len(widths))
    check_whole("latent_channels", config["latent_channels"], 1, 64)
    shrink = 2 ** len(widths)
    check_whole("image_size", config["image_size"], shrink, MAX_IMAGE_SIZE)
    if config["image_size"] % shrink:
        why = f"no multiple of {shrink}, by which a latent is smaller"
        raise InputError(f"image_size {config['image_size']}", why, "Use one")
    for name, least in (("scaling_factor", 1e-6), ("shift_factor", -1e6)):
        value = config[name]
        if not isinstance(value, int | float) or not least <= value <= 1e6:
            why = "latents cannot be scaled by it"
            raise InputError(f"{name} {str(value)[:200]}", why, "Use the autoencoder's")
    if not isinstance(config[LATENTS], str):
        raise InputError(LATENTS, "it is not a text", "Train the decoder again")
    kernels = sum(2 * 9 * depth * width**2 for width, depth in zip(widths, blocks, strict=True))
    kernels += sum(4 * a * b for a, b in itertools.pairwise(widths))
    check_memory(kernels, max(widths) * (config["image_size"] // 2) ** 2)
