"""Pose, hands and face on two photographs. Needs MediaPipe and its holistic_landmarker.task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from unplug.core import InputError, NoFaceError
from unplug.plugins.conditions import Holistic
from unplug.plugins.conditions.holistic import (
    HANDS,
    LEFT,
    MIDDLE,
    PARTS,
    RIGHT,
    hand_lines,
    pose_lines,
)

Picture = NDArray[np.uint8]


@pytest.fixture
def holistic(holistic_task: Path) -> Holistic:
    return Holistic(task=str(holistic_task))


@pytest.mark.parametrize("name", ["full_body", "portrait"])
def test_face_pose_and_both_hands_are_found(
    holistic: Holistic, name: str, request: pytest.FixtureRequest
) -> None:
    parts = holistic.landmarks(request.getfixturevalue(name))
    assert {part: points.shape for part, points in parts.items()} == {
        part: (count, 2) for part, count in PARTS.items()
    }


def test_left_and_right_have_their_colours(holistic: Holistic, full_body: Picture) -> None:
    parts, drawn = holistic.landmarks(full_body), holistic(full_body)
    assert drawn.shape == full_body.shape

    def centre(colour: tuple[int, int, int]) -> float:
        return float(np.nonzero((drawn == colour).all(axis=2))[1].mean())

    for hand, colour in HANDS.items():
        assert centre(colour) == pytest.approx(parts[hand][:, 0].mean(), abs=15)
    assert centre(LEFT) > centre(MIDDLE) > centre(RIGHT)  # she faces us


def test_a_picture_comes_out_the_same_after_others_of_other_sizes(
    holistic: Holistic, full_body: Picture
) -> None:
    first = holistic.render(full_body, 128)
    holistic.render(full_body[:500, 100:700], 128)
    assert first.any() and holistic.render(full_body, 128).tobytes() == first.tobytes()


def test_nobody(holistic: Holistic) -> None:
    with pytest.raises(NoFaceError, match="picture: no person found"):
        holistic(np.full((200, 200, 3), (90, 120, 90), np.uint8))


def test_a_task_file_of_another_kind(face_task: Path, full_body: Picture) -> None:
    with pytest.raises(InputError, match="MediaPipe cannot use it"):
        Holistic(task=str(face_task))(full_body)


def test_finer_parts_replace_the_poses_own() -> None:
    pytest.importorskip("mediapipe")
    points = {
        part: {end for line in pose_lines(frozenset({part})) for end in (line.start, line.end)}
        for part in PARTS
    }
    assert points["pose"] == set(range(33))
    assert points["face"] == set(range(11, 33))
    assert set(range(33)) - points["left_hand"] == {17, 19, 21}
    assert set(range(33)) - points["right_hand"] == {18, 20, 22}
    assert {end for line in hand_lines("left_hand") for end in (line.start, line.end)} == set(
        range(21)
    )


def test_sides_of_the_pose() -> None:
    pytest.importorskip("mediapipe")
    colours = {(line.start, line.end): line.colour for line in pose_lines(frozenset())}
    assert (
        colours[(11, 13)] == colours[(23, 25)] == LEFT
        and colours[(12, 14)] == colours[(24, 26)] == RIGHT
    )
    assert colours[(11, 12)] == colours[(23, 24)] == MIDDLE
