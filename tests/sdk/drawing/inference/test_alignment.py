"""Faces put in a frame, beside a slow loop over pixels, and what is too little to judge."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.vectors.faces.make import HERE, cases, manifests, picture, problems

from unplug.core import DataError, InputError
from unplug.sdk.drawing.inference import Frame, align, eyes_of, frame_in, light
from unplug.sdk.drawing.inference.crop import crop_all

needs_landmarker = pytest.mark.skipif(
    not {"UNPLUG_FACE_LANDMARKER", "UNPLUG_PORTRAIT"} <= os.environ.keys(),
    reason="UNPLUG_FACE_LANDMARKER and UNPLUG_PORTRAIT name no files",
)


def slow(image: np.ndarray, left: complex, right: complex, size: int, frame: Frame) -> np.ndarray:
    """One pixel, one sample, one channel at a time, in complex numbers."""
    goal_left, goal_right = complex(*frame.left) * size, complex(*frame.right) * size
    turn = (right - left) / (goal_right - goal_left)
    steps = min(16, math.ceil(abs(turn) - 1e-12))
    made = np.zeros((size, size, 3))
    height, width = image.shape[:2]
    for row in range(size):
        for column in range(size):
            for a in range(steps):
                for b in range(steps):
                    at = (
                        left
                        + turn
                        * (complex(column + (b + 0.5) / steps, row + (a + 0.5) / steps) - goal_left)
                        - (0.5 + 0.5j)
                    )
                    x, y = min(max(at.real, 0), width - 1), min(max(at.imag, 0), height - 1)
                    i, j = int(x), int(y)
                    for down, wy in ((j, 1 - (y - j)), (min(j + 1, height - 1), y - j)):
                        for across, wx in ((i, 1 - (x - i)), (min(i + 1, width - 1), x - i)):
                            made[row, column] += image[down, across] * wy * wx / steps**2
    return made


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_slow_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shown = picture(37, 29, seed)
    left, right = rng.uniform(5, 15, 2), rng.uniform(16, 27, 2)
    frame = Frame(left=(0.25, 0.4), right=(0.8, 0.35))
    made = align(shown, (left[0], left[1]), (right[0], right[1]), 11, frame)
    assert (
        np.abs(made - slow(shown, complex(*left), complex(*right), 11, frame)).max() <= 0.5 + 1e-6
    )


def test_a_face_that_is_in_its_frame_stays_and_one_on_its_head_is_turned() -> None:
    shown, frame = picture(32, 32, 0), Frame(left=(0.25, 0.375), right=(0.75, 0.375))
    assert np.array_equal(align(shown, (8.0, 12.0), (24.0, 12.0), 32, frame), shown)
    assert np.array_equal(align(np.rot90(shown, 2), (24.0, 20.0), (8.0, 20.0), 32, frame), shown)


def test_eyes_are_the_middles_of_their_corners() -> None:
    points = [(0.0, 0.0)] * 478
    corners = {33: (1.0, 2.0), 133: (3.0, 4.0), 362: (5.0, 6.0), 263: (8.0, 7.0)}
    for number, point in corners.items():
        points[number] = point
    assert eyes_of(points) == ((2.0, 3.0), (6.5, 6.5))


def test_light_of_one_colour() -> None:
    assert light(np.full((3, 3, 3), 200, np.uint8)) == 200.0
    assert light(np.array([[[255, 0, 0]]], np.uint8)) == pytest.approx(0.299 * 255)


@pytest.mark.parametrize("right", [(5.0, 5.0), (math.nan, 5.0), (math.inf, 5.0)])
def test_eyes_that_are_none(right: tuple[float, float]) -> None:
    with pytest.raises(DataError, match="its eyes are in the same place"):
        align(picture(9, 9, 0), (5.0, 5.0), right, 8)


@pytest.mark.parametrize("left", [(-0.1, 0.3), (0.6831, 0.3037), (math.nan, 0.3)])
def test_a_frame_that_is_none(left: tuple[float, float]) -> None:
    with pytest.raises(InputError):
        Frame(left=left)


def test_the_vectors_are_what_this_computes() -> None:
    kept = json.loads((HERE / "faces.json").read_text(encoding="utf-8"))
    made = {
        "tolerance": "equal",
        "align": cases(),
        "problems": problems(),
        "manifests": manifests(),
    }
    assert kept == json.loads(json.dumps(made))
    assert [item["refused"] for item in kept["manifests"]].count(True) == 12
    assert [item["problem"] is None for item in kept["problems"]].count(True) == 3


@needs_landmarker
def test_a_photograph_is_judged_after_its_face_was_found(tmp_path: Path) -> None:
    portrait = Image.open(os.environ["UNPLUG_PORTRAIT"]).convert("RGB")
    task = Path(os.environ["UNPLUG_FACE_LANDMARKER"])
    places = [tmp_path / "upright.png", tmp_path / "turned.png"]
    portrait.save(places[0])
    portrait.rotate(20, expand=True).save(places[1])
    (upright, told), (turned, _) = crop_all(places, 64, landmarker=task, frame=Frame())
    assert told.startswith("eyes at ")
    middle = (slice(16, 48), slice(16, 48))
    difference = np.abs(upright[middle].astype(int) - turned[middle].astype(int)).mean()
    assert difference < 12, "turned back, it is nearly the same face"
    for frame, why in (
        (Frame(least_eyes=10_000.0), "too small"),
        (Frame(least_light=254.0), "too dark"),
    ):
        with pytest.raises(DataError, match=why):
            crop_all(places[:1], 64, landmarker=task, frame=frame)


def test_a_manifest_carries_its_frame() -> None:
    preprocessing = {"crop": "centre square", "eyes": [[0.2, 0.4], [0.8, 0.4]], "least_eyes": 20}
    assert frame_in(preprocessing, "m") == Frame(left=(0.2, 0.4), right=(0.8, 0.4), least_eyes=20.0)
    assert frame_in({"crop": "centre square"}, "m") is None


EYES = [[0.2, 0.4], [0.8, 0.4]]


@pytest.mark.parametrize(
    "stranger",
    [
        {"eyes": None},
        {"eyes": 7},
        {"eyes": []},
        {"eyes": EYES[:1]},
        {"eyes": [[0.1, 0.2], [0.1, "x"]]},
        {"eyes": [EYES[0], EYES[0]]},
        {"eyes": [[0, 0], [1e400, 0]]},
        {"eyes": [[0, 0, 0], [1, 0]]},
        {"eyes": EYES, "least_light": math.nan},
    ],
)
def test_a_frame_from_a_stranger(stranger: dict[str, object]) -> None:
    with pytest.raises(InputError, match="not frame a face"):
        frame_in(stranger, "manifest.json")
