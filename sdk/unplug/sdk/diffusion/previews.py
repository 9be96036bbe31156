"""Sampling grids to disk while a control trains."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unplug.core import atomic_path

from .control import Control
from .control_set import ControlSet
from .grid import image_grid
from .sample import generate

PREVIEWS = 6


class Previews:
    """Conditions above what is generated from them, one row each for the bare base and the control.

    Args:
        control: kind of the network.
        base: the frozen pipeline.
        data: its first samples are shown.
        seed: of the first picture.
        guidance: of all pictures.
        folder: where the grids go.
    """

    def __init__(self, control: Control, base: Any, data: ControlSet, *, seed: int, guidance: float, folder: Path) -> None:
        self.control, self.base, self.data, self.folder = control, base, data, folder
        self.places = range(min(PREVIEWS, len(data)))
        self.seeds, self.guidance = [seed + place for place in self.places], guidance

    @cached_property
    def _conditions(self) -> list[Image.Image]:
        return [Image.fromarray(np.asarray(self.data.condition[self.data.rows[place]])) for place in self.places]

    def _drawn(self, pipe: Any, **more: Any) -> list[Image.Image]:
        data = self.data
        prompts = [data.prompts[data.prompt[data.rows[place], 0]] for place in self.places]
        size = self._conditions[0].width
        return generate(pipe, prompts, seeds=self.seeds, size=size, guidance=self.guidance, **more)

    @cached_property
    def _plain(self) -> list[Image.Image]:
        """The bare base's: the same at every step."""
        return self._drawn(self.base)

    def grid(self, network: Any) -> Image.Image:
        """The three rows of a network in eval mode."""
        steered = self._drawn(self.control.pipeline(self.base, network), image=self._conditions)
        return image_grid([self._conditions, self._plain, steered], labels=["condition", "base", self.control.label])

    def __call__(self, network: Any, step: int) -> None:
        """Writes the grid of a step."""
        sheet = self.grid(network.eval())
        with atomic_path(self.folder / f"sample-{step:07d}.png") as temporary:
            sheet.save(temporary, format="PNG")
