"""The quality check over many photographs: of how many nothing can be said, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unplug.core import DataError, progress
from unplug.sdk.drawing.conditions import FaceFinder
from unplug.sdk.learning.data import decode_upright

from .alignment import FACE_FAULTS, Frame, align, eyes_of, face_fault
from .crop import check_landmarker

UNREADABLE = "unreadable"
FAULTS = (UNREADABLE, *FACE_FAULTS)
"""Why of a photograph nothing can be said, in the order in which it is looked for."""
PLAIN = Frame()


def face_faults(
    paths: Sequence[Path], landmarker: Path, size: int, frame: Frame = PLAIN, *, show: bool = True
) -> tuple[str | None, ...]:
    """What is wrong with each of N photographs, by the check of `face_problem`.

    Args:
        paths: picture files.
        landmarker: MediaPipe's ``face_landmarker.task``.
        size: side in pixels of what a model sees, at which faces are aligned and their light is
            measured.
        frame: the frame for the eyes; it decides which faces are too small or too dark.
        show: a progress bar.

    Returns:
        One of `FAULTS`, or None, for each.

    Raises:
        InputError: no such task file.
        MissingExtraError: MediaPipe is not installed.
        ConversionError: its process died.
    """
    check_landmarker(landmarker)
    faults: list[str | None] = []
    bar = progress(total=len(paths), label="faces", show=show)
    with bar, FaceFinder(landmarker) as finder:
        for path in paths:
            faults.append(_fault(path, finder, size, frame))
            bar.update(1)
    return tuple(faults)


def _fault(path: Path, finder: FaceFinder, size: int, frame: Frame) -> str | None:
    try:
        pixels_HWC = np.asarray(decode_upright(path), dtype=np.uint8)
    except DataError:
        return UNREADABLE
    eyes = [eyes_of(face) for face in finder.faces(pixels_HWC).tolist()]
    left, right = eyes[0] if len(eyes) == 1 else ((0.0, 0.0), (1.0, 0.0))
    try:
        aligned = align(pixels_HWC, left, right, size, frame)
    except DataError:  # eyes that lie on each other are none
        return "too small"
    return face_fault(len(eyes), left, right, aligned, frame)
