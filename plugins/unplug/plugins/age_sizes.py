"""The sizes of the age predictor, known without torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from unplug.core import InputError

MAX_GROUPS = 256  # one a year is far below; a config.json must not be able to ask for gigabytes
MIN_IMAGE_SIZE, MAX_IMAGE_SIZE = 32, 224


@dataclass(frozen=True, kw_only=True)
class Bottlenecks:
    """A run of inverted bottlenecks: `blocks` of `channels`, `expand` times wider inside."""

    channels: int
    blocks: int
    expand: int = 4
    kernel: int = 3


@dataclass(frozen=True, kw_only=True)
class Size:
    """A named width and depth of the age predictor."""

    stem: int
    stages: tuple[Bottlenecks, ...]
    head: int


ADOPTED = "adopted"
"""In the place of a size: a network that was built elsewhere."""
ONNX = "onnx"
"""In the place of a package: a trunk's network is an ONNX file, ``onnx:graph``."""

SIZES: dict[str, Size] = {
    "nano": Size(
        stem=16,
        stages=(
            Bottlenecks(channels=16, blocks=1, expand=1),
            Bottlenecks(channels=24, blocks=2),
            Bottlenecks(channels=32, blocks=2),
            Bottlenecks(channels=64, blocks=3),
            Bottlenecks(channels=96, blocks=2),
        ),
        head=384,
    ),
    "small": Size(
        stem=24,
        stages=(
            Bottlenecks(channels=16, blocks=1, expand=1),
            Bottlenecks(channels=32, blocks=2),
            Bottlenecks(channels=48, blocks=3),
            Bottlenecks(channels=96, blocks=4),
            Bottlenecks(channels=160, blocks=3),
        ),
        head=768,
    ),
    "base": Size(
        stem=32,
        stages=(
            Bottlenecks(channels=24, blocks=1, expand=1),
            Bottlenecks(channels=40, blocks=3),
            Bottlenecks(channels=80, blocks=4),
            Bottlenecks(channels=160, blocks=6, expand=6),
            Bottlenecks(channels=256, blocks=5, expand=6),
        ),
        head=1280,
    ),
}


def check_edges(edges: Sequence[float]) -> None:
    """Refuses borders of age groups that are too few, too many, or do not rise: `InputError`."""
    if not 3 <= len(edges) <= MAX_GROUPS + 1:
        raise InputError(
            "age_edges",
            f"{len(edges)} borders given",
            f"Give 3 to {MAX_GROUPS + 1} rising borders in years",
        )
    if not (all(map(math.isfinite, edges)) and all(a < b for a, b in itertools.pairwise(edges))):
        raise InputError(
            f"age_edges {list(edges)}",
            "they do not rise",
            "Give at least three rising borders in years",
        )
