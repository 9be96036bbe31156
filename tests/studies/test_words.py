"""Listening to words: what painters of known behaviour are said to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from benchmarks.studies.words import ATTRIBUTES, bound


def test_binding_tells_bound_swapped_and_deaf_apart() -> None:
    """Painters that put each colour where it belongs, the two the other way round, or grey
    everywhere.
    """
    background, clothes = ATTRIBUTES["background"], ATTRIBUTES["clothes"]
    prompt = "a portrait, {} plain background, {} clothes"

    def painter(first: str, second: str) -> Any:
        def draw(prompts: Sequence[str], seeds: Sequence[int]) -> Any:
            made = np.full((len(prompts), 64, 64, 3), 128, np.uint8)
            for picture, text in zip(made, prompts, strict=True):
                _, wall, shirt = text.split(", ")
                words = {
                    "background": wall.removesuffix(" plain background"),
                    "clothes": shirt.removesuffix(" clothes"),
                }
                picture[:48] = background.palette[words[first]] if first else 128
                picture[48:] = background.palette[words[second]] if second else 128
            return made

        return draw

    right = bound(painter("background", "clothes"), background, clothes, prompt)
    swapped = bound(painter("clothes", "background"), background, clothes, prompt)
    deaf = bound(painter("", ""), background, clothes, prompt)
    assert (right.first, right.second, right.swapped) == (1.0, 1.0, 0.0)
    assert (swapped.first, swapped.second, swapped.swapped) == (0.0, 0.0, 1.0)
    assert deaf.first <= 0.25 and deaf.swapped < 0.5
