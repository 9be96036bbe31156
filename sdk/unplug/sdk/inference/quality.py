"""The quality check over many photographs: of how many nothing can be said, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import DataError, Reply, map_in_children, memory_for, progress, seconds_for
from unplug.sdk.data import decode_upright

from .alignment import FACE_FAULTS, Frame, align, face_fault
from .crop import check_landmarker, faces_in, open_landmarker

UNREADABLE = "unreadable"
FAULTS = (UNREADABLE, *FACE_FAULTS)
"""Why of a photograph nothing can be said, in the order in which it is looked for."""
PLAIN = Frame()
CHUNK = 16  # photographs a call


def face_faults(
    paths: Sequence[Path], landmarker: Path, size: int, frame: Frame = PLAIN, *, show: bool = True
) -> tuple[str | None, ...]:  # fmt: skip
    """What is wrong with each of N photographs, by the check of `face_problem`.

    Args:
        paths: picture files.
        landmarker: MediaPipe's ``face_landmarker.task``.
        size: side in pixels of what a model sees, at which faces are aligned and their light is measured.
        frame: where eyes go, and what is too small and too dark.
        show: a progress bar.

    Returns:
        One of `FAULTS`, or None, for each.

    Raises:
        InputError: no such task file.
        MissingExtraError: MediaPipe is not installed.
        ConversionError: its process died.
    """
    check_landmarker(landmarker)
    shared = {
        "task": str(landmarker.resolve()), "size": size, "eyes": [frame.left, frame.right],
        "least": [frame.least_eyes, frame.least_light],
    }  # fmt: skip
    calls = [
        {**shared, "paths": [str(path.resolve()) for path in paths[start : start + CHUNK]]}
        for start in range(0, len(paths), CHUNK)
    ]
    # MediaPipe is a foreign runtime, and takes more than one core by itself: one process that stays.
    replies = map_in_children(
        "unplug.sdk.inference.quality:faults_of_job", calls, 1, what="MediaPipe's face landmarker",
        timeout=seconds_for(CHUNK), memory=memory_for(landmarker),
    )  # fmt: skip
    found: list[str | None] = []
    with progress(total=len(paths), label="faces", show=show) as bar:
        for reply in replies:
            found += reply.values["faults"]
            bar.update(len(reply.values["faults"]))
    return tuple(found)


def faults_of_job(job: Any) -> Reply:
    """Child process: what is wrong with each photograph of the job's ``paths``."""
    if "landmarker" not in job.kept:
        job.kept["landmarker"] = open_landmarker(job.values["task"])
    return Reply(values={"faults": list(_faults(job.kept["landmarker"], job.values))})


def _faults(landmarker: Any, values: Any) -> Iterator[str | None]:
    goals, (least_eyes, least_light) = [tuple(goal) for goal in values["eyes"]], values["least"]
    frame = Frame(left=goals[0], right=goals[1], least_eyes=least_eyes, least_light=least_light)
    for path in values["paths"]:
        try:
            pixels = np.asarray(decode_upright(Path(path)), dtype=np.uint8)
        except DataError:
            yield UNREADABLE
            continue
        eyes = faces_in(landmarker, pixels)["eyes"]
        left, right = eyes[0] if len(eyes) == 1 else ((0.0, 0.0), (1.0, 0.0))
        try:
            aligned = align(pixels, left, right, values["size"], frame)
        except DataError:  # eyes that lie on each other are none
            yield "too small"
            continue
        yield face_fault(len(eyes), left, right, aligned, frame)
