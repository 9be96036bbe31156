"""Drawn faces measured: a real detector finds them and their landmarks, a small net learns their
ages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unplug.sdk.forgetting.tasks import train_age
from unplug.sdk.learning import faces
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.releasing import DEMO_RECIPE, DEMO_SPEC

TASK_VARIABLE = "UNPLUG_FACE_LANDMARKER"
SIZE = 256
FACES = 20
# Measured on 400 faces each: all found; 3.1 % and 4.4 % of the distance between the outer eye
# corners.
LEAST_FOUND_FRONTAL, LEAST_FOUND_POSED = 0.99, 0.95
MOST_ERROR_FRONTAL, MOST_ERROR_POSED = 0.06, 0.08


@pytest.fixture(scope="module")
def landmarker() -> Iterator[Any]:
    path = os.environ.get(TASK_VARIABLE, "")
    if not path or not Path(path).is_file():
        pytest.skip(
            f"{TASK_VARIABLE} names no face_landmarker.task ({path or 'unset'}): get it from "
            "MediaPipe's model pages"
        )
    pytest.importorskip(
        "mediapipe", reason="mediapipe is not installed: pip install 'unplug-sdk[conditions]'"
    )
    from mediapipe.tasks.python import BaseOptions, vision

    options = vision.FaceLandmarkerOptions(base_options=BaseOptions(model_asset_path=path))
    with vision.FaceLandmarker.create_from_options(options) as found:
        yield found


def _measure(landmarker: Any, n: int, *, frontal: bool) -> tuple[float, float]:
    """Share of faces found, and the mean landmark error of these by outer eye distance (the
    detector's own).
    """
    import mediapipe

    rng = np.random.default_rng(20 if frontal else 21)
    index = list(faces.MEDIAPIPE_INDEX.values())
    outer = [index.index(33), index.index(263)]
    errors = []
    for age in np.linspace(0.0, faces.MAX_AGE, n):
        params = faces.sample_face(faces.sample_identity(rng), float(age), rng, frontal=frontal)
        if not frontal:
            yaw, pitch, roll = (float(a) for a in rng.uniform(-30.0, 30.0, 3))
            params = replace(params, pose=faces.Pose(yaw=yaw, pitch=pitch, roll=roll))
        face = faces.render(params, SIZE)
        seen = landmarker.detect(
            mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=face.image)
        ).face_landmarks
        if seen:
            points = np.array([(seen[0][i].x, seen[0][i].y) for i in index]) * SIZE
            width = np.linalg.norm(points[outer[0]] - points[outer[1]])
            errors.append(np.linalg.norm(points - face.landmarks, axis=1).mean() / width)
    return len(errors) / n, float(np.mean(errors))


@pytest.mark.parametrize(
    ("frontal", "least_found", "most_error"),
    [(True, LEAST_FOUND_FRONTAL, MOST_ERROR_FRONTAL), (False, LEAST_FOUND_POSED, MOST_ERROR_POSED)],
)
def test_drawn_faces_are_found(
    landmarker: Any, frontal: bool, least_found: float, most_error: float
) -> None:
    found, error = _measure(landmarker, FACES, frontal=frontal)
    assert found >= least_found and error < most_error


@pytest.mark.nightly
def test_a_small_net_on_unseen_people(tmp_path: Path) -> None:
    dataset = load_dataset(DEMO_SPEC, DEMO_RECIPE.image_size, show=False)
    split = make_split(dataset)
    assert split.subject_disjoint
    trained = train_age(
        dataset,
        split,
        DEMO_RECIPE,
        tmp_path / "age",
        seed=0,
        device=torch.device("cpu"),
        show=False,
    )
    assert 3.0 < trained.record["metrics"]["test"]["mae"] < 7.0
