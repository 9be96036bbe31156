"""``unplug generate``: pictures from a prompt, steered by one or several plugins."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import nn

from unplug.core import DataError, InputError
from unplug.plugins import load_checkpoint
from unplug.plugins.conditions import checked
from unplug.sdk.conditions import condition_file
from unplug.sdk.data import decode_upright, square

from .control import CONTROLS
from .load import image_size_of
from .sample import GUIDANCE, STEPS, generate
from .shipped import find_plugin

MAX_PICTURES = 1024


@dataclass(frozen=True, kw_only=True)
class Steering:
    """One plugin with the picture that it follows.

    Args:
        plugin: a name that ships ("face_landmark", "canny") or a checkpoint folder.
        image: a condition, or with `photo` a photograph from which it is drawn.
        photo: whether `image` is a photograph.
        strength: factor on the plugin's residuals; 0 is the bare base.
        options: settings of the condition, for a photograph.
    """

    plugin: str
    image: Path
    photo: bool = False
    strength: float = 1.0
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.strength) and 0.0 <= self.strength <= 10.0):
            raise InputError(f"strength {self.strength}", "out of range", "Use 0 (off) to 10; 1 is as trained")


def load_plugin(name: str) -> Any:
    """A plugin by the name that it ships under, or from its folder; see `find_plugin`.

    Raises:
        CheckpointError: no such plugin.
    """
    return load_checkpoint(find_plugin(name), expect="plugin").model


def read_condition(steering: Steering, kind: str, size: int) -> Image.Image:
    """The condition picture (size, size) in RGB; the centre square of pictures that are not square.

    Raises:
        DataError: no such picture, a broken or tiny one, or a photograph in which the condition is not found.
    """
    if not steering.image.exists():
        raise DataError(str(steering.image), "no such file", "Check the path of the condition or photograph")
    if not steering.photo:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's, of what the decoder judges anyway
            upright = decode_upright(steering.image)
        try:
            checked(np.asarray(upright))
        except DataError as error:
            raise DataError(str(steering.image), error.why, error.fix) from error
        return Image.fromarray(square(upright, size))
    with tempfile.TemporaryDirectory(prefix="unplug-generate-") as folder:
        drawn = Path(folder) / "condition.png"
        condition_file(kind, dict(steering.options), steering.image, drawn, size)
        with Image.open(drawn) as picture:
            return picture.convert("RGB")


def draw_pictures(
    base: Any,
    prompts: Sequence[str],
    steerings: Sequence[Steering] = (),
    *,
    seeds: Sequence[int],
    size: int | None = None,
    steps: int = STEPS,
    guidance: float = GUIDANCE,
    negative: str = "",
    progress: Any = None,
) -> tuple[list[Image.Image], list[Image.Image]]:
    """Pictures of some prompts, and the conditions that they follow.

    Args:
        base: see `load_base`.
        prompts: B prompts.
        steerings: plugins with their pictures; none is the bare base.
        seeds: B seeds.
        size: side in pixels, a multiple of 8; default: what the base was trained for.
        steps, guidance, negative, progress: see `generate`.

    Raises:
        InputError: a plugin that was made for another base (says which channels differ), or a size that does not divide.
    """
    size = size or image_size_of(base)
    if len(prompts) > MAX_PICTURES:
        raise InputError(f"{len(prompts)} pictures", "too many for one call", f"Ask for {MAX_PICTURES} at most")
    if not steerings:
        _check_size(size, 8)
        return generate(base, prompts, seeds=seeds, size=size, steps=steps, guidance=guidance, negative=negative,
                        progress=progress), []  # fmt: skip
    control = CONTROLS.get("plugin")()
    # Not diffusers' own `to`, which warns for no reason.
    plugins: list[Any] = [nn.Module.to(load_plugin(item.plugin), base.device, base.unet.dtype) for item in steerings]
    _check_size(size, max(plugin.total_downscale_factor for plugin in plugins))
    conditions = [read_condition(item, plugin.config.condition, size) for item, plugin in zip(steerings, plugins, strict=True)]
    strengths = [item.strength for item in steerings]
    one = len(plugins) == 1
    pipe = control.pipeline(base, plugins[0] if one else plugins)
    # diffusers wants one condition a picture for a single adapter, and one an adapter for several: those go singly.
    pictures = generate(
        pipe, prompts, seeds=seeds, size=size, steps=steps, guidance=guidance, negative=negative, progress=progress,
        **({"image": conditions * len(prompts)} if one else {"batch_size": 1, "shared": {"image": conditions}}),
        adapter_conditioning_scale=strengths[0] if one else tuple(strengths),
    )  # fmt: skip
    return pictures, conditions


def _check_size(size: int, multiple: int) -> None:
    if size % multiple or not 8 <= size <= 4096:
        raise InputError(
            f"size {size}",
            f"no multiple of {multiple} from 8 to 4096",
            f"Use {max(multiple, round(size / multiple) * multiple)}",
        )
