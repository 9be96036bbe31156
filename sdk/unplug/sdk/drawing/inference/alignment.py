"""A face put where a model expects it: turned, scaled and moved until its eyes lie in fixed places.

Apps and the web page compute the same, byte for byte: only + - * / and square roots in double
precision, in this order; ``tests/vectors/faces`` holds all to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unplug.core import DataError, InputError

MAX_STEPS = 16
"""Points a pixel and axis at most: a face of 16 times the model's side is averaged, a larger one
sampled.
"""
LEAST_EYES, LEAST_LIGHT = 16.0, 24.0
"""Pixels between the eyes, and mean luma, below which nothing is said of a face."""
LEAST = {"least_eyes": LEAST_EYES, "least_light": LEAST_LIGHT}
FaceFault = Literal["no face", "several faces", "too small", "too dark"]
FACE_FAULTS: tuple[FaceFault, ...] = get_args(FaceFault)
"""Why a photograph cannot be judged, in the order in which it is looked for."""
LEFT_EYE, RIGHT_EYE = (33, 133), (362, 263)
"""Corners of the eyes among MediaPipe's face landmarks, left and right as the picture shows them.
"""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Where the eyes of a face lie in what a model sees.

    Args:
        left, right: x and y of the middles of the eyes, left and right as the picture shows them,
            in [0, 1] of the side.
        least_eyes: pixels between the eyes of a photograph below which a face is too small to be
            judged.
        least_light: mean of the aligned face's luma, 0 to 255, below which it is too dark.

    Raises:
        InputError: the eyes lie outside, or nowhere apart.

    Example:
        >>> Frame().left
        (0.3045, 0.3037)
    """

    left: tuple[float, float] = (0.3045, 0.3037)
    right: tuple[float, float] = (0.6831, 0.3037)
    least_eyes: float = LEAST_EYES
    least_light: float = LEAST_LIGHT

    def __post_init__(self) -> None:
        inside = all(0.0 <= value <= 1.0 for value in (*self.left, *self.right))
        if not inside or math.dist(self.left, self.right) < 0.05:
            raise InputError(
                "frame",
                f"eyes at {self.left} and {self.right} frame no face",
                "Give both in [0, 1], apart",
            )


def frame_in(preprocessing: Mapping[str, Any], where: str) -> Frame | None:
    """The frame that a manifest's ``preprocessing`` carries, or None.

    Raises:
        InputError: ``eyes``, ``least_eyes`` or ``least_light`` of another form; `where` names the
            file.

    Example:
        >>> frame_in({"crop": "centre square"}, "manifest.json") is None
        True
    """
    if "eyes" not in preprocessing:
        return None
    try:
        left, right = ((float(x), float(y)) for x, y in preprocessing["eyes"])
        least = {name: float(preprocessing.get(name, default)) for name, default in LEAST.items()}
        if not all(map(math.isfinite, least.values())):
            raise ValueError("a limit is not a number")
        return Frame(left=left, right=right, **least)
    except (TypeError, ValueError, OverflowError, InputError) as error:
        raise InputError(
            where, "its preprocessing does not frame a face", "Get the bundle again, or use `box`"
        ) from error


