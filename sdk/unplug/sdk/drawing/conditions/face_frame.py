"""The part of a photograph that stands as faces stand in what a base learned from: its face, found
and framed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.core import Child, DataError, InputError
from unplug.plugins.conditions import FaceLandmark, Picture, whole

from .face_finder import FaceFinder

FRAME_MARGIN, FRAME_LIFT = 0.39, 0.15
"""How synthetic faces stand, in sides of the box of all landmarks: the room around it, and how far
it is below the middle of the picture; medians over 150 (80 % within 0.32 to 0.47, and 0.09 to
0.20).
"""
MAX_MARGIN = 2.0
MAX_FRAME = 2048
"""Side in pixels above which a framed face is shrunk: no condition is drawn from more."""
LEAST_BOX = 16


@dataclass(frozen=True, kw_only=True)
class FaceFrame:
    """How the face of a photograph is found and framed.

    Args:
        task: MediaPipe's face_landmarker.task; "" takes the environment's
            ``UNPLUG_FACE_LANDMARKER``.
        faces: "one" refuses a photograph of several, "largest" takes the one with the largest box.
        margin: the space around the box of all landmarks, on each side, as a fraction of its longer
            side.

    Raises:
        InputError: a margin out of range, or another choice of faces.
    """

    task: str = ""
    faces: Literal["one", "largest"] = "one"
    margin: float = FRAME_MARGIN

    def __post_init__(self) -> None:
        if not 0.0 <= self.margin <= MAX_MARGIN:  # not a number, either
            raise InputError(f"margin {self.margin}", "out of range", f"Use 0 to {MAX_MARGIN:g}")
        if self.faces not in ("one", "largest"):
            raise InputError(
                f"faces={self.faces}",
                "one face is cropped",
                "Use `faces=one` or `faces=largest`, or `crop=none`",
            )


@dataclass(frozen=True, kw_only=True)
class FramedFace:
    """A square part of a photograph.

    Args:
        image: the square; what lies outside the photograph repeats its edge.
        inside: left, top, right and bottom of the photograph in it, as fractions of its side.
    """

    image: Image.Image
    inside: tuple[float, float, float, float]

    def blacken(self, condition_HWC: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A condition of the square, black where there is no photograph: nobody knows what is
        there.
        """
        height, width = condition_HWC.shape[:2]
        left, top, right, bottom = self.inside
        shown = np.zeros_like(condition_HWC)
        rows = slice(math.ceil(top * height), math.floor(bottom * height))
        columns = slice(math.ceil(left * width), math.floor(right * width))
        shown[rows, columns] = condition_HWC[rows, columns]
        return shown


def frame_face(image_HWC: Picture, frame: FaceFrame, child: Child | None = None) -> FramedFace:
    """Finds the face of a photograph and cuts out the square around it.

    The side is (1 + 2 margin) times the longer side of the landmarks' box; the box stands 0.15 of
    that side below the middle.

    Args:
        image_HWC: the photograph, RGB.
        frame: how it is found and framed.
        child: the process that finds it, see `FaceFinder`.

    Raises:
        DataError: the face is too small.
        NoFaceError, SeveralFacesError: no face in it, or several where one is meant.
        InputError: no task file, or a broken one.
        MissingExtraError: MediaPipe is not installed.
    """
    points_K2 = _landmarks(image_HWC, frame, child)
    low_2, high_2 = points_K2.min(axis=0), points_K2.max(axis=0)
    box = float((high_2 - low_2).max())
    if box < LEAST_BOX:
        raise DataError(
            "picture",
            f"its face is {box:.0f} pixels wide",
            f"Give one of {LEAST_BOX} pixels or more",
        )
    middle_x, middle_y = ((low_2 + high_2) / 2).tolist()
    side = box * (1 + 2 * frame.margin)
    return cut_square(
        Image.fromarray(image_HWC),
        middle_x - side / 2,
        middle_y - FRAME_LIFT * box - side / 2,
        side,
    )


def cut_square(image: Image.Image, left: float, top: float, side: float) -> FramedFace:
    """A square of a picture, which may stand out of it.

    Args:
        image: the picture, RGB.
        left, top, side: the square, in pixels of the picture; some of it lies inside.

    Example:
        >>> framed = cut_square(Image.new("RGB", (40, 40)), -20.0, 0.0, 40.0)
        >>> framed.image.size, framed.inside
        ((40, 40), (0.5, 0.0, 1.0, 1.0))
    """
    pixels = max(1, min(MAX_FRAME, round(side)))
    scale = pixels / side
    part = (
        max(0.0, left),
        max(0.0, top),
        min(float(image.width), left + side),
        min(float(image.height), top + side),
    )
    placed = (
        round((part[0] - left) * scale),
        round((part[1] - top) * scale),
        round((part[2] - left) * scale),
        round((part[3] - top) * scale),
    )
    shown = (max(1, placed[2] - placed[0]), max(1, placed[3] - placed[1]))
    cut_HWC = np.asarray(image.resize(shown, Image.Resampling.BICUBIC, box=part, reducing_gap=3.0))
    around = (
        (placed[1], max(0, pixels - placed[1] - shown[1])),
        (placed[0], max(0, pixels - placed[0] - shown[0])),
        (0, 0),
    )
    whole_HWC = np.pad(cut_HWC, around, mode="edge")[:pixels, :pixels]
    inside = tuple(place / pixels for place in placed)
    return FramedFace(
        image=Image.fromarray(whole_HWC), inside=(inside[0], inside[1], inside[2], inside[3])
    )


def _landmarks(image_HWC: Picture, frame: FaceFrame, child: Child | None) -> NDArray[np.float32]:
    """Points (K, 2) of the face, in pixels."""
    condition = FaceLandmark(task=frame.task, faces=frame.faces).resolve()
    with FaceFinder(Path(condition.task), enlarge=True, child=child) as finder:
        (points_K2,) = condition.choose(list(finder.faces(image_HWC)), whole(image_HWC))
    return points_K2
