"""Widths and depths of the conditioning plugin, and the bounds that a config.json must keep."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unplug.core import InputError, TensorSpec

from .unet_levels import Level

# eight times the budget; a hostile configuration is refused before memory is asked for
MAX_PARAMETERS = 50_000_000
MAX_IMAGE_SIZE = 4096
MAX_ACTIVATION = 2**29
"""Numbers in the largest tensor inside; Stable Diffusion XL's 1024 pixels need 2**25."""


@dataclass(frozen=True, kw_only=True)
class PluginSize:
    """A named width and depth, one entry a level; a base with more levels repeats the last entry.

    Args:
        stem: channels behind each halving in front of the first level; fewer halvings take the
            first ones.
        stem_expand: expansion factor of its inverted bottlenecks.
        widths: channels of each level.
        depths: inverted bottlenecks of each level.
        expand: their expansion factors.
        kernels: sides of their depthwise kernels.
    """

    stem: tuple[int, ...]
    stem_expand: int
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    expand: tuple[int, ...]
    kernels: tuple[int, ...]

    def config(self, levels: int) -> dict[str, Any]:
        """As arguments of `ConditioningPlugin` for a base of so many levels."""
        return {
            "stem": self.stem,
            "stem_expand": self.stem_expand,
            **{
                name: repeat(getattr(self, name), levels)
                for name in ("widths", "depths", "expand", "kernels")
            },
        }


PLUGIN_SIZES: dict[str, PluginSize] = {
    "nano": PluginSize(
        stem=(8, 16),
        stem_expand=1,
        widths=(24, 32, 48),
        depths=(1, 1, 1),
        expand=(2, 2, 2),
        kernels=(3, 3, 3),
    ),
    "small": PluginSize(
        stem=(24, 48),
        stem_expand=2,
        widths=(96, 144, 192),
        depths=(3, 3, 3),
        expand=(4, 4, 4),
        kernels=(5, 5, 5),
    ),
    "base": PluginSize(
        stem=(16, 24),
        stem_expand=1,
        widths=(48, 96, 192, 256),
        depths=(2, 3, 3, 3),
        expand=(3, 4, 4, 4),
        kernels=(5, 5, 5, 5),
    ),
}


def default_size(block_out_channels: Sequence[int]) -> str:
    """The size for a UNet: "base" for one as wide as Stable Diffusion's, else "small"."""
    return "base" if block_out_channels[0] >= 256 else "small"


def plugin_size(name: str) -> PluginSize:
    """The size of this name; `InputError` where there is none."""
    if name not in PLUGIN_SIZES:
        raise InputError(
            f"size {name!r}", "no such plugin", f"Choose one of {', '.join(PLUGIN_SIZES)}"
        )
    return PLUGIN_SIZES[name]


def repeat(values: Sequence[int], count: int) -> tuple[int, ...]:
    """The first `count` values; the last one stands for those that are missing.

    Example:
        >>> repeat((24, 32), 3)
        (24, 32, 32)
    """
    return tuple(values[min(index, len(values) - 1)] for index in range(count))


def check_plugin_config(config: dict[str, Any], residuals: Sequence[Level]) -> None:
    """Checks every number of a plugin's configuration.

    Args:
        config: the constructor's arguments.
        residuals: L of them, checked already.

    Raises:
        InputError: names the argument that is out of range.
    """
    levels = len(residuals)
    check_ints("stem", config["stem"], low=4, high=512, most=8)
    check_ints("stem_expand", [config["stem_expand"]], low=1, high=8)
    check_ints("widths", config["widths"], low=4, high=1024, count=levels)
    check_ints("depths", config["depths"], low=1, high=16, count=levels)
    check_ints("expand", config["expand"], low=1, high=8, count=levels)
    check_ints("kernels", config["kernels"], low=3, high=7, count=levels)
    if any(kernel % 2 == 0 for kernel in config["kernels"]):
        raise InputError(
            f"kernels {list(config['kernels'])}", "one of them is even", "Use 3, 5 or 7"
        )
    check_ints("condition_channels", [config["condition_channels"]], low=1, high=16)
    check_ints("downscale", [config["downscale"]], low=2, high=64)
    check_ints("image_size", [config["image_size"]], low=config["downscale"], high=MAX_IMAGE_SIZE)
    if config["downscale"] & (config["downscale"] - 1):
        raise InputError(
            f"downscale {config['downscale']}",
            "not a power of two",
            "Use what the VAE shrinks by, mostly 8",
        )
    if config["image_size"] % config["downscale"]:
        raise InputError(
            f"image_size {config['image_size']}",
            f"not a multiple of {config['downscale']}",
            "Use a multiple",
        )
    check_range(config["input_range"])
    if not isinstance(config["condition"], str) or not 1 <= len(config["condition"]) <= 64:
        raise InputError(
            "condition", "it is no name", "Give the name of a condition, for example canny"
        )
    parameters = count_kernels(config, residuals)
    if parameters > MAX_PARAMETERS:
        raise InputError(
            "plugin",
            f"it would have about {parameters:,} parameters",
            f"Stay below {MAX_PARAMETERS:,}",
        )
    _check_activation(config)