def eyes_of(
    points_K2: Sequence[Sequence[float]],
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Middles of the left and the right eye, of MediaPipe's 478 face landmarks, in their units."""
    ends = [[points_K2[corner] for corner in corners] for corners in (LEFT_EYE, RIGHT_EYE)]
    (left, right) = (((one[0] + other[0]) / 2, (one[1] + other[1]) / 2) for one, other in ends)
    return left, right


def align(
    image_HW3: NDArray[np.uint8],
    left: tuple[float, float],
    right: tuple[float, float],
    size: int,
    frame: Frame = Frame(),
) -> NDArray[np.uint8]:
    """The face, with its eyes at the frame's places.

    The similarity z -> l + (r - l) / (R - L) (z - L), in complex numbers, takes the frame's eyes L,
    R in pixels of the result to the photograph's l, r. A pixel of the result is the mean of S x S
    bilinear samples, S = ceil(|(r - l) / (R - L)|); outside the photograph its edge goes on.

    Args:
        image_HW3: RGB.
        left, right: x and y of the eyes' middles in pixels of the photograph (pixel i covers i to i
            + 1).
        size: side of the result in pixels.
        frame: the frame that says where the eyes go.

    Returns:
        (size, size, 3).

    Raises:
        DataError: the eyes lie on each other or are no numbers.

    Example:
        >>> align(np.full((8, 8, 3), 7, np.uint8), (2.0, 3.0), (6.0, 3.0), 4).max()
        np.uint8(7)
    """
    goal_left, goal_right = ((x * size, y * size) for x, y in (frame.left, frame.right))
    across, down = goal_right[0] - goal_left[0], goal_right[1] - goal_left[1]
    wide, high = right[0] - left[0], right[1] - left[1]
    whole = across * across + down * down
    real, imaginary = (wide * across + high * down) / whole, (high * across - wide * down) / whole
    scale = math.sqrt(real * real + imaginary * imaginary)
    if not 0.0 < scale < 1e6:
        raise DataError(
            "face", "its eyes are in the same place", "Give a picture of one face from the front"
        )
    steps = min(MAX_STEPS, math.ceil(scale))
    shift_x = left[0] - (real * goal_left[0] - imaginary * goal_left[1])
    shift_y = left[1] - (imaginary * goal_left[0] + real * goal_left[1])
    total_SS3 = np.zeros((size, size, 3))
    place = np.arange(size, dtype=np.float64)
    for row in range(steps):
        y_S1 = (place + (row + 0.5) / steps)[:, None]
        for column in range(steps):
            x_1S = (place + (column + 0.5) / steps)[None, :]
            total_SS3 += _bilinear(
                image_HW3,
                real * x_1S - imaginary * y_S1 + shift_x - 0.5,
                imaginary * x_1S + real * y_S1 + shift_y - 0.5,
            )
    # Not rint: languages disagree about halves.
    return np.floor(total_SS3 / (steps * steps) + 0.5).astype(np.uint8)


def _bilinear(
    image_HW3: NDArray[np.uint8], x_SS: NDArray[np.float64], y_SS: NDArray[np.float64]
) -> NDArray[np.float64]:
    height, width = image_HW3.shape[:2]
    x_SS, y_SS = np.clip(x_SS, 0.0, width - 1.0), np.clip(y_SS, 0.0, height - 1.0)
    left_SS, top_SS = np.floor(x_SS).astype(np.int64), np.floor(y_SS).astype(np.int64)
    right_SS, below_SS = np.minimum(left_SS + 1, width - 1), np.minimum(top_SS + 1, height - 1)
    across, down = (x_SS - left_SS)[..., None], (y_SS - top_SS)[..., None]
    upper = image_HW3[top_SS, left_SS] * (1.0 - across) + image_HW3[top_SS, right_SS] * across
    lower = image_HW3[below_SS, left_SS] * (1.0 - across) + image_HW3[below_SS, right_SS] * across
    return np.asarray(upper * (1.0 - down) + lower * down)


def light(aligned_SS3: NDArray[np.uint8]) -> float:
    """Mean luma, 0 to 255: (299 R + 587 G + 114 B) / 1000, summed in whole numbers."""
    weighted = aligned_SS3.astype(np.int64) @ np.array([299, 587, 114])
    return float(int(weighted.sum()) / (1000 * weighted.size))


def face_fault(
    faces: int,
    left: tuple[float, float],
    right: tuple[float, float],
    aligned_SS3: NDArray[np.uint8],
    frame: Frame = Frame(),
) -> FaceFault | None:
    """Why a photograph cannot be judged, or None; see `face_problem` for the arguments.

    Example:
        >>> face_fault(1, (0.0, 0.0), (40.0, 0.0), np.zeros((1, 1, 3), np.uint8))
        'too dark'
    """
    if faces != 1:
        return "no face" if faces < 1 else "several faces"
    if _apart(left, right) < frame.least_eyes:
        return "too small"
    return "too dark" if light(aligned_SS3) < frame.least_light else None


def _apart(left: tuple[float, float], right: tuple[float, float]) -> float:
    wide, high = right[0] - left[0], right[1] - left[1]
    return math.sqrt(wide * wide + high * high)


def face_problem(
    faces: int,
    left: tuple[float, float],
    right: tuple[float, float],
    aligned_SS3: NDArray[np.uint8],
    frame: Frame = Frame(),
) -> str | None:
    """Why a photograph cannot be judged, or None: no face, several, too small, or too dark, in this
    order.

    Args:
        faces: how many were found.
        left, right: eyes of the one, in pixels of the photograph; not looked at where there is not
            one.
        aligned_SS3: the aligned face; likewise.
        frame: says what is too small and too dark.

    Example:
        >>> face_problem(0, (0, 0), (0, 0), np.zeros((1, 1, 3), np.uint8))
        'no face found'
    """
    match face_fault(faces, left, right, aligned_SS3, frame):
        case "no face":
            return "no face found"
        case "several faces":
            return f"{faces} faces found"
        case "too small":
            pixels = math.floor(_apart(left, right))
            return (
                f"the face is too small: {pixels} pixels between the eyes, and "
                f"{frame.least_eyes:g} are needed"
            )
        case "too dark":
            return "the face is too dark"
        case None:
            return None
