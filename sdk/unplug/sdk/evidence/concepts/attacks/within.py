"""Prompts that say the words in their middle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from PIL import Image

from ..findings import Claim
from ..scene import Scene


@dataclass(frozen=True, kw_only=True)
class Within:
    """An edit that was made of words at the end of prompts may miss them elsewhere."""

    holds: ClassVar[Claim] = "prompts"

    def __call__(self, scene: Scene) -> Iterator[tuple[str, list[Image.Image]]]:
        """One picture a prompt: the words after its first part."""
        words = scene.concept.words
        yield "within", scene.draw([_inside(prompt, words) for prompt in scene.prompts])


def _inside(prompt: str, words: str) -> str:
    first, *rest = prompt.split(", ")
    return ", ".join((f"{first} with {words}", *rest))
