"""Face landmarks, on drawn faces with known ones and on a photograph. Needs MediaPipe and its
face_landmarker.task.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from unplug.core import InputError, NoFaceError, SeveralFacesError
from unplug.plugins.conditions import FaceLandmark, landmarker
from unplug.plugins.conditions.face_landmark import COLOURS
from unplug.sdk.learning import faces

from .conftest import synthetic

Picture = NDArray[np.uint8]
MEADOW = np.full((300, 300, 3), (90, 120, 90), np.uint8)
INDEX = list(faces.MEDIAPIPE_INDEX.values())


def centre(drawn: Picture, colour: tuple[int, int, int]) -> tuple[float, float]:
    """x and y of the middle of all pixels of a colour."""
    y, x = np.nonzero((drawn == colour).all(axis=2))
    return float(x.mean()), float(y.mean())


def error(points_K2: NDArray[np.float32], truth_32: NDArray[Any]) -> float:
    """Mean landmark error by the distance of the outer eye corners."""
    width = np.linalg.norm(truth_32[INDEX.index(33)] - truth_32[INDEX.index(263)])
    return float(np.linalg.norm(points_K2[INDEX] - truth_32, axis=1).mean() / width)


def pair(left: Picture, right: Picture) -> Picture:
    """Two faces side by side on grey."""
    canvas = np.full((400, 800, 3), 128, np.uint8)
    canvas[60 : 60 + len(left), 60 : 60 + len(left)] = left
    canvas[60 : 60 + len(right), 460 : 460 + len(right)] = right
    return canvas


@pytest.mark.long
def test_the_photograph_has_478_points_inside_it(landmark: FaceLandmark, portrait: Picture) -> None:
    points = landmark.landmarks(portrait)
    assert points.shape == (478, 2) and points.dtype == np.float32
    assert (points > 0).all() and (points < (portrait.shape[1], portrait.shape[0])).all()
    drawn = landmark(portrait)
    assert drawn.shape == portrait.shape and drawn.dtype == np.uint8
    shown = {tuple(colour) for colour in np.unique(drawn.reshape(-1, 3), axis=0).tolist()}
    assert shown == {(0, 0, 0), *COLOURS["unplug"].values()}


def test_left_and_right_are_the_persons_own(landmark: FaceLandmark) -> None:
    face, colours = synthetic(512), COLOURS["unplug"]
    drawn = landmark(face.image)
    for side in ("LEFT", "RIGHT"):
        x, y = face.landmarks[INDEX.index(473 if side == "LEFT" else 468)]
        for part in ("EYE", "IRIS"):
            assert centre(drawn, colours[f"{side}_{part}"]) == pytest.approx((x, y), abs=12)
        brow = centre(drawn, colours[f"{side}_EYEBROW"])
        assert abs(brow[0] - x) < 20 and brow[1] < y - 10
    assert centre(drawn, colours["LEFT_EYE"])[0] > centre(drawn, colours["RIGHT_EYE"])[0] + 50
    mouth = face.landmarks[[INDEX.index(61), INDEX.index(291)]].mean(axis=0)
    assert centre(drawn, colours["LIPS"]) == pytest.approx(tuple(mouth), abs=15)


def test_the_image_generators_style_is_white_green_and_blue(landmark: FaceLandmark) -> None:
    face = synthetic(512)
    points = landmark.landmarks(face.image)
    drawn = replace(landmark, style="mediapipe")(face.image)
    shown = {tuple(colour) for colour in np.unique(drawn.reshape(-1, 3), axis=0).tolist()}
    assert shown == {(0, 0, 0), (255, 255, 255), (0, 255, 0), (0, 0, 255)}
    x, y = np.round(points[152]).astype(int)  # the chin: a corner of the oval, at the nearest pixel
    assert tuple(drawn[y, x]) == (255, 255, 255)
    x, y = np.round(points[263]).astype(int)  # the left eye's outer corner
    assert tuple(drawn[y, x]) == (0, 255, 0)
    x, y = np.round(points[33]).astype(int)
    assert tuple(drawn[y, x]) == (0, 0, 255)


def test_the_square_is_drawn_from_the_whole_picture(landmark: FaceLandmark) -> None:
    face = synthetic(256)
    wide = np.full((256, 401, 3), 128, np.uint8)
    wide[:, 60:316] = face.image
    points = landmark.landmarks(wide) - (72.5, 0)
    drawn = landmark.render(wide, 512)
    y, x = np.nonzero(drawn.any(axis=2))
    oval = points[[10, 152, 234, 454]] * 2
    assert (x.min(), x.max()) == pytest.approx((oval[:, 0].min(), oval[:, 0].max()), abs=8)
    assert (y.min(), y.max()) == pytest.approx((oval[:, 1].min(), oval[:, 1].max()), abs=8)


def test_small_conditions_keep_all_parts_apart(landmark: FaceLandmark) -> None:
    face = synthetic(512)
    large, small = landmark.render(face.image, 512), landmark.render(face.image, 128)
    assert small.shape == (128, 128, 3)
    shrunk = large.reshape(128, 4, 128, 4, 3).astype(float).mean(axis=(1, 3))
    # four times as thick, else the same
    assert np.corrcoef(small.ravel(), shrunk.ravel())[0, 1] > 0.8
    for part in ("LEFT_EYE", "RIGHT_EYE", "LIPS"):
        near = np.abs(small.astype(int) - COLOURS["unplug"][part]).sum(axis=2) < 150
        y, x = np.nonzero(near)
        assert (x.mean() * 4, y.mean() * 4) == pytest.approx(
            centre(large, COLOURS["unplug"][part]), abs=8
        )


def test_the_same_picture_gives_the_same_bytes(landmark: FaceLandmark, face: Picture) -> None:
    first = landmark.render(face, 128).tobytes()
    landmark.render(synthetic(300, seed=9).image, 128)
    assert landmark.render(face, 128).tobytes() == first
    landmark.close()
    assert landmark.render(face, 128).tobytes() == first
    assert replace(landmark).render(face, 128).tobytes() == first


def test_no_face_and_faces_outside_the_square(landmark: FaceLandmark, face: Picture) -> None:
    with pytest.raises(
        NoFaceError, match=r"^picture: no face found\. Give a picture that shows a face"
    ):
        landmark(MEADOW)
    wide = np.full((256, 900, 3), 128, np.uint8)
    wide[:, :256] = face
    assert landmark(wide).any()
    with pytest.raises(NoFaceError, match="no face found in its centre square"):
        landmark.render(wide, 128)


def test_several_faces(landmark: FaceLandmark, face: Picture) -> None:
    smaller = np.asarray(Image.fromarray(face).resize((200, 200)))
    two = pair(face, smaller)
    with pytest.raises(SeveralFacesError, match=r"picture: 2 faces found.*faces=largest"):
        landmark(two)
    largest, both = replace(landmark, faces="largest"), replace(landmark, faces="all")
    assert largest.landmarks(two)[:, 0].max() < 400
    assert largest.landmarks(two[:, ::-1])[:, 0].min() > 400
    assert largest(two)[:, :400].any() and not largest(two)[:, 400:].any()
    assert both(two)[:, :400].any() and both(two)[:, 400:].any()


def test_tiny_pictures_are_enlarged_before_landmarks_are_sought(
    landmark: FaceLandmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = [synthetic(256, seed) for seed in range(8)]
    small = [
        np.asarray(Image.fromarray(face.image).resize((48, 48), Image.Resampling.LANCZOS))
        for face in large
    ]

    def mean_error() -> float:
        return float(
            np.mean(
                [
                    error(landmark.landmarks(a) * 256 / 48, b.landmarks)
                    for a, b in zip(small, large, strict=True)
                ]
            )
        )

    enlarged = mean_error()
    monkeypatch.setattr(landmarker, "ENLARGE_BELOW", 0)
    assert enlarged < 0.06 and enlarged < 0.8 * mean_error()


def test_broken_task_files(face_task: Path, tmp_path: Path, face: Picture) -> None:
    whole = face_task.read_bytes()
    for name, content in (("cut", whole[:100_000]), ("noise", whole[1000:3000])):
        path = tmp_path / f"{name}.task"
        path.write_bytes(content)
        with pytest.raises(
            InputError,
            match=rf"{name}.task: MediaPipe cannot use it .*Get it again from MediaPipe's Face",
        ):
            FaceLandmark(task=str(path))(face)
