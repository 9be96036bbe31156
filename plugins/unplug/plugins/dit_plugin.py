"""The conditioning plugin of a diffusion transformer: a small encoder next to frozen blocks, run
once per image.

Shapes: B batch, C channels, H and W of the condition image, T tokens of the latent, D their width,
    L residuals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from unplug.core import InputError, IOSpec, MissingExtraError, TensorSpec, quiet

from .blocks import bottleneck_stage, halving_stem, init_weights
from .bounds import check_memory, check_plugin, check_whole, is_whole
from .diffusers_files import PluginFiles
from .plugin_sizes import (
    MAX_IMAGE_SIZE,
    check_condition,
    check_fit,
    condition_spec,
    repeat,
    unit_range,
)

try:
    with quiet():
        from diffusers.configuration_utils import ConfigMixin, register_to_config
        from diffusers.models.modeling_utils import ModelMixin
except ImportError as error:
    raise MissingExtraError("diffusers", "diffusion") from error

TRANSFORMER = "SD3Transformer2DModel"
MOST_RESIDUALS = 8
"""The limit for a new plugin: the blocks of a deep base share them evenly, and one for Stable
Diffusion 3 stays under 6 M parameters.
"""


class DiTPlugin(PluginFiles, ModelMixin, ConfigMixin):  # type: ignore[misc]
    """Condition image to residuals of a frozen rectified-flow transformer's image tokens.

    r_l = W_l f_l(...f_0(2 (x - a) / (b - a) - 1)) + b_l as tokens (B, T, D), with f_l a stage of
    inverted bottlenecks on the tokens' grid, [a, b] the input range, and W_l = 0 at the start, so
    that training begins at the bare base. They do not depend on the noise level: one run serves
    every step, ``transformer(..., block_controlnet_hidden_states=residuals)`` in stock diffusers.
    The transformer adds residual floor(i L / blocks) after its block i, but nothing after the
    last block.

    Args:
        inner_dim: D of the base, heads times their width.
        residuals: L, at most half the base's blocks: of more, the last would be added nowhere.
        patch_size: latent pixels to a token, along a side.
        condition: name of the condition that it was trained for.
        condition_channels: C of the condition image.
        downscale: H over the latent's height, a power of two: what the base's autoencoder shrinks
            by.
        image_size: H and W in pixels of the tensors in `iospec`; `forward` takes other sizes as
            well.
        input_range: smallest and largest value that `forward` expects.
        stem: channels after each halving in front of the tokens' grid; more halvings repeat the
            last.
        width, expand, kernel: channels, expansion and kernel side of the inverted bottlenecks
            there; each residual has its own.

    Raises:
        InputError: an argument outside its range.

    Example:
        >>> import torch
        >>> plugin = DiTPlugin(inner_dim=32, residuals=2, image_size=64)
        >>> [tuple(residual.shape) for residual in plugin(torch.zeros(1, 3, 64, 64))]
        [(1, 16, 32), (1, 16, 32)]

    Reference:
        Esser et al., Scaling Rectified Flow Transformers, 2024 (the base); Zhang et al.,
        EasyControl, 2025 (a condition that does not see the noise is computed once); Zhang et al.,
        ControlNet, 2023, section 3.1 (projections that start at zero).
    """

    model_type: ClassVar[str] = "dit-plugin"

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(
        self,
        inner_dim: int = 1536,
        residuals: int = MOST_RESIDUALS,
        patch_size: int = 2,
        condition: str = "canny",
        condition_channels: int = 3,
        downscale: int = 8,
        image_size: int = 512,
        input_range: Sequence[float] = (0.0, 1.0),
        stem: Sequence[int] = (16, 24, 48),
        width: int = 96,
        expand: int = 3,
        kernel: int = 5,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        _check(dict(self.config))
        self.gain, self.shift = unit_range(self.config)
        behind = repeat(stem, round(math.log2(downscale * patch_size)) - 1)
        self.entry = halving_stem(condition_channels, behind, expand=2)
        # the first stage does the last halving
        before = [(behind[-1], 1)] + [(width, 0)] * (residuals - 1)
        self.stages = nn.ModuleList(
            bottleneck_stage(channels, width, 1, halvings=halvings, expand=expand, kernel=kernel)
            for channels, halvings in before
        )
        projections = [nn.Conv2d(width, inner_dim, 1) for _ in range(residuals)]
        self.projections = nn.ModuleList(projections)
        self.apply(init_weights)
        for projection in projections:
            nn.init.zeros_(projection.weight)

    @classmethod
    def for_transformer(
        cls, config: Any, *, condition: str, downscale: int = 8, **overrides: Any
    ) -> DiTPlugin:
        """A new, untrained plugin that fits a base.

        Args:
            config: a diffusers SD3Transformer2DModel, its config, or the dictionary in its
                config.json.
            condition: name of the condition that it will be trained for.
            downscale: the factor by which the base's autoencoder shrinks pictures.
            overrides: other constructor arguments, for example ``width``.

        Raises:
            InputError: the base is not a transformer of this kind.

        Example:
            >>> base = {"num_attention_heads": 4, "attention_head_dim": 8, "num_layers": 3, "patch_size": 2, "sample_size": 16}
            >>> DiTPlugin.for_transformer(base, condition="canny").config.image_size
            128
        """
        base = read_transformer(config)
        arguments = {
            "inner_dim": base["inner_dim"],
            "residuals": min(MOST_RESIDUALS, max(1, base["num_layers"] // 2)),
            "patch_size": base["patch_size"],
            "image_size": base["sample_size"] * downscale,
        }
        plugin: DiTPlugin = cls(
            **(arguments | {"condition": condition, "downscale": downscale} | overrides)
        )
        return plugin

    def forward(self, x_BCHW: Tensor) -> list[Tensor]:
        """Residuals for ``block_controlnet_hidden_states``.

        Args:
            x_BCHW: condition images with values in ``config.input_range``; H and W multiples of
                `token_size`.

        Returns:
            L tensors (B, T, D), rows of the picture first, T = H W / token_size^2.

        Raises:
            InputError: the wrong number of channels, or sides that do not divide.
        """
        check_condition(self.config, x_BCHW, self.token_size)
        x_BCHW = self.entry(x_BCHW * self.gain + self.shift)
        residuals = []
        for stage, projection in zip(self.stages, self.projections, strict=True):
            x_BCHW = stage(x_BCHW)
            residuals.append(projection(x_BCHW).flatten(2).transpose(1, 2))
        return residuals

    @property
    def token_size(self) -> int:
        """Pixels of the condition to a token, along a side."""
        return int(self.config["downscale"]) * int(self.config["patch_size"])

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one."""
        side = self.config["image_size"]
        shape = (1, (side // self.token_size) ** 2, self.config["inner_dim"])
        told = "Added to the image tokens of the transformer, part {} of its blocks"
        outputs = tuple(
            TensorSpec(
                name=f"block_res_samples_{index:02d}",
                shape=shape,
                layout="NTC",
                description=told.format(index),
            )
            for index in range(self.config["residuals"])
        )
        return IOSpec(inputs=(condition_spec(self.config),), outputs=outputs)

    def check_base(self, transformer: Any) -> None:
        """Raises `InputError`, saying what differs, unless this plugin fits a base; see
        `read_transformer`.
        """
        base, made_for = read_transformer(transformer), self.config
        differences = [
            f"{name} {made_for[name]} for {base[name]}"
            for name in ("inner_dim", "patch_size")
            if made_for[name] != base[name]
        ]
        if 2 * made_for["residuals"] > base["num_layers"]:
            differences.append(f"{made_for['residuals']} residuals for {base['num_layers']} blocks")
        check_fit(made_for, differences)


def read_transformer(transformer: Any) -> dict[str, int]:
    """``inner_dim``, ``num_layers``, ``patch_size`` and ``sample_size`` of a base.

    Args:
        transformer: a diffusers SD3Transformer2DModel, its config, or the dictionary in its
            config.json.

    Raises:
        InputError: another kind of base, or a configuration that lacks one of them.
    """
    config = getattr(transformer, "config", transformer)
    values = config if isinstance(config, Mapping) else {}
    kind = values.get("_class_name", TRANSFORMER)
    if kind != TRANSFORMER:
        raise InputError(
            f"base of class {kind}",
            f"this plugin steers a {TRANSFORMER}",
            "Give the transformer of such a base",
        )
    names = ("num_attention_heads", "attention_head_dim", "num_layers", "patch_size", "sample_size")
    for name in names:
        if not is_whole(values.get(name), 1, 2**63):
            raise InputError(
                "transformer configuration", f"it has no number {name}", "Give transformer.config"
            )
    inner_dim = values["num_attention_heads"] * values["attention_head_dim"]
    return {"inner_dim": inner_dim, **{name: values[name] for name in names[2:]}}


def _check(config: dict[str, Any]) -> None:
    """Every number of a configuration, before memory is asked for."""
    for name, (low, high) in {
        "inner_dim": (8, 8192),
        "residuals": (1, 64),
        "patch_size": (1, 8),
        "downscale": (4, 64),
        "image_size": (16, MAX_IMAGE_SIZE),
        "width": (4, 1024),
        "expand": (1, 8),
        "kernel": (3, 7),
    }.items():
        check_whole(name, config[name], low, high)
    width, stem, kernel, patch = (
        config[name] for name in ("width", "stem", "kernel", "patch_size")
    )
    if patch & (patch - 1):
        raise InputError(f"patch_size {patch}", "not a power of two", "Use what the base has")
    if kernel % 2 == 0:
        raise InputError(f"kernel {kernel}", "it is even", "Use 3, 5 or 7")
    check_plugin(config, config["downscale"] * patch, "Use what the base has")
    block = width * config["expand"] * (2 * max(width, *stem) + kernel**2)
    halvings = sum(2 * a * (a + b + 9) for a, b in itertools.pairwise(repeat(stem, 9)))
    count = halvings + config["residuals"] * (block + width * config["inner_dim"])
    check_memory(count, config["image_size"] ** 2 // 4 * 2 * max(stem))
