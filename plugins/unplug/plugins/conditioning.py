"""The conditioning plugin: a small encoder next to a frozen diffusion UNet, run once per image.

Shapes: B batch, C channels, H and W of the condition image, L levels of the base's encoder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from unplug.core import InputError, IOSpec, MissingExtraError, quiet

from .blocks import bottleneck_stage, halving_stem, init_weights, network_line
from .diffusers_files import PluginFiles
from .plugin_sizes import (
    PLUGIN_SIZES,
    check_condition,
    check_fit,
    check_plugin_config,
    condition_spec,
    default_size,
    plugin_size,
    stem_channels,
    unit_range,
)
from .unet_levels import level_differences, read_base, residual_levels, residual_specs

try:
    with quiet():
        from diffusers.configuration_utils import ConfigMixin, register_to_config
        from diffusers.models.modeling_utils import ModelMixin
except ImportError as error:
    raise MissingExtraError("diffusers", "diffusion") from error

SD15_CHANNELS = (320, 640, 1280, 1280)
SD15_BLOCKS = (
    "CrossAttnDownBlock2D",
    "CrossAttnDownBlock2D",
    "CrossAttnDownBlock2D",
    "DownBlock2D",
)


class ConditioningPlugin(PluginFiles, ModelMixin, ConfigMixin):  # type: ignore[misc]
    """Condition image to one residual per down block of a frozen UNet; diffusers takes it for a
    T2I-Adapter.

    r_l = W_l f_l(...f_0(2 (x - a) / (b - a) - 1)) + b_l, with f_l a stage of inverted bottlenecks,
    [a, b] the input range, and W_l = 0 at the start, so that training begins at the bare base.

    Args:
        block_out_channels: L channel counts of the base.
        down_block_types: L block names of the base; they decide at which resolution a residual is
            added.
        condition: name of the condition that it was trained for.
        condition_channels: C of the condition image.
        downscale: H over the latent's height, a power of two: what the base's VAE shrinks by.
        image_size: H and W in pixels of the tensors in `iospec`; `forward` takes other sizes as
            well.
        input_range: smallest and largest value that `forward` expects; [0, 1] is what diffusers
            feeds.
        stem, stem_expand, widths, depths, expand, kernels: see `PluginSize`.

    Raises:
        InputError: an argument outside its range.

    Example:
        >>> import torch
        >>> plugin = ConditioningPlugin((32, 64), ("CrossAttnDownBlock2D", "DownBlock2D"), **PLUGIN_SIZES["nano"].config(2))
        >>> [tuple(residual.shape) for residual in plugin(torch.zeros(1, 3, 64, 64))]
        [(1, 32, 8, 8), (1, 64, 4, 4)]

    Reference:
        Sandler et al., MobileNetV2, 2018, section 3; Mou et al., T2I-Adapter, 2023, section 3.3
        (where residuals enter); Zhang et al., ControlNet, 2023, section 3.1 (projections that start
        at zero).
    """

    model_type: ClassVar[str] = "plugin"

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(
        self,
        block_out_channels: Sequence[int] = SD15_CHANNELS,
        down_block_types: Sequence[str] = SD15_BLOCKS,
        condition: str = "canny",
        condition_channels: int = 3,
        downscale: int = 8,
        image_size: int = 512,
        input_range: Sequence[float] = (0.0, 1.0),
        stem: Sequence[int] = PLUGIN_SIZES["base"].stem,
        stem_expand: int = PLUGIN_SIZES["base"].stem_expand,
        widths: Sequence[int] = PLUGIN_SIZES["base"].widths,
        depths: Sequence[int] = PLUGIN_SIZES["base"].depths,
        expand: Sequence[int] = PLUGIN_SIZES["base"].expand,
        kernels: Sequence[int] = PLUGIN_SIZES["base"].kernels,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.levels = residual_levels(block_out_channels, down_block_types)
        check_plugin_config(dict(self.config), self.levels)
        self.gain, self.shift = unit_range(self.config)
        behind = stem_channels(stem, downscale, self.levels[0])
        halved = downscale * self.levels[0].scale > 2
        # Not `stem`: on a diffusers model a name of the configuration hides a submodule of that
        # name.
        self.entry = halving_stem(
            condition_channels, behind, stride=2 if halved else 1, expand=stem_expand
        )
        stages, projections = list[nn.Sequential](), list[nn.Conv2d]()
        channels, scale = behind[-1], self.levels[0].scale / 2
        for level, width, depth, factor, kernel in zip(
            self.levels, widths, depths, expand, kernels, strict=True
        ):
            steps = round(math.log2(level.scale / scale))
            stages.append(
                bottleneck_stage(
                    channels, width, depth, halvings=steps, expand=factor, kernel=kernel
                )
            )
            projections.append(nn.Conv2d(width, level.channels, 1))
            channels, scale = width, level.scale
        self.stages, self.projections = nn.ModuleList(stages), nn.ModuleList(projections)
        self.apply(init_weights)
        for projection in projections:
            nn.init.zeros_(projection.weight)

    def __repr__(self) -> str:
        """One line: what it follows, at which size, and its parameters."""
        config: Any = self.config
        return network_line(self, f"{config.condition} at {config.image_size} px")

    @classmethod
    def for_unet(
        cls,
        config: Any,
        *,
        condition: str,
        image_size: int | None = None,
        size: str | None = None,
        downscale: int = 8,
        **overrides: Any,
    ) -> ConditioningPlugin:
        """A new, untrained plugin that fits a base.

        Args:
            config: a diffusers UNet2DConditionModel, its config, or the dictionary in its
                config.json.
            condition: name of the condition that it will be trained for.
            image_size: side of the base's images in pixels; default: the base's ``sample_size``
                times `downscale`.
            size: "nano", "small" (1.6 M parameters) or "base" (under 6 M); default: by the width of
                the base.
            downscale: the factor by which the base's VAE shrinks pictures.
            overrides: other constructor arguments, for example ``widths``.

        Raises:
            InputError: no such size, or a base that takes no residuals.

        Example:
            >>> base = {"block_out_channels": [32, 64], "down_block_types": ["DownBlock2D"] * 2, "sample_size": 16}
            >>> ConditioningPlugin.for_unet(base, condition="canny").config.image_size
            128
        """
        base = read_base(config)
        chosen = plugin_size(size or default_size(base.block_out_channels))
        if image_size is None and base.sample_size is None:
            raise InputError("UNet configuration", "it has no sample_size", "Give image_size")
        arguments: dict[str, Any] = {
            "block_out_channels": base.block_out_channels,
            "down_block_types": base.down_block_types,
            "condition": condition,
            "downscale": downscale,
            "image_size": (base.sample_size or 0) * downscale if image_size is None else image_size,
            **chosen.config(len(base.block_out_channels)),
        }
        plugin: ConditioningPlugin = cls(**(arguments | overrides))
        return plugin

    def forward(self, x_BCHW: Tensor) -> list[Tensor]:
        """Residuals for ``down_intrablock_additional_residuals``, in the order in which the UNet
        pops them.

        Args:
            x_BCHW: condition images with values in ``config.input_range``; H and W multiples of
                `downscale_factor`.

        Returns:
            L fresh tensors (B, channels of the level, H / downscale / scale, W / downscale /
            scale).

        Raises:
            InputError: the wrong number of channels, or sides that do not divide.
        """
        check_condition(self.config, x_BCHW, self.downscale_factor)
        x_BCHW = self.entry(x_BCHW * self.gain + self.shift)
        residuals = []
        for stage, projection in zip(self.stages, self.projections, strict=True):
            x_BCHW = stage(x_BCHW)
            residuals.append(projection(x_BCHW))
        return residuals

    @property
    def downscale_factor(self) -> int:
        """H over the latent's height; diffusers rounds image sides down to a multiple of it."""
        return int(self.config["downscale"])

    @property
    def total_downscale_factor(self) -> int:
        """H over the height of the smallest residual; diffusers composes only adapters that agree
        in it.
        """
        return self.downscale_factor * max(level.scale for level in self.levels)

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one."""
        side = self.config["image_size"]
        return IOSpec(
            inputs=(condition_spec(self.config),),
            outputs=residual_specs(self.levels, side // self.downscale_factor),
        )

    def check_base(self, unet: Any) -> None:
        """Raises unless this plugin fits a base.

        Args:
            unet: a diffusers UNet2DConditionModel, its config, or the dictionary in its
                config.json.

        Raises:
            InputError: says level by level which channels or resolutions differ.
        """
        check_fit(self.config, level_differences(self.levels, read_base(unet).levels))
