"""Control errors by hand: landmarks and edges."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.studies.control.errors import (
    TOLERANCE,
    edge_scores,
    eye_distance,
    landmark_errors,
    mean_error,
    under,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unplug.plugins.conditions import build_condition
from unplug.sdk.learning.data import load_dataset
from unplug.sdk.learning.faces import LANDMARK_NAMES, MEDIAPIPE_INDEX


def face(eyes: float = 40.0) -> np.ndarray:
    points = np.random.default_rng(2).uniform(20, 100, (478, 2)).astype(np.float32)
    points[33], points[263] = (40.0, 50.0), (40.0 + eyes, 50.0)
    return points


def test_points_moved_by_3_and_4_over_eyes_40_apart() -> None:
    source = face()
    assert eye_distance(source) == 40.0
    assert mean_error(source + np.array([3, 4], np.float32), source, 40.0) == pytest.approx(
        5 / 40, rel=1e-5
    )


def test_a_picture_without_a_face_has_no_number() -> None:
    errors = landmark_errors([None, face(), face()], [face(), None, face()])
    assert math.isnan(errors[0]) and math.isnan(errors[1]) and errors[2] == 0.0


def test_a_missing_face_fails_and_one_that_nobody_asked_for_does_not_count() -> None:
    wanted = [face(), face(), face(), None]
    found = [face() + np.float32(1.0), face() + np.float32(9.0), None, face()]
    errors = landmark_errors(found, wanted)
    assert under(errors, wanted)[:3].tolist() == [1.0, 0.0, 0.0] and math.isnan(
        under(errors, wanted)[3]
    )


def test_true_landmarks_are_compared_at_their_places_in_the_mesh() -> None:
    index = [MEDIAPIPE_INDEX[name] for name in LANDMARK_NAMES]
    outer = (LANDMARK_NAMES.index("right_eye_outer"), LANDMARK_NAMES.index("left_eye_outer"))
    found = face()
    truth = found[index].copy()
    assert (eye_distance(truth, outer), eye_distance(found)) == (40.0, 40.0)
    truth[LANDMARK_NAMES.index("chin")] += (0.0, 8.0)
    errors = landmark_errors([found[index], None], [truth, truth], outer)
    assert errors[0] == pytest.approx(8.0 / 40.0 / len(index)) and math.isnan(errors[1])


def lines(*columns: int, side: int = 16) -> np.ndarray:
    picture = np.zeros((side, side), bool)
    picture[:, list(columns)] = True
    return picture


@pytest.mark.parametrize(
    ("shift", "tolerance", "score"),
    [(0, 0.0, 1.0), (1, 0.0, 0.0), (1, 1.0, 1.0), (2, 1.0, 0.0), (2, 2.0, 1.0)],
)
def test_a_shifted_line_counts_within_the_tolerance(
    shift: int, tolerance: float, score: float
) -> None:
    assert edge_scores(lines(5 + shift), lines(5), tolerance) == (score, score, score)


def test_pictures_without_edges() -> None:
    empty = np.zeros((8, 8), bool)
    assert edge_scores(empty, empty, 1.0) == (1.0, 1.0, 1.0)
    assert (
        edge_scores(empty, lines(2, side=8), 1.0)
        == edge_scores(lines(2, side=8), empty, 1.0)
        == (0.0, 0.0, 0.0)
    )


def test_unrelated_faces_share_edges_and_more_at_one_size_than_at_another() -> None:
    """What the row of other samples' pictures is for."""
    canny = build_condition("canny", {})
    found = {}
    for side in (64, 128):
        faces = load_dataset("synth:n=30,subjects=30,seed=9", side, show=False)
        edges = [canny.render(picture, side)[..., 0] > 0 for picture in faces.pixels(range(30))]
        found[side] = np.mean(
            [edge_scores(one, other, TOLERANCE * side)[2] for one, other in pairwise(edges)]
        )
    assert found[128] == pytest.approx(0.3, abs=0.04) and found[64] < found[128] - 0.05


def slow_near(of: np.ndarray, to: np.ndarray, tolerance: float) -> float:
    near = [
        min(np.hypot(y - v, x - u) for v, u in zip(*np.nonzero(to), strict=True))
        for y, x in zip(*np.nonzero(of), strict=True)
    ]
    return float(np.mean([distance <= tolerance + 1e-9 for distance in near]))


@settings(max_examples=40)
@given(arrays(bool, (6, 6)), arrays(bool, (6, 6)), st.sampled_from([0.0, 1.0, 1.5, 2.0]))
def test_the_slow_way_agrees_and_sides_swap(
    drawn: np.ndarray, wanted: np.ndarray, tolerance: float
) -> None:
    precision, recall, f1 = edge_scores(drawn, wanted, tolerance)
    if drawn.any() and wanted.any():
        assert precision == pytest.approx(slow_near(drawn, wanted, tolerance))
        assert recall == pytest.approx(slow_near(wanted, drawn, tolerance))
    assert edge_scores(wanted, drawn, tolerance) == (recall, precision, f1)
    assert min(precision, recall) - 1e-9 <= f1 <= max(precision, recall) + 1e-9 or f1 == 0.0
