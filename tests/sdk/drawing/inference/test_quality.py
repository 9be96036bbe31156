"""Of which photographs nothing can be said, and why: one of each kind, found by MediaPipe."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unplug.core import InputError
from unplug.sdk.drawing.inference import face_faults, face_problem


def test_a_fault_has_one_sentence() -> None:
    dark, bright = np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 200, np.uint8)
    near, far = ((0.0, 0.0), (3.0, 4.0)), ((0.0, 0.0), (30.0, 40.0))
    small = "the face is too small: 5 pixels between the eyes, and 16 are needed"
    for faces, eyes, shown, sentence in (
        (0, near, dark, "no face found"),
        (3, near, dark, "3 faces found"),
        (1, near, dark, small),
        (1, far, dark, "the face is too dark"),
        (1, far, bright, None),
    ):
        assert face_problem(faces, *eyes, shown) == sentence


def test_a_landmarker_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such task file"):
        face_faults([tmp_path / "a.png"], tmp_path / "none.task", 64)


@pytest.mark.long
@pytest.mark.skipif(
    not {"UNPLUG_FACE_LANDMARKER", "UNPLUG_PORTRAIT"} <= os.environ.keys(),
    reason="UNPLUG_FACE_LANDMARKER and UNPLUG_PORTRAIT name no files",
)
def test_each_kind_of_failure_is_found(tmp_path: Path) -> None:
    portrait = Image.open(os.environ["UNPLUG_PORTRAIT"]).convert("RGB")
    portrait.thumbnail((480, 480))
    wide, high = portrait.size
    twins = Image.new("RGB", (2 * wide, high))
    twins.paste(portrait, (0, 0))
    twins.paste(portrait, (wide, 0))
    pictures = {
        "fine": portrait,
        "several faces": twins,
        "no face": Image.new("RGB", (300, 300), (90, 120, 90)),
        "too dark": portrait.point(lambda value: value // 10),
        "too small": portrait.resize((wide // 12, high // 12)),
    }
    paths = []
    for name, picture in pictures.items():
        paths.append(tmp_path / f"{name}.png")
        picture.save(paths[-1])
    paths.append(tmp_path / "unreadable.png")
    paths[-1].write_bytes(b"no picture")
    faults = face_faults(paths, Path(os.environ["UNPLUG_FACE_LANDMARKER"]), 64, show=False)
    assert dict(zip((path.stem for path in paths), faults, strict=True)) == {
        "fine": None,
        **{name: name for name in (*pictures, "unreadable") if name != "fine"},
    }
