"""Widths and depths of the conditioning plugin, and the bounds that a config.json must keep."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, TensorSpec

from .bounds import check_list, check_memory, check_plugin, check_whole
from .unet_levels import Level

if TYPE_CHECKING:
    from torch import Tensor

MAX_IMAGE_SIZE = 4096


@dataclass(frozen=True, kw_only=True)
class PluginSize:
    """A named width and depth, one entry a level; a base with more levels repeats the last entry.

    Args:
        stem: channels after each halving in front of the first level; fewer halvings take the
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
        """The arguments of `ConditioningPlugin` for a base of so many levels."""
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
    check_whole("stem_expand", config["stem_expand"], 1, 8)
    for name, (low, high) in {
        "widths": (4, 1024),
        "depths": (1, 16),
        "expand": (1, 8),
        "kernels": (3, 7),
    }.items():
        check_list(name, config[name], low, high, least=levels, most=levels)
    if any(kernel % 2 == 0 for kernel in config["kernels"]):
        raise InputError(
            f"kernels {list(config['kernels'])}", "one of them is even", "Use 3, 5 or 7"
        )
    check_whole("downscale", config["downscale"], 2, 64)
    check_whole("image_size", config["image_size"], config["downscale"], MAX_IMAGE_SIZE)
    check_plugin(config, config["downscale"], "Use what the VAE shrinks by, mostly 8")
    check_memory(count_kernels(config, residuals), _largest_tensor(config))


def stem_channels(stem: Sequence[int], downscale: int, first: Level) -> tuple[int, ...]:
    """Channels after each halving in front of the first level, which does the last one itself."""
    return repeat(stem, max(round(math.log2(downscale * first.scale)) - 1, 1))


def count_kernels(config: dict[str, Any], residuals: Sequence[Level]) -> int:
    """Parameters of all convolutions, without their norms and biases."""
    behind = stem_channels(config["stem"], config["downscale"], residuals[0])
    # 3 x 3 kernels of the first convolution, then bottlenecks: expand, depthwise, project
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


def _largest_tensor(config: dict[str, Any]) -> int:
    """A bound from above of the widest tensor in front of the first level, and in the levels."""
    side = config["image_size"] // (1 if config["downscale"] == 2 else 2)
    front = side**2 * max(config["stem"]) * max(config["stem_expand"], config["expand"][0])
    latent = (config["image_size"] // config["downscale"]) ** 2
    widest = max(a * b for a, b in zip(config["widths"], config["expand"], strict=True))
    return int(max(front, latent * widest))


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


def unit_range(config: Mapping[str, Any]) -> tuple[float, float]:
    """Gain and shift that put a condition's values into [-1, 1], whatever a plugin's input range."""
    # 2 (x - a) / (b - a) - 1, as one product and one sum
    first, last = map(float, config["input_range"])
    return 2.0 / (last - first), -(first + last) / (last - first)


def check_condition(config: Mapping[str, Any], x_BCHW: Tensor, side: int) -> None:
    """Raises `InputError` unless a plugin takes this picture: its channels, sides that `side`
    divides.
    """
    what = f"{config['condition']} condition of shape {list(x_BCHW.shape)}"
    channels = config["condition_channels"]
    if x_BCHW.ndim != 4 or x_BCHW.shape[1] != channels:
        why = f"the plugin takes (batch, {channels}, height, width)"
        raise InputError(what, why, "Convert the image to RGB first")
    if x_BCHW.shape[2] % side or x_BCHW.shape[3] % side:
        raise InputError(what, f"its sides are not multiples of {side}", "Resize it")


def check_fit(config: Mapping[str, Any], differences: Sequence[str]) -> None:
    """Raises `InputError`, saying what differs, where a plugin does not fit a base."""
    if differences:
        why = f"made for another base ({'; '.join(differences)})"
        fix = "Use the base that it was trained for, or train a plugin for this one"
        raise InputError(f"{config['condition']} plugin", why, fix)
