"""Where a diffusers UNet takes residuals: one tensor a down block, its channels and its resolution.

A block with cross-attention adds it before its downsampler; a block without adds it to what left
the block, in place, so that the skip connection carries it as well. Shapes: L down blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unplug.core import InputError, TensorSpec

from .bounds import check_whole

WITH_ATTENTION = "CrossAttnDownBlock2D"
KINDS = (WITH_ATTENTION, "DownBlock2D", "AttnDownBlock2D")
MAX_LEVELS = 8
MAX_SAMPLE_SIZE = 4096
MAX_CHANNELS = 8192
"""Stable Diffusion XL stops at 1280; a config.json must not be able to ask for gigabytes."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """One residual.

    Args:
        channels: C of the tensor.
        scale: the latent's side over the tensor's: 1, 2, 4, ...
    """

    channels: int
    scale: int

    def __str__(self) -> str:
        return f"{self.channels} channels at 1/{self.scale} of the latent"


@dataclass(frozen=True, kw_only=True)
class Base:
    """What a plugin must know of its base.

    Args:
        block_out_channels: C of each down block.
        down_block_types: diffusers' class names.
        sample_size: side of the latent that the base was made for, or None.
    """

    block_out_channels: tuple[int, ...]
    down_block_types: tuple[str, ...]
    sample_size: int | None = None

    @property
    def levels(self) -> tuple[Level, ...]:
        """The encoder levels that a plugin adds its residuals to; see `residual_levels`."""
        return residual_levels(self.block_out_channels, self.down_block_types)


def read_base(unet: Any) -> Base:
    """Reads what matters from a UNet's configuration.

    Args:
        unet: a ``UNet2DConditionModel``, its ``config``, or the dictionary in its config.json.

    Raises:
        InputError: it is none of these, or a UNet that takes no residuals.
    """
    config = getattr(unet, "config", unet)
    values = config if isinstance(config, Mapping) else getattr(config, "__dict__", {})
    kind = values.get("_class_name", "UNet2DConditionModel")
    if kind != "UNet2DConditionModel":
        raise InputError(
            f"base of class {kind}",
            "plugins steer a UNet2DConditionModel",
            "Give the unet of a Stable Diffusion",
        )
    for name in ("block_out_channels", "down_block_types"):
        if not isinstance(values.get(name), Sequence):
            raise InputError(
                "UNet configuration",
                f"it has no list {name}",
                "Give unet.config or unet/config.json",
            )
    size = values.get("sample_size")
    if isinstance(size, list | tuple):  # height and width
        size = max(size, default=0)
    if size is not None:
        check_whole("sample_size", size, 1, MAX_SAMPLE_SIZE)
    base = Base(
        block_out_channels=tuple(values["block_out_channels"]),
        down_block_types=tuple(values["down_block_types"]),
        sample_size=size,
    )
    _ = base.levels  # raises now, not at first use
    return base


def residual_levels(
    block_out_channels: Sequence[int], down_block_types: Sequence[str]
) -> tuple[Level, ...]:
    """The residuals that a UNet pops from ``down_intrablock_additional_residuals``, in order.

    Down block i works at 1/2^i of the latent and every block but the last halves it on its way out.
    A block with cross-attention adds before that, any other one after it.

    Args:
        block_out_channels: L channel counts.
        down_block_types: L names of diffusers' blocks.

    Raises:
        InputError: lists of different or impossible length, channels out of range, or a block that
            takes no residual.

    Example:
        >>> [level.scale for level in residual_levels((320, 640, 1280), ("DownBlock2D",) + ("CrossAttnDownBlock2D",) * 2)]
        [2, 2, 4]
    """
    count = len(block_out_channels)
    if not 1 <= count <= MAX_LEVELS or count != len(down_block_types):
        why = f"{count} block_out_channels and {len(down_block_types)} down_block_types"
        raise InputError("UNet configuration", why, f"Give 1 to {MAX_LEVELS} of both")
    levels = []
    for index, (channels, kind) in enumerate(
        zip(block_out_channels, down_block_types, strict=True)
    ):
        check_whole(f"block_out_channels[{index}]", channels, 1, MAX_CHANNELS)
        if kind not in KINDS:
            raise InputError(
                f"down block {str(kind)[:200]!r}",
                "diffusers adds no residual to it",
                f"Use one of {', '.join(KINDS)}",
            )
        behind = kind != WITH_ATTENTION and index < count - 1
        levels.append(Level(channels=channels, scale=2 ** (index + behind)))
    return tuple(levels)


def residual_specs(levels: Sequence[Level], latent: int) -> tuple[TensorSpec, ...]:
    """The residuals as named tensors, for a square latent of side `latent`."""
    specs = []
    for index, level in enumerate(levels):
        side = -(-latent // level.scale)  # a stride of 2 rounds up
        specs.append(
            TensorSpec(
                name=f"adapter_res_samples_{index:02d}",
                shape=(1, level.channels, side, side),
                layout="NCHW",
                description=f"Added in down block {index} of the UNet",
            )
        )
    return tuple(specs)


def level_differences(own: Sequence[Level], base: Sequence[Level]) -> list[str]:
    """Says level by level what a plugin gives and what the base takes instead; empty where they
    fit.
    """
    return [
        f"level {index}: {mine or 'nothing'} for {wanted or 'nothing'}"
        for index, (mine, wanted) in enumerate(itertools.zip_longest(own, base))
        if mine != wanted
    ]
