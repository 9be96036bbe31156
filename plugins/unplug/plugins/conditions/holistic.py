"""Body pose, both hands and the face of one person by MediaPipe's Holistic Landmarker, as coloured
lines on black.

Reference: Grishchenko and Bazarevsky, "MediaPipe Holistic", 2020; Bazarevsky et al., "BlazePose",
    CV4ARVR 2020; Zhang et
al., "MediaPipe Hands", CV4ARVR 2020.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from unplug.core import NoFaceError

from .face_landmark import face_lines
from .landmarker import detect, open_task, pixels, resolve_task, visible, vision
from .lines import Colour, DrawnFigure, DrawnLine, LineDrawing
from .picture import Picture, PictureWindow, checked

VARIABLE = "UNPLUG_HOLISTIC_LANDMARKER"
FILE = "holistic_landmarker.task"
PAGE = (
    "MediaPipe's Holistic Landmarker page "
    "(ai.google.dev/edge/mediapipe/solutions/vision/holistic_landmarker, Models)"
)
PARTS = {"pose": 33, "left_hand": 21, "right_hand": 21, "face": 478}
"""Parts in drawing order, and the number of points of each."""

MIDDLE, LEFT, RIGHT = (160, 160, 160), (255, 138, 0), (0, 217, 231)
HANDS: dict[str, Colour] = {"left_hand": (128, 255, 0), "right_hand": (160, 64, 255)}
# Of the pose's 33 points: its own rough face, and the rough fingers of each hand.
POSE_FACE = frozenset(range(11))
POSE_FINGERS = {"left_hand": frozenset({17, 19, 21}), "right_hand": frozenset({18, 20, 22})}
POSE_LEFT = frozenset({1, 2, 3, 7, 9, *range(11, 33, 2)})
POSE_RIGHT = frozenset({4, 5, 6, 8, 10, *range(12, 33, 2)})


@cache
def pose_lines(found: frozenset[str]) -> tuple[DrawnLine, ...]:
    """The connections of the pose, without those that a part in `found` shows more finely."""
    finer = frozenset(POSE_FACE if "face" in found else ()).union(
        *(POSE_FINGERS[hand] for hand in HANDS if hand in found)
    )
    return tuple(
        DrawnLine(start=item.start, end=item.end, colour=_side(item.start, item.end))
        for item in vision().PoseLandmarksConnections.POSE_LANDMARKS
        if item.start not in finer and item.end not in finer
    )


def _side(start: int, end: int) -> Colour:
    if {start, end} <= POSE_LEFT | {0}:
        return LEFT
    return RIGHT if {start, end} <= POSE_RIGHT | {0} else MIDDLE


@cache
def hand_lines(hand: str) -> tuple[DrawnLine, ...]:
    """The connections of a hand."""
    connections = vision().HandLandmarksConnections.HAND_CONNECTIONS
    return tuple(
        DrawnLine(start=item.start, end=item.end, colour=HANDS[hand]) for item in connections
    )


@dataclass(frozen=True, kw_only=True)
class Holistic(LineDrawing):
    """One person's pose, hands and face; parts that are not found are not drawn.

    The pose's own rough face and fingers are left out where the finer ones were found. Each picture
    has a landmarker of its own (about 0.2 s to open): MediaPipe's keeps tracking from one picture
    to the next even in image mode, so that a picture would come out differently after another, and
    it refuses one of another size.

    Args:
        task: MediaPipe's holistic_landmarker.task; "" takes the environment's
            ``UNPLUG_HOLISTIC_LANDMARKER``.
    """

    task: str = field(default="", metadata={"path": True})

    kind: ClassVar[str] = "holistic"
    description: ClassVar[str] = (
        "body pose, both hands and face of a person by MediaPipe's Holistic Landmarker"
    )

    def resolve(self) -> Self:
        """The settings with the task file's absolute path. Raises `InputError` where there is none."""
        return replace(self, task=resolve_task(self.kind, self.task, VARIABLE, FILE, PAGE))

    def landmarks(self, image_HWC: Picture) -> dict[str, NDArray[np.float32]]:
        """Points of the parts that were found.

        Args:
            image_HWC: (H, W, 3) RGB, uint8.

        Returns:
            Any of ``pose`` (33, 2), ``left_hand`` and ``right_hand`` (21, 2) and ``face`` (478, 2),
            in pixels.

        Raises:
            NoFaceError: nothing of a person was found.
        """
        image_HWC = checked(image_HWC)
        return {part: pixels(points, image_HWC) for part, points in self._found(image_HWC).items()}

    def figures(self, image_HWC: Picture, window: PictureWindow) -> list[DrawnFigure]:
        """One figure for each part that was found: the pose, the hands, the face."""
        parts = self._found(image_HWC)
        lines = {"pose": pose_lines(frozenset(parts)), "face": face_lines("unplug")}
        return [
            DrawnFigure(
                points_K2=pixels(points, image_HWC),
                visible_K=visible(points),
                lines=lines[part] if part in lines else hand_lines(part),
            )
            for part, points in parts.items()
        ]

    def _found(self, image_HWC: Picture) -> dict[str, Any]:
        module, task = vision(), self.resolve().task

        def create(base: Any) -> Any:
            return module.HolisticLandmarker.create_from_options(
                module.HolisticLandmarkerOptions(base_options=base)
            )

        with open_task(task, PAGE, create) as landmarker:
            result = detect(landmarker, image_HWC, task, PAGE)
        parts = {part: getattr(result, f"{part}_landmarks") for part in PARTS}
        parts = {part: points for part, points in parts.items() if points}
        if not parts:
            raise NoFaceError(
                "picture", "no person found", "Give a picture that shows a person, large enough"
            )
        return parts
