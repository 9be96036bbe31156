"""What an attack on an erased base has at hand, and how pictures are drawn for a judge."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from unplug.plugins import load_checkpoint
from unplug.sdk.drawing.conditions import Steering
from unplug.sdk.drawing.diffusion import Sampling, draw_each, draw_pictures, find_plugin
from unplug.sdk.forgetting.erasing import Concept

from .shipped import ShippedFiles

FIRST_SEED = 1_000_000
"""The first seed of pictures that judge a base: no training draws from these."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One base under attack.

    Args:
        base: the pipeline; an attack works on a copy.
        original: the base before any erasure, which an attacker may have kept.
        concept: the concept that must not come back.
        prompts: N prompts that do not say it, which neither erasing nor the judge read.
        learn: prompts that an attacker learns with.
        controls: N pictures of the concept by the original, which control images are made of;
            empty without a plugin.
        plugin: the plugin that follows them: a name or a folder; None leaves such attacks out.
        files: the files that draw in the base's place, where given.
        sampling: how pictures are drawn.
        seed: the seed of everything random in an attack.
        device: the device to compute on.
        show: progress bars.
    """

    base: Any
    original: Any
    concept: Concept
    prompts: tuple[str, ...]
    learn: tuple[str, ...]
    controls: tuple[Image.Image, ...] = ()
    plugin: str | Path | None = None
    files: ShippedFiles | None = None
    sampling: Sampling
    seed: int
    device: torch.device
    show: bool = False

    def draw(self, prompts: Sequence[str], base: Any = None) -> list[Image.Image]:
        """One picture a prompt; picture n starts from the same noise in every base.

        Args:
            prompts: N prompts.
            base: another one than the scene's.
        """
        seeds = range(FIRST_SEED, FIRST_SEED + len(prompts))
        if self.files is not None and base is None:
            return self.files.pictures(prompts, seeds)
        pipe = fresh(base or self.base)
        return draw_pictures(pipe, prompts, seeds=seeds, **how(self.sampling))[0]

    def steered(self, edges: Sequence[tuple[float, float]]) -> list[Image.Image]:
        """A picture of each prompt, which says nothing of the concept, that follows the lines of a
        picture that shows it.

        Args:
            edges: low and high thresholds of `canny`, taken in turn; other conditions have none.
        """
        name = str(self.plugin)
        kind = load_checkpoint(find_plugin(name), expect="plugin").model.config.condition
        ways = [
            {"low": str(low), "high": str(high)} if kind == "canny" else {} for low, high in edges
        ]
        lines = [
            Steering(plugin=name, image=np.asarray(shown), photo=True, options=ways[n % len(ways)])
            for n, shown in enumerate(self.controls)
        ]
        seeds = range(FIRST_SEED, FIRST_SEED + len(lines))
        if self.files is not None:
            return self.files.pictures(self.prompts, seeds, lines)
        return draw_each(fresh(self.base), self.prompts, lines, seeds=seeds, **how(self.sampling))


def fresh(base: Any, **parts: Any) -> Any:
    """Another pipeline of the same parts, some replaced: drawing gives a pipeline another
    scheduler.
    """
    return type(base)(**base.components | parts, requires_safety_checker=False)


def with_own_unet(base: Any) -> Any:
    """A pipeline whose UNet may be changed."""
    return fresh(base, unet=copy.deepcopy(base.unet))


def how(sampling: Sampling) -> dict[str, Any]:
    """The settings of a sampling as the keyword arguments that `draw_pictures` takes."""
    return {
        "steps": sampling.steps,
        "guidance": sampling.guidance,
        "solver": sampling.solver,
        "schedule": sampling.schedule,
    }
