"""Face landmarks by MediaPipe's Face Landmarker, as coloured lines on black.

Reference: Kartynnik et al., "Real-time Facial Surface Geometry from Monocular Video on Mobile
    GPUs", CV4ARVR 2019; irises:
Ablavatski et al., "Real-time Pupil Tracking from Monocular Video for Digital Puppetry", CV4ARVR
2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError, NoFaceError, SeveralFacesError

from .landmarker import detect, open_task, placed, resolve_task, vision
from .lines import Colour, DrawnFigure, DrawnLine, LineDrawing
from .picture import Picture, PictureWindow, checked, whole

VARIABLE = "UNPLUG_FACE_LANDMARKER"
FILE = "face_landmarker.task"
PAGE = (
    "MediaPipe's Face Landmarker page "
    "(ai.google.dev/edge/mediapipe/solutions/vision/face_landmarker, Models)"
)
POINTS = 478
MAX_FACES = 8  # looked for at most

Faces = Literal["one", "largest", "all"]
Style = Literal["unplug", "mediapipe"]

WHITE, GREEN, BLUE = (255, 255, 255), (0, 255, 0), (0, 0, 255)
COLOURS: Mapping[str, Mapping[str, Colour]] = {
    "unplug": {
        "FACE_OVAL": WHITE,
        "LIPS": (255, 64, 64),
        "LEFT_EYE": GREEN,
        "LEFT_EYEBROW": (255, 255, 0),
        "LEFT_IRIS": (255, 128, 0),
        "RIGHT_EYE": (0, 128, 255),
        "RIGHT_EYEBROW": (255, 0, 255),
        "RIGHT_IRIS": (0, 255, 255),
    },
    "mediapipe": {
        "FACE_OVAL": WHITE,
        "LIPS": WHITE,
        "LEFT_EYE": GREEN,
        "LEFT_EYEBROW": GREEN,
        "LEFT_IRIS": GREEN,
        "RIGHT_EYE": BLUE,
        "RIGHT_EYEBROW": BLUE,
        "RIGHT_IRIS": BLUE,
    },
}
"""Groups in drawing order; left and right are the person's own, as MediaPipe counts."""


@cache
def face_lines(style: str) -> tuple[DrawnLine, ...]:
    """The connections of a face mesh that are drawn, in drawing order."""
    connections = vision().FaceLandmarksConnections
    return tuple(
        DrawnLine(start=item.start, end=item.end, colour=colour)
        for group, colour in COLOURS[style].items()
        for item in getattr(connections, f"FACE_LANDMARKS_{group}")
    )


@dataclass(frozen=True, kw_only=True)
class FaceLandmark(LineDrawing):
    """Contour, mouth, eyes, brows and irises of a face.

    Args:
        task: MediaPipe's face_landmarker.task; "" takes the environment's
            ``UNPLUG_FACE_LANDMARKER``.
        faces: "one" refuses a picture of several, "largest" takes the one with the largest box,
            "all" draws all (up to 8).
        style: "unplug" gives each part a colour of its own; "mediapipe" is the rendering of
            MediaPipe's Image Generator (oval and lips white, left eye, brow and iris green, right
            ones blue), for plugins trained on that.

    Raises:
        InputError: an unknown choice.
    """

    task: str = field(default="", metadata={"path": True})
    faces: Faces = "one"
    style: Style = "unplug"

    kind: ClassVar[str] = "face_landmark"
    description: ClassVar[str] = (
        "contour, mouth, eyes, brows and irises of a face by MediaPipe's Face Landmarker"
    )

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("faces", self.faces, get_args(Faces)),
            ("style", self.style, get_args(Style)),
        ):
            if value not in choices:
                raise InputError(
                    f"face_landmark {name}={value}", "no such choice", f"Use {', '.join(choices)}"
                )

    @property
    def nearest(self) -> bool:
        """The Image Generator rounds; we take the pixel that the point lies in."""
        return self.style == "mediapipe"

    def resolve(self) -> Self:
        """The settings with the task file's absolute path. Raises `InputError` where there is none."""
        return replace(self, task=resolve_task(self.kind, self.task, VARIABLE, FILE, PAGE))

    def landmarks(self, image_HWC: Picture) -> NDArray[np.float32]:
        """The 478 points of the face that `faces` chooses ("all": the largest).

        Args:
            image_HWC: (H, W, 3) RGB, uint8.

        Returns:
            (478, 2), x and y in pixels; the left edge of the first pixel is 0.

        Raises:
            NoFaceError, SeveralFacesError: no face, or several where `faces` is "one".
        """
        return self._chosen(checked(image_HWC), whole(image_HWC))[0]

    def figures(self, image_HWC: Picture, window: PictureWindow) -> list[DrawnFigure]:
        """One figure for each face that was found, in the detector's order."""
        lines = face_lines(self.style)
        everything = np.ones(POINTS, bool)
        return [
            DrawnFigure(points_K2=face, visible_K=everything, lines=lines)
            for face in self._chosen(image_HWC, window)
        ]

    def _chosen(self, image_HWC: Picture, window: PictureWindow) -> list[NDArray[np.float32]]:
        return self.choose(faces_of(self._opened, image_HWC, self.task or FILE), window)

    def choose(
        self, found: Sequence[NDArray[np.float64]], window: PictureWindow
    ) -> list[NDArray[np.float32]]:
        """Faces whose middle the window holds, the largest first, as `faces` says.

        Args:
            found: landmarks (478, 2) of each face that was found, in pixels.
            window: a part of the picture.

        Raises:
            NoFaceError, SeveralFacesError: no face, or several where `faces` is "one".
        """
        faces = [face.astype(np.float32) for face in found]
        faces = sorted(
            (face for face in faces if window.holds(face.mean(axis=0))), key=_area, reverse=True
        )
        if not faces:
            where = " in its centre square" if found else ""
            raise NoFaceError(
                "picture",
                f"no face found{where}",
                "Give a picture that shows a face, upright and large enough",
            )
        if self.faces == "one" and len(faces) > 1:
            number = (
                f"{len(faces)} faces" if len(found) < MAX_FACES else f"{len(faces)} faces or more"
            )
            fix = 'Crop it to one, or choose with faces="largest" or "all" (`faces=largest`)'
            raise SeveralFacesError("picture", f"{number} found", fix)
        return faces if self.faces == "all" else faces[:1]

    @cached_property
    def _opened(self) -> Any:
        return open_face_landmarker(self.resolve().task)


def open_face_landmarker(task: str) -> Any:
    """MediaPipe's Face Landmarker out of its task file; see `open_task`."""
    module = vision()

    def create(base: Any) -> Any:
        options = module.FaceLandmarkerOptions(base_options=base, num_faces=MAX_FACES)
        return module.FaceLandmarker.create_from_options(options)

    return open_task(task, PAGE, create)


def faces_of(
    landmarker: Any, image_HWC: Picture, task: str, *, enlarge: bool = True
) -> list[NDArray[np.float64]]:
    """Landmarks (478, 2) of each face in a picture, in its pixels, in the detector's order; see
    `detect`.
    """
    faces = detect(landmarker, image_HWC, task, PAGE, enlarge=enlarge).face_landmarks
    return [placed(face, image_HWC) for face in faces]


def _area(face_K2: NDArray[np.float32]) -> float:
    return float(np.prod(np.ptp(face_K2, axis=0)))
