"""Procedural synthetic faces with known age, identity and landmarks.

Everything is drawn with NumPy and OpenCV from a frozen description, so an image can be made again
from its parameters, byte for byte on the same machine. No downloaded data, no network, no torch.

Example:
    >>> import numpy as np
    >>> from unplug.sdk.learning import faces
    >>> rng = np.random.default_rng(0)
    >>> person = faces.sample_identity(rng)
    >>> face = faces.render(faces.sample_face(person, 34.0, rng), size=64)
    >>> face.image.shape, face.landmarks.shape[1]
    ((64, 64, 3), 2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._glasses import with_glasses
    from ._landmarks import LANDMARK_NAMES, MEDIAPIPE_INDEX
    from ._render import render
    from ._sampling import EXPRESSIONS, sample_face, sample_identity
    from ._sheet import contact_sheet
    from ._types import (
        MAX_AGE,
        AgeJitter,
        Background,
        Camera,
        Expression,
        FaceParams,
        Identity,
        Light,
        Pose,
        RenderedFace,
    )
    from ._words import attributes_of

_HOME = {
    "AgeJitter": "_types",
    "Background": "_types",
    "Camera": "_types",
    "EXPRESSIONS": "_sampling",
    "Expression": "_types",
    "FaceParams": "_types",
    "Identity": "_types",
    "LANDMARK_NAMES": "_landmarks",
    "Light": "_types",
    "MAX_AGE": "_types",
    "MEDIAPIPE_INDEX": "_landmarks",
    "Pose": "_types",
    "RenderedFace": "_types",
    "attributes_of": "_words",
    "contact_sheet": "_sheet",
    "render": "_render",
    "sample_face": "_sampling",
    "sample_identity": "_sampling",
    "with_glasses": "_glasses",
}

__all__ = [
    "EXPRESSIONS",
    "LANDMARK_NAMES",
    "MAX_AGE",
    "MEDIAPIPE_INDEX",
    "AgeJitter",
    "Background",
    "Camera",
    "Expression",
    "FaceParams",
    "Identity",
    "Light",
    "Pose",
    "RenderedFace",
    "attributes_of",
    "contact_sheet",
    "render",
    "sample_face",
    "sample_identity",
    "with_glasses",
]


def __getattr__(name: str) -> object:
    """Load a public name on first use, so that importing the package costs nothing (no OpenCV yet)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
