"""Line drawings against a loop of plain `cv2.line`, and what happens at the edges and at small
sizes.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

cv2 = pytest.importorskip("cv2")
from unplug.plugins.conditions.lines import REACH, DrawnFigure, DrawnLine, draw  # noqa: E402
from unplug.plugins.conditions.picture import PictureWindow  # noqa: E402

RED, GREEN = (255, 0, 0), (0, 255, 0)
FULL = PictureWindow(left=0, top=0, width=512, height=512)


def figure(
    points: object, *colours: tuple[int, int, int], hidden: tuple[int, ...] = ()
) -> DrawnFigure:
    """Consecutive points joined by lines."""
    points_K2 = np.array(points, np.float32)
    visible_K = ~np.isin(np.arange(len(points_K2)), hidden)
    lines = tuple(
        DrawnLine(start=index, end=index + 1, colour=colour) for index, colour in enumerate(colours)
    )
    return DrawnFigure(points_K2=points_K2, visible_K=visible_K, lines=lines)


def test_a_drawing_is_that_of_plain_lines() -> None:
    points = np.random.default_rng(0).uniform(0, 512, (40, 2))
    colours = [RED, GREEN, (3, 2, 1)] * 13
    expected = np.zeros((512, 512, 3), np.uint8)
    corners = np.floor(points.astype(np.float32)).astype(int).tolist()
    for index, colour in enumerate(colours):
        cv2.line(expected, corners[index], corners[index + 1], colour, 1)
    assert np.array_equal(draw([figure(points, *colours)], FULL, 512, 512), expected)


def test_a_horizontal_line_by_hand() -> None:
    drawn = draw([figure([(10.9, 20.9), (14.2, 20.1)], RED)], FULL, 512, 512)
    assert list(zip(*np.nonzero(drawn[..., 0]), strict=True)) == [(20, x) for x in range(10, 15)]
    assert (
        set(drawn[drawn.any(axis=2)].reshape(-1).tolist()) == {255, 0} and not drawn[..., 1:].any()
    )
    nearest = draw([figure([(10.9, 20.9), (14.2, 20.1)], RED)], FULL, 512, 512, nearest=True)
    assert cv2.boundingRect(nearest[..., 0]) == (11, 20, 4, 2)


def test_a_line_that_leaves_the_picture_is_cut_and_a_far_one_left_out() -> None:
    whole = draw([figure([(100.5, 100.5), (100.5, -50.0)], RED)], FULL, 512, 512)
    assert np.nonzero(whole[:, 100, 0])[0].tolist() == list(range(101))
    below = draw([figure([(100.5, 500.5), (100.5, 512.0 + REACH - 1)], RED)], FULL, 512, 512)
    assert np.nonzero(below[:, 100, 0])[0].tolist() == list(range(500, 512))
    far = draw([figure([(100.5, 500.5), (100.5, 512.0 + REACH + 1)], RED)], FULL, 512, 512)
    assert not far.any()


def test_an_invisible_end_leaves_its_lines_out() -> None:
    points = [(10, 10), (100, 10), (100, 100)]
    both = draw([figure(points, RED, GREEN)], FULL, 512, 512)
    one = draw([figure(points, RED, GREEN, hidden=(0,))], FULL, 512, 512)
    assert both[..., 0].any() and not one[..., 0].any() and one[..., 1].any()


def centre(drawn: NDArray[np.uint8]) -> float:
    weight = drawn[:, :, 0].astype(float).sum(axis=0)
    return float((weight * (np.arange(len(weight)) + 0.5)).sum() / weight.sum())


def test_small_drawings_say_where_a_line_is_to_a_fraction_of_a_pixel() -> None:
    window = PictureWindow(left=0, top=0, width=128, height=128)
    places = [20.0, 20.25, 20.5, 20.75, 21.0]
    drawn = [draw([figure([(x, 10), (x, 100)], RED)], window, 128, 128) for x in places]
    centres = [centre(item) for item in drawn]
    # not 0.25 each: a pixel's light counts as in its middle
    assert all(0.1 < step < 0.45 for step in np.diff(centres))
    assert centres[-1] - centres[0] == pytest.approx(1.0, abs=1e-6)
    assert np.array(centres) == pytest.approx(np.array(places) + 0.125, abs=0.15)
    for item in drawn:  # as much light as a line of one pixel gives
        assert item[50, :, 0].astype(int).sum() == pytest.approx(255, rel=0.3)


def test_a_window_is_a_crop() -> None:
    shape = figure(np.random.default_rng(1).uniform(100, 900, (20, 2)), *[GREEN] * 19)
    whole = draw([shape], PictureWindow(left=0, top=0, width=1000, height=1000), 1000, 1000)
    part = draw([shape], PictureWindow(left=120, top=300, width=600, height=600), 600, 600)
    assert part.any()
    difference = np.nonzero((part != whole[300:900, 120:720]).any(axis=2))[0]
    # a cut line may start one pixel aside
    assert len(difference) <= 0.02 * np.count_nonzero(part.any(axis=2))
