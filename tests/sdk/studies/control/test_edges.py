"""Edge precision, recall and F1 by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unplug.plugins.conditions import build_condition
from unplug.sdk.data import load_dataset
from unplug.sdk.studies.control.edges import TOLERANCE, edge_scores


def lines(*columns: int, side: int = 16) -> np.ndarray:
    picture = np.zeros((side, side), bool)
    picture[:, list(columns)] = True
    return picture


@pytest.mark.parametrize(
    ("shift", "tolerance", "score"), [(0, 0.0, 1.0), (1, 0.0, 0.0), (1, 1.0, 1.0), (2, 1.0, 0.0), (2, 2.0, 1.0)]
)
def test_a_shifted_line_counts_within_the_tolerance(shift: int, tolerance: float, score: float) -> None:
    assert edge_scores(lines(5 + shift), lines(5), tolerance) == (score, score, score)


def test_half_of_the_edges_missing_halves_recall_and_not_precision() -> None:
    precision, recall, f1 = edge_scores(lines(3), lines(3, 12), 1.0)
    assert (precision, recall) == (1.0, 0.5) and f1 == pytest.approx(2 / 3)


def test_edges_that_nobody_asked_for_cost_precision_only() -> None:
    precision, recall, f1 = edge_scores(lines(3, 8, 12), lines(3), 1.0)
    assert precision == pytest.approx(1 / 3) and recall == 1.0 and f1 == pytest.approx(0.5)


def test_a_diagonal_neighbour_is_further_than_one_pixel() -> None:
    one, other = np.zeros((8, 8), bool), np.zeros((8, 8), bool)
    one[3, 3] = other[4, 4] = True
    assert edge_scores(one, other, 1.0)[2] == 0.0 and edge_scores(one, other, 1.415)[2] == 1.0


def test_pictures_without_edges() -> None:
    empty = np.zeros((8, 8), bool)
    assert edge_scores(empty, empty, 1.0) == (1.0, 1.0, 1.0)
    assert edge_scores(empty, lines(2, side=8), 1.0) == edge_scores(lines(2, side=8), empty, 1.0) == (0.0, 0.0, 0.0)


def test_unrelated_faces_share_edges_and_more_at_one_size_than_at_another() -> None:
    """What the row of other samples' pictures is for."""
    canny = build_condition("canny", {})
    found = {}
    for side in (64, 128):
        faces = load_dataset("synth:n=30,subjects=30,seed=9", side, show=False)
        edges = [canny.render(picture, side)[..., 0] > 0 for picture in faces.pixels(range(30))]
        found[side] = np.mean([edge_scores(one, other, TOLERANCE * side)[2] for one, other in pairwise(edges)])
    assert found[128] == pytest.approx(0.3, abs=0.04) and found[64] < found[128] - 0.05


def slow_near(of: np.ndarray, to: np.ndarray, tolerance: float) -> float:
    near = [
        min(np.hypot(y - v, x - u) for v, u in zip(*np.nonzero(to), strict=True)) for y, x in zip(*np.nonzero(of), strict=True)
    ]
    return float(np.mean([distance <= tolerance + 1e-9 for distance in near]))


@settings(max_examples=40)
@given(arrays(bool, (6, 6)), arrays(bool, (6, 6)), st.sampled_from([0.0, 1.0, 1.5, 2.0]))
def test_the_slow_way_agrees_and_sides_swap(drawn: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    precision, recall, f1 = edge_scores(drawn, wanted, tolerance)
    if drawn.any() and wanted.any():
        assert precision == pytest.approx(slow_near(drawn, wanted, tolerance))
        assert recall == pytest.approx(slow_near(wanted, drawn, tolerance))
    assert edge_scores(wanted, drawn, tolerance) == (recall, precision, f1)
    assert min(precision, recall) <= f1 <= max(precision, recall) or f1 == 0.0
