"""Several conditioning plugins as one: what a diffusers pipeline saves, and opens again as what it
was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from torch import Tensor

from unplug.core import InputError, MissingExtraError, quiet

from .conditioning import ConditioningPlugin
from .diffusers_files import PluginFiles
from .unet_levels import level_differences

try:
    with quiet():
        from diffusers.configuration_utils import ConfigMixin
        from diffusers.models.adapter import MultiAdapter
        from diffusers.models.modeling_utils import ModelMixin  # noqa: F401 (diffusers looks for it in this module)
except ImportError as error:
    raise MissingExtraError("diffusers", "diffusion") from error

MAX_PLUGINS = 8


class MultiPlugin(PluginFiles, MultiAdapter, ConfigMixin):  # type: ignore[misc]
    """Plugins whose residuals add up, each times its strength: r_l = sum_k s_k r_kl.

    diffusers' pipelines take it for a ``MultiAdapter``: pass ``adapter=MultiPlugin([first,
    second])`` and a list of as many pictures. A list, ``adapter=[first, second]``, draws the same,
    but what it is saved as is opened by diffusers as ``T2IAdapter``. All plugins of it lie in one
    folder, in one weight file.

    Args:
        plugins: two to eight of the same base: plugins, or their configurations for new, untrained
            ones.

    Raises:
        InputError: fewer or more, something else than plugins, or plugins of different bases.

    Example:
        >>> import torch
        >>> unet = {"block_out_channels": [8, 8], "down_block_types": ["DownBlock2D"] * 2, "sample_size": 8}
        >>> both = MultiPlugin([ConditioningPlugin.for_unet(unet, condition=kind, size="nano") for kind in ("canny", "depth")])
        >>> [part.config.condition for part in both.adapters]
        ['canny', 'depth']
        >>> [tuple(item.shape) for item in both([torch.zeros(1, 3, 64, 64)] * 2, [1.0, 0.5])]
        [(1, 8, 4, 4), (1, 8, 4, 4)]

    Reference:
        Mou et al., T2I-Adapter, 2023, section 3.4 (composable control).
    """

    model_type: ClassVar[str] = "multi-plugin"

    def __init__(self, plugins: Sequence[ConditioningPlugin | Mapping[str, Any]]) -> None:
        if not isinstance(plugins, list | tuple) or not 2 <= len(plugins) <= MAX_PLUGINS:
            number = str(len(plugins)) if isinstance(plugins, list | tuple) else "something else"
            raise InputError(
                "MultiPlugin",
                f"it takes a list of 2 to {MAX_PLUGINS} plugins, not {number}",
                "One goes by itself",
            )
        parts = [
            ConditioningPlugin(**item) if isinstance(item, Mapping) else item for item in plugins
        ]
        for place, part in enumerate(parts):
            if not isinstance(part, ConditioningPlugin):
                fix = "Put T2IAdapters together with diffusers' MultiAdapter"
                raise InputError(
                    f"MultiPlugin[{place}]", f"it is a {type(part).__name__}, no plugin", fix
                )
            _check_same_base(parts[0], part, place)
        super().__init__(parts)
        self.register_to_config(plugins=[_arguments(part) for part in parts])  # type: ignore[no-untyped-call]

    @staticmethod
    def complete_config(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
        """The constructor's arguments in a ``config.json``."""
        arguments = PluginFiles.complete_config(folder, config)
        return {key: value for key, value in arguments.items() if not key.startswith("_")}

    def forward(  # type: ignore[override]
        self, xs: Sequence[Tensor], adapter_weights: float | Sequence[float] | None = None
    ) -> list[Tensor]:
        """Residuals for ``down_intrablock_additional_residuals``; see `ConditioningPlugin.forward`.

        Args:
            xs: condition images (B, C, H, W), one for each plugin, in order.
            adapter_weights: strength of each plugin, or one for all; None is 1.

        Raises:
            InputError: another number of pictures or strengths than there are plugins, or a
                strength that is not a number.
        """
        count = len(self.adapters)
        if adapter_weights is None:
            adapter_weights = 1.0
        weights = (
            [float(adapter_weights)] * count
            if isinstance(adapter_weights, int | float)
            else list(adapter_weights)
        )
        for what, given in (("condition images", xs), ("strengths", weights)):
            if len(given) != count:
                raise InputError(
                    what,
                    f"{len(given)} for {count} plugins",
                    "Give one for each plugin, in their order",
                )
        if not all(map(math.isfinite, weights)):
            raise InputError(
                f"strengths {weights}", "not all are finite", "Use 0 (off) to 10; 1 is as trained"
            )
        total = self.adapters[0](xs[0])
        for residual in total:
            residual.mul_(weights[0])
        for plugin, image_BCHW, weight in zip(self.adapters[1:], xs[1:], weights[1:], strict=True):
            for residual, more in zip(total, plugin(image_BCHW), strict=True):
                residual.add_(more, alpha=weight)
        return list[Tensor](total)

    @property
    def iospec(self) -> NoReturn:
        """None: a device has each plugin as a file of its own, and adds their residuals. Raises
        `InputError`.
        """
        raise InputError(
            "MultiPlugin",
            "it is not one file",
            "Export each of its plugins, saved by itself, next to the base",
        )


def _arguments(plugin: ConditioningPlugin) -> dict[str, Any]:
    return {key: value for key, value in plugin.config.items() if not key.startswith("_")}


def _check_same_base(first: ConditioningPlugin, other: ConditioningPlugin, place: int) -> None:
    differences = level_differences(other.levels, first.levels)
    if first.downscale_factor != other.downscale_factor:
        differences.append(f"downscale {other.downscale_factor} for {first.downscale_factor}")
    if differences:
        why = f"its base is another one than the first plugin's ({'; '.join(differences)})"
        raise InputError(f"MultiPlugin[{place}]", why, "Put plugins of one base together")
