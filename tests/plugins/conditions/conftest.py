"""Task files and photographs that the environment names, and a synthetic face."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from unplug.plugins.conditions import FaceLandmark
from unplug.sdk.learning import faces
from unplug.sdk.learning.faces import RenderedFace


def named(variable: str, what: str) -> Path:
    """The file that an environment variable names; skips where there is none."""
    path = os.environ.get(variable, "")
    if not path or not Path(path).is_file():
        pytest.skip(f"{variable} names no {what} ({path or 'unset'})")
    pytest.importorskip(
        "mediapipe", reason="mediapipe is not installed: pip install 'unplug-sdk[conditions]'"
    )
    return Path(path)


@pytest.fixture(scope="session")
def face_task() -> Path:
    return named("UNPLUG_FACE_LANDMARKER", "face_landmarker.task")


@pytest.fixture(scope="session")
def holistic_task() -> Path:
    return named("UNPLUG_HOLISTIC_LANDMARKER", "holistic_landmarker.task")


@pytest.fixture(scope="session")
def portrait() -> NDArray[np.uint8]:
    return np.asarray(Image.open(named("UNPLUG_PORTRAIT", "photograph of one face")).convert("RGB"))


@pytest.fixture(scope="session")
def full_body() -> NDArray[np.uint8]:
    return np.asarray(
        Image.open(named("UNPLUG_FULL_BODY", "photograph of one person")).convert("RGB")
    )


def synthetic(size: int, seed: int = 3) -> RenderedFace:
    """A frontal drawn face with its landmarks."""
    rng = np.random.default_rng(seed)
    return faces.render(
        faces.sample_face(faces.sample_identity(rng), 30.0, rng, frontal=True), size
    )


@pytest.fixture(scope="session")
def face() -> NDArray[np.uint8]:
    return synthetic(256).image


@pytest.fixture
def landmark(face_task: Path) -> FaceLandmark:
    return FaceLandmark(task=str(face_task))
