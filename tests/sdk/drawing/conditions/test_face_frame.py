"""The square around a face: where it lies, what stands out of the photograph, and how large it
gets.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unplug.core import DataError, InputError
from unplug.sdk.drawing.conditions import (
    FaceFinder,
    FaceFrame,
    Steering,
    draw_conditions,
)
from unplug.sdk.drawing.conditions.face_frame import MAX_FRAME, cut_square, frame_face


def numbered(width: int, height: int) -> Image.Image:
    """Red tells the column and green the row."""
    rows, columns = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([columns, rows, rows * 0], axis=2).astype(np.uint8))


def test_a_square_inside_is_the_picture_itself() -> None:
    framed = cut_square(numbered(100, 80), 10.0, 20.0, 50.0)
    assert framed.inside == (0.0, 0.0, 1.0, 1.0) and framed.image.size == (50, 50)
    assert np.array_equal(np.asarray(framed.image), np.asarray(numbered(100, 80))[20:70, 10:60])
    drawn = np.full((16, 16, 3), 7, np.uint8)
    assert np.array_equal(framed.blacken(drawn), drawn)


@pytest.mark.parametrize(
    ("left", "top"), [(-20.0, -10.0), (60.0, 50.0), (-20.0, 50.0), (-10.0, -10.0)]
)
def test_what_stands_out_repeats_the_edge_and_is_black_in_the_condition(
    left: float, top: float
) -> None:
    side = 120.0 if left == top else 60.0
    framed = cut_square(numbered(100, 80), left, top, side)
    pixels = np.asarray(framed.image).astype(int)
    assert framed.image.size == (side, side)
    columns = np.clip(np.arange(side) + left, 0, 99)
    rows = np.clip(np.arange(side) + top, 0, 79)
    assert (
        np.abs(pixels[:, :, 0] - columns).max() <= 1
        and np.abs(pixels[:, :, 1] - rows[:, None]).max() <= 1
    )
    inside = (
        (columns[None] == np.arange(side) + left)
        & (rows[:, None] == (np.arange(side) + top)[:, None])
    )[..., None]
    shown = framed.blacken(np.full((int(side), int(side), 3), 9, np.uint8))
    assert np.array_equal(shown, np.where(inside, 9, 0).repeat(3, axis=2))


def test_a_large_face_is_shrunk_and_a_small_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    framed = cut_square(Image.new("RGB", (3000, 3000)), -9000.0, -9000.0, 20_000.0)
    assert framed.image.size == (MAX_FRAME, MAX_FRAME)
    grey, task = Image.new("RGB", (64, 64), (9, 9, 9)), tmp_path / "face.task"
    grey.save(tmp_path / "a.png")
    task.write_bytes(bytes(64))
    frame = FaceFrame(task=str(task), margin=0.25)
    photo = Steering(plugin="x", image=tmp_path / "a.png", photo=True, frame=frame)
    monkeypatch.setattr(FaceFinder, "faces", lambda *_: np.array([[[10.0, 10.0], [22.0, 20.0]]]))
    with pytest.raises(DataError, match=r"a\.png: its face is 12 pixels wide"):
        draw_conditions([photo], ["canny"], 64)
    monkeypatch.setattr(FaceFinder, "faces", lambda *_: np.array([[[10.0, 10.0], [30.0, 50.0]]]))
    assert frame_face(np.asarray(grey), frame).image.size == (60, 60)
    with pytest.raises(DataError, match=r"a\.png: the condition is empty"):
        draw_conditions([photo], ["canny"], 64)


def test_frames_that_are_none() -> None:
    for margin in (-0.1, 2.1, float("nan")):
        with pytest.raises(InputError, match="out of range"):
            FaceFrame(margin=margin)
    with pytest.raises(InputError, match="one face is cropped"):
        FaceFrame(faces="all")  # type: ignore[arg-type]
