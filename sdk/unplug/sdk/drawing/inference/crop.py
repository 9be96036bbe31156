"""What a model looks at: a picture's centre square, a box, the face that MediaPipe finds, or that
face put in its frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.core import DataError, InputError, check_content
from unplug.sdk.drawing.conditions import FaceFinder
from unplug.sdk.learning.data import decode_upright, square

from .alignment import Frame, align, eyes_of, face_problem

# of the box of all landmarks, on each side: the median of 150 UTKFace photographs (80 % within
# -0.01 to 0.04)
FACE_MARGIN = 0.01
CENTRE = "centre square"
UNSOUGHT = (
    "no face was looked for: the model saw the centre square of the picture, which is right for "
    "faces that are cropped "
    "already; of any other photograph its age may be far off. Give `landmarker`, or `box`"
)
"""What is told of an answer about such a square."""


def crop_all(
    paths: Sequence[Path],
    size: int,
    *,
    box: str | None = None,
    landmarker: Path | None = None,
    margin: float = FACE_MARGIN,
    frame: Frame | None = None,
) -> list[tuple[NDArray[np.uint8], str]]:
    """What a model sees of each picture: (size, size, 3), and what was done in words.

    Args:
        paths: picture files.
        size: side of the result in pixels.
        box: "left,top,right,bottom" in pixels.
        landmarker: MediaPipe task file that finds the face; without it and a box the centre square
            is taken.
        margin: around the found face, as a fraction of its box; frame it as the training images are
            framed.
        frame: the frame for the eyes of the found face, see `align`; None cuts out the square
            around the face.

    Raises:
        DataError: the picture is broken, no face (or several) was found, or with a frame one too
            small or too dark.
        InputError: a box that does not lie in the picture, or no such task file.
    """
    if box is not None or landmarker is None:
        return [_cut(decode_upright(path), size, box) for path in paths]
    check_landmarker(landmarker)
    with FaceFinder(landmarker) as finder:
        return [_cut_face(path, finder, size, margin, frame) for path in paths]


def _cut(image: Image.Image, size: int, box: str | None) -> tuple[NDArray[np.uint8], str]:
    if box is None:
        return square(image, size), CENTRE
    return square(image.crop(parse_box(box, image)), size), f"box {box}"


def _cut_face(
    path: Path, finder: FaceFinder, size: int, margin: float, frame: Frame | None
) -> tuple[NDArray[np.uint8], str]:
    image = decode_upright(path)
    pixels_HWC = np.asarray(image, dtype=np.uint8)
    faces_FK2 = finder.faces(pixels_HWC)
    if frame is not None:
        return _aligned(path, pixels_HWC, faces_FK2, size, frame)
    try:
        corners = face_box(faces_FK2, image.width, image.height, margin)
    except DataError as error:
        raise DataError(str(path), error.why, error.fix) from error
    return square(image.crop(corners), size), f"face at {','.join(map(str, corners))}"


def parse_box(box: str, image: Image.Image) -> tuple[int, int, int, int]:
    """The corners that "left,top,right,bottom" names, in pixels of an image; `InputError` where
    they do not lie in it.
    """
    parts = box.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() and len(part) < 10 for part in parts):
        raise InputError(
            f"box {box}", "it is not four numbers", "Write LEFT,TOP,RIGHT,BOTTOM in pixels"
        )
    left, top, right, bottom = (int(part) for part in parts)
    if not (0 <= left < right <= image.width and 0 <= top < bottom <= image.height):
        raise InputError(
            f"box {box}",
            f"it does not lie within {image.width}x{image.height}",
            "Give a box inside the image",
        )
    return left, top, right, bottom


def _aligned(
    path: Path,
    pixels_HWC: NDArray[np.uint8],
    faces_FK2: NDArray[np.float64],
    size: int,
    frame: Frame,
) -> tuple[NDArray[np.uint8], str]:
    eyes = [eyes_of(face) for face in faces_FK2.tolist()]
    left, right = eyes[0] if len(eyes) == 1 else ((0.0, 0.0), (1.0, 0.0))
    made = align(pixels_HWC, left, right, size, frame)
    if (problem := face_problem(len(eyes), left, right, made, frame)) is not None:
        fix = "Give a picture of one face, near and well lit, or name it with `box`"
        raise DataError(str(path), problem, fix)
    return made, "eyes at " + " and ".join(f"{x:.0f},{y:.0f}" for x, y in (left, right))


def face_box(
    faces_FK2: NDArray[np.float64], width: int, height: int, margin: float = FACE_MARGIN
) -> tuple[int, int, int, int]:
    """The square around the only face of a picture: left, top, right, bottom in pixels.

    Args:
        faces_FK2: landmarks of each face, in pixels.
        width, height: the size of the picture.
        margin: around the box of all landmarks, as a fraction of its longer side.

    Raises:
        DataError: no face, or several.
    """
    if len(faces_FK2) != 1:
        faces = "no face" if not len(faces_FK2) else f"{len(faces_FK2)} faces"
        fix = "Give a picture of one face, or name it with `box=LEFT,TOP,RIGHT,BOTTOM`"
        raise DataError("picture", f"{faces} found", fix)
    (left, top), (right, bottom) = (
        faces_FK2[0].min(axis=0).tolist(),
        faces_FK2[0].max(axis=0).tolist(),
    )
    side = max(right - left, bottom - top) * (1 + 2 * margin)
    middle_x, middle_y = (left + right) / 2, (top + bottom) / 2
    return (
        max(0, round(middle_x - side / 2)),
        max(0, round(middle_y - side / 2)),
        min(width, round(middle_x + side / 2)),
        min(height, round(middle_y + side / 2)),
    )


def check_landmarker(landmarker: Path) -> None:
    """`InputError` where MediaPipe's task file is not there."""
    check_content(landmarker)
    if not landmarker.is_file():
        fix = "Get face_landmarker.task from MediaPipe's model page and pass it as `landmarker`"
        raise InputError(str(landmarker), "no such task file", fix)
