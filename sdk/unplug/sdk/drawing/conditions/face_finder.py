"""The faces of many pictures, found by MediaPipe in one child process.

MediaPipe is a foreign runtime: in this process its import could crash torch, and it takes seconds
to start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unplug.core import Child, Reply, memory_for, seconds_for
from unplug.plugins.conditions import POINTS, Picture, faces_of, open_face_landmarker

WHAT = "MediaPipe's face landmarker"


class FaceFinder:
    """MediaPipe's Face Landmarker, opened once.

    Args:
        task: MediaPipe's face_landmarker.task.
        enlarge: whether small pictures are enlarged first, which finds more faces in them, and
            better.
        child: the process that works; None starts one, which `close` ends.
    """

    def __init__(self, task: Path, *, enlarge: bool = False, child: Child | None = None) -> None:
        self._task, self._enlarge = task.resolve(), enlarge
        self._child, self._own = child or Child(), child is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process, where it is this finder's own."""
        if self._own:
            self._child.close()

    def faces(self, image_HWC: Picture) -> NDArray[np.float64]:
        """Landmarks of all faces in a picture, at most 8.

        Returns:
            (F, 478, 2): x and y in pixels; the left edge of the first pixel is 0.

        Raises:
            InputError: a broken task file.
            MissingExtraError: MediaPipe is not installed.
            ConversionError: its process died.
        """
        values = {"task": str(self._task), "enlarge": self._enlarge}
        reply = self._child.call(
            "unplug.sdk.drawing.conditions.face_finder:faces_of_job",
            values,
            {"image": image_HWC},
            what=WHAT,
            timeout=seconds_for(1),
            memory=memory_for(self._task),
        )
        return np.asarray(reply.arrays["faces"])


def faces_of_job(job: Any) -> Reply:
    """Child process: the faces of the job's ``image``."""
    task = job.values["task"]
    if task not in job.kept:
        job.kept[task] = open_face_landmarker(task)
    image = job.arrays["image"]
    faces = faces_of(job.kept[task], image, task, enlarge=job.values["enlarge"])
    return Reply(values={}, arrays={"faces": np.array(faces, np.float64).reshape(-1, POINTS, 2)})
