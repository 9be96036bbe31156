"""Normalized mean errors by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unplug.sdk.faces import LANDMARK_NAMES, MEDIAPIPE_INDEX
from unplug.sdk.studies.control.landmarks import eye_distance, landmark_errors, mean_error, true_errors, under


def face(eyes: float = 40.0) -> np.ndarray:
    points = np.random.default_rng(2).uniform(20, 100, (478, 2)).astype(np.float32)
    points[33], points[263] = (40.0, 50.0), (40.0 + eyes, 50.0)
    return points


def test_points_moved_by_3_and_4_over_eyes_40_apart() -> None:
    source = face()
    assert eye_distance(source) == 40.0
    assert mean_error(source + np.array([3, 4], np.float32), source, 40.0) == pytest.approx(5 / 40, rel=1e-5)


def test_the_mean_is_over_points_not_over_coordinates() -> None:
    wanted = np.zeros((2, 2), np.float32)
    found = np.array([[3, 4], [0, 0]], np.float32)
    assert mean_error(found, wanted, 1.0) == 2.5


def test_the_unit_is_the_sources_eye_distance() -> None:
    small, large = face(20.0), face(40.0)
    ((there,), (back,)) = landmark_errors([small], [large]), landmark_errors([large], [small])
    assert back == pytest.approx(2 * there)


def test_a_picture_without_a_face_has_no_number() -> None:
    errors = landmark_errors([None, face(), face()], [face(), None, face()])
    assert math.isnan(errors[0]) and math.isnan(errors[1]) and errors[2] == 0.0


def test_a_missing_face_fails_and_one_that_nobody_asked_for_does_not_count() -> None:
    wanted = [face(), face(), face(), None]
    found = [face() + np.float32(1.0), face() + np.float32(9.0), None, face()]
    errors = landmark_errors(found, wanted)
    assert under(errors, wanted)[:3].tolist() == [1.0, 0.0, 0.0] and math.isnan(under(errors, wanted)[3])


def test_true_landmarks_are_compared_at_their_places_in_the_mesh() -> None:
    index = [MEDIAPIPE_INDEX[name] for name in LANDMARK_NAMES]
    outer = (LANDMARK_NAMES.index("right_eye_outer"), LANDMARK_NAMES.index("left_eye_outer"))
    found = face()
    truth = found[index].copy()
    assert (eye_distance(truth, outer), eye_distance(found)) == (40.0, 40.0)
    truth[LANDMARK_NAMES.index("chin")] += (0.0, 8.0)
    errors = true_errors([found, None], np.stack([truth, truth]), index, outer)
    assert errors[0] == pytest.approx(8.0 / 40.0 / len(index)) and math.isnan(errors[1])
