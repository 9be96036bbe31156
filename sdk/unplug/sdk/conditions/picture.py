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

from .face_frame import FaceFrame, frame_face
from .files import condition_file


def condition_picture(
    image: Path, kind: str, size: int, *, photo: bool = False, options: Mapping[str, str] | None = None,
    frame: FaceFrame | None = None,
) -> NDArray[np.uint8]:  # fmt: skip
    """A condition (size, size, 3) in RGB; the centre square of pictures that are not square.

    Args:
        image: a condition, or with `photo` a photograph from which it is drawn.
        kind: of the condition: canny, face_landmark, ...
        size: side in pixels.
        photo: whether `image` is a photograph.
        options: settings of the condition, for a photograph.
        frame: of a photograph: its face is found and framed, instead of the centre square.

    Raises:
        DataError: no such picture, a broken or tiny one, one that shows nothing, or a photograph in which the condition is not
            found.
    """
    if not image.exists():
        raise DataError(str(image), "no such file", "Check the path of the condition or photograph")
    drawn_HWC = _drawn(image, kind, size, options or {}, frame) if photo else _read(image, size)
    check_condition(drawn_HWC, str(image))
    return drawn_HWC


def check_condition(condition_HWC: NDArray[np.uint8], what: str) -> None:
    """Raises `DataError`, naming `what`, where a condition shows nothing: all its pixels are of one colour."""
    if condition_HWC.size == 0 or (condition_HWC == condition_HWC[:1, :1]).all():
        why = "the condition is empty: all its pixels are of one colour"
        raise DataError(what, why, "Draw it with `unplug condition`, or leave the plugin out")


def _read(image: Path, size: int) -> NDArray[np.uint8]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of what the decoder judges anyway
        upright = decode_upright(image)
    try:
        checked(np.asarray(upright))
    except DataError as error:
        raise DataError(str(image), error.why, error.fix) from error
    return square(upright, size)


def _drawn(
    image: Path, kind: str, size: int, options: Mapping[str, str], frame: FaceFrame | None
) -> NDArray[np.uint8]:  # fmt: skip
    framed = None if frame is None else frame_face(image, frame)
    with temporary_folder("unplug-generate-") as folder:
        source, drawn = image if framed is None else folder / "face.png", folder / "condition.png"
        if framed is not None:
            framed.image.save(source)
        try:
            condition_file(kind, dict(options), source, drawn, size)
        except DataError as error:
            raise type(error)(str(image), error.why, error.fix) from error
        with Image.open(drawn) as picture:
            drawn_HWC = np.asarray(picture.convert("RGB"))
    return drawn_HWC if framed is None else framed.blacken(drawn_HWC)
