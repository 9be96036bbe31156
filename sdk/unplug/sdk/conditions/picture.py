"""The picture that a plugin follows: drawn already, or to be drawn from a photograph."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.core import DataError, temporary_folder
from unplug.plugins.conditions import checked
from unplug.sdk.data import decode_upright, square

from .files import condition_file


def condition_picture(
    image: Path, kind: str, size: int, *, photo: bool = False, options: Mapping[str, str] | None = None
) -> NDArray[np.uint8]:
    """A condition (size, size, 3) in RGB; the centre square of pictures that are not square.

    Args:
        image: a condition, or with `photo` a photograph from which it is drawn.
        kind: of the condition: canny, face_landmark, ...
        size: side in pixels.
        photo: whether `image` is a photograph.
        options: settings of the condition, for a photograph.

    Raises:
        DataError: no such picture, a broken or tiny one, or a photograph in which the condition is not found.
    """
    if not image.exists():
        raise DataError(str(image), "no such file", "Check the path of the condition or photograph")
    if not photo:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's, of what the decoder judges anyway
            upright = decode_upright(image)
        try:
            checked(np.asarray(upright))
        except DataError as error:
            raise DataError(str(image), error.why, error.fix) from error
        return square(upright, size)
    with temporary_folder("unplug-generate-") as folder:
        drawn = folder / "condition.png"
        condition_file(kind, dict(options or {}), image, drawn, size)
        with Image.open(drawn) as picture:
            return np.asarray(picture.convert("RGB"))
