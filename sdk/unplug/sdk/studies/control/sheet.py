"""The grid picture: conditions above what each way makes of them, from the same prompts and noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.sdk.diffusion import image_grid

from .setup import Setup

COLUMNS = 6
SIDE = 160
"""Pixels of a cell at least; smaller pictures are enlarged."""


def comparison_sheet(setup: Setup, shown: Mapping[str, NDArray[np.uint8]]) -> Image.Image:
    """A row for the conditions and one for each way, the first `COLUMNS` pictures of the comparison: none is picked by hand.

    Args:
        setup: its conditions.
        shown: label -> pictures (M, S, S, 3).
    """
    rows = {"condition": setup.condition_NHWC, **shown}
    side = max(SIDE, setup.dataset.size)
    cells = [[Image.fromarray(np.asarray(one)) for one in pictures[:COLUMNS]] for pictures in rows.values()]
    return image_grid(cells, labels=list(rows), side=side, gap=6, font_size=16)
