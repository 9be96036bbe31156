"""A control image that shows the concept, with a prompt that does not say it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from PIL import Image

from ..attack import Unable
from ..findings import Claim
from ..scene import Scene


@dataclass(frozen=True, kw_only=True)
class ControlImage:
    """Lines of pictures of the concept through a conditioning plugin: words are not needed at all.

    Args:
        edges: thresholds of Canny's edges, one pair after another; a plugin learns from the first.
    """

    edges: tuple[tuple[float, float], ...] = ((100, 200), (60, 140), (80, 240), (140, 260))
    holds: ClassVar[Claim] = "control images"

    def __call__(self, scene: Scene) -> Iterator[tuple[str, list[Image.Image]]]:
        """One picture a prompt, each after the lines of another picture of the original's."""
        if scene.plugin is None:
            raise Unable("no plugin is given")
        yield "control-image", scene.steered(self.edges)
