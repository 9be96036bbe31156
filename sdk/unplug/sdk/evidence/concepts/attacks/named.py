"""Prompts that end with the words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from PIL import Image

from ..findings import Claim
from ..scene import Scene


@dataclass(frozen=True, kw_only=True)
class Named:
    """What everybody tries first."""

    holds: ClassVar[Claim] = "prompts"

    def __call__(self, scene: Scene) -> Iterator[tuple[str, list[Image.Image]]]:
        """One picture a prompt."""
        yield "named", scene.draw([scene.concept.named(prompt) for prompt in scene.prompts])
