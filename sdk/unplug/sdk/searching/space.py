"""A search space: how sizes are drawn, and the work that each does."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from unplug.core import Registry
from unplug.mobile_bench import Features


class Space(Protocol):
    """The sizes of one kind of model.

    Args:
        image_size: side of a picture in pixels.
        answers: the count of numbers that the model answers with.
    """

    def __init__(self, image_size: int, answers: int) -> None: ...

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The sizes that people made, which are compared with those that are found."""

    def draw(self, rng: np.random.Generator) -> str:
        """A size at random, written out."""

    def work(self, size: str) -> Features:
        """The operators of its exported float32 file, counted without exporting it."""


SPACES: Registry[type[Space]] = Registry(
    "search space",
    {
        "age": "unplug.sdk.searching.spaces.pictures:AgeSpace",
        "classes": "unplug.sdk.searching.spaces.pictures:PictureSpace",
    },
)