def stem_channels(stem: Sequence[int], downscale: int, first: Level) -> tuple[int, ...]:
    """Channels behind each halving in front of the first level, which does the last one itself."""
    return repeat(stem, max(round(math.log2(downscale * first.scale)) - 1, 1))


def count_kernels(config: dict[str, Any], residuals: Sequence[Level]) -> int:
    """Parameters of all convolutions, without their norms and biases."""
    behind = stem_channels(config["stem"], config["downscale"], residuals[0])
    total: int = 9 * config["condition_channels"] * behind[0]
    total += sum(_bottleneck(a, b, config["stem_expand"], 3) for a, b in itertools.pairwise(behind))
    before, scale = behind[-1], residuals[0].scale / 2
    names = ("widths", "depths", "expand", "kernels")
    for width, depth, expand, kernel, level in zip(
        *(config[name] for name in names), residuals, strict=True
    ):
        more = max(depth, round(math.log2(level.scale / scale))) - 1
        total += _bottleneck(before, width, expand, kernel) + more * _bottleneck(
            width, width, expand, kernel
        )
        total += width * level.channels
        before, scale = width, level.scale
    return total


def _bottleneck(before: int, after: int, expand: int, kernel: int) -> int:
    middle = before * expand
    return middle * ((before if expand > 1 else 0) + kernel * kernel + after)


def _check_activation(config: dict[str, Any]) -> None:
    """A bound from above of the widest tensor in front of the first level, and in the levels."""
    front = (config["image_size"] // (1 if config["downscale"] == 2 else 2)) ** 2 * max(
        config["stem"]
    )
    latent = (config["image_size"] // config["downscale"]) ** 2
    levels = latent * max(
        width * expand for width, expand in zip(config["widths"], config["expand"], strict=True)
    )
    largest = max(front * max(config["stem_expand"], config["expand"][0]), levels)
    if largest > MAX_ACTIVATION:
        raise InputError(
            "plugin",
            f"a tensor of up to {largest:,} numbers inside",
            f"Stay below {MAX_ACTIVATION:,}",
        )


def check_ints(
    name: str, values: Any, *, low: int, high: int, count: int | None = None, most: int = 1
) -> None:
    """Raises `InputError`, naming the argument, unless `values` are `count` (or 1 to `most`) whole
    numbers within bounds.
    """
    if not isinstance(values, list | tuple) or not (
        len(values) == count if count else 1 <= len(values) <= most
    ):
        wanted = str(count) if count else f"1 to {most}"
        raise InputError(
            f"{name} {str(values)[:200]}",
            "not a list of the right length",
            f"Give {wanted} numbers",
        )
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InputError(f"{name} {str(value)[:200]}", "out of range", f"Use {low} to {high}")


def check_range(span: Any) -> None:
    """Raises `InputError` unless `span` is a rising pair of numbers."""
    numbers = (
        isinstance(span, list | tuple)
        and len(span) == 2
        and all(isinstance(end, int | float) for end in span)
    )
    if not numbers or not all(map(math.isfinite, span)) or not span[0] < span[1]:
        raise InputError(
            f"input_range {str(span)[:200]}", "no rising pair of numbers", "Give for example [0, 1]"
        )


def condition_spec(config: Mapping[str, Any]) -> TensorSpec:
    """The condition that a plugin takes, of a batch of one, as its configuration says."""
    side, channels = config["image_size"], config["condition_channels"]
    low, high = config["input_range"]
    return TensorSpec(
        name="condition",
        shape=(1, channels, side, side),
        layout="NCHW",
        range=(float(low), float(high)),
        colour="RGB" if channels == 3 else None,
        description=f"Condition image: {config['condition']}",
    )
