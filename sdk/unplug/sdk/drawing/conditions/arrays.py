"""Conditions and face landmarks of a whole data set, given as one array of square pictures."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError, NoFaceError, Reply, SeveralFacesError, json_sha256
from unplug.plugins.conditions import (
    Condition,
    FaceLandmark,
    Faces,
    build_condition,
    checked,
    checked_size,
    identity,
    whole,
)
from unplug.sdk.learning.data import workers as cores

from .face_finder import FaceFinder
from .pool import ConditionPool
from .rows import load_finished, open_rows

# pictures a child process; then a fresh one takes over, so that nothing a runtime keeps can pile up
CHUNK = 1000
CHUNK_BYTES = 256 * 2**20  # what a child is handed, and what it hands back, at most

Array = NDArray[Any]
Found = NDArray[np.bool_]
Chunks = Callable[[int], Generator[tuple[Array, Found], None, None]]
"""Rows from one on, a chunk at a time, and which of them were found."""


def conditions_in_worker(
    kind: str,
    options: Mapping[str, str],
    images_NHWC: NDArray[np.uint8],
    size: int,
    *,
    out: Path | None = None,
    digest: str | None = None,
    workers: int | None = None,
    show: bool = False,
) -> tuple[NDArray[np.uint8], Found]:
    """The conditions of all pictures, as networks take them; what needs a foreign runtime is drawn
    in child processes.

    Args:
        kind, options: see `unplug.plugins.conditions.build_condition`.
        images_NHWC: N pictures in RGB; a memory map is read piece by piece.
        size: side of the conditions in pixels.
        out: a ``.npy`` file for the conditions, with a ``.json`` next to it. There already, of the
            same pictures and settings, it is read and nothing is drawn; half-made, it is continued.
            None keeps the conditions in memory.
        digest: the digest of the pictures, if the caller has one; None reads them all for it.
        workers: child processes or threads at once (default: one a core).
        show: progress bar.

    Returns:
        Conditions (N, size, size, 3), with `out` a read-only memory map; and where something was
        found (N,). The others, without a face or with several, are black.

    Raises:
        InputError: what `build_condition` and `Condition.resolve` raise, or images of another shape
            or type.
        DataError: pictures too small for the condition.
        ConversionError: a child process crashed.
        OutputError: `out` cannot be written, is somebody else's, or is being written by another
            process.
    """
    condition = build_condition(kind, options).resolve()
    shape = (_checked(images_NHWC), checked_size(size), size, 3)
    # A child process is handed as many pictures, and hands back as many conditions.
    step = _pieces(max(size * size * 3, int(np.prod(images_NHWC.shape[1:]))))

    def chunks(start: int) -> Generator[tuple[Array, Found], None, None]:
        pool = ConditionPool(
            condition, workers=workers or cores(), total=shape[0], done=start, show=show
        )

        def run(first: int) -> tuple[Array, Found]:
            images = images_NHWC[first : first + step]
            if condition.parallel != "process":
                return _draw(condition, images, size, pool.tick)
            reply = pool.child(CHILD, {"size": size}, {"images": images}, len(images))
            return reply.arrays["rows"], reply.arrays["found"]

        yield from pool.run(run, range(start, shape[0], step))

    if out is None:
        return in_memory(chunks, shape)
    images = digest or _digest(images_NHWC)
    made_of = {"condition": identity(condition), "size": size, "images": images}
    return in_file(chunks, shape, out, made_of)


def landmarks_in_worker(
    images_NHWC: NDArray[np.uint8],
    task: str | Path = "",
    *,
    faces: Faces = "largest",
    workers: int | None = None,
    show: bool = False,
) -> list[NDArray[np.float32] | None]:
    """The 478 face landmarks of all pictures, found in child processes.

    Args:
        images_NHWC: N pictures in RGB.
        task: MediaPipe's face_landmarker.task; "" takes the environment's
            ``UNPLUG_FACE_LANDMARKER``.
        faces: whether a picture with several faces has the largest taken ("largest") or none
            ("one").
        workers: child processes at once (default: one a core).
        show: progress bar.

    Returns:
        For each picture (478, 2), x and y in pixels, or None where there is no face.

    Raises:
        InputError: no task file, a broken one, or images of another shape or type.
        ConversionError: a child process crashed.
    """
    condition = FaceLandmark(task=str(task), faces=faces).resolve()
    count = _checked(images_NHWC)
    pool = ConditionPool(condition, workers=workers or cores(), total=count, show=show)

    def run(first: int) -> list[NDArray[np.float32] | None]:
        points: list[NDArray[np.float32] | None] = []
        with FaceFinder(Path(condition.task), enlarge=True) as finder:
            for image_HWC in images_NHWC[first : first + CHUNK]:
                try:
                    everybody = list(finder.faces(checked(image_HWC)))
                    points.append(condition.choose(everybody, whole(image_HWC))[0])
                except (NoFaceError, SeveralFacesError):
                    points.append(None)
                pool.tick()
        return points

    return [points for piece in pool.run(run, range(0, count, CHUNK)) for points in piece]


def _checked(images_NHWC: NDArray[np.uint8]) -> int:
    """How many there are."""
    if images_NHWC.ndim != 4 or images_NHWC.shape[3] != 3 or images_NHWC.dtype != np.uint8:
        why = (
            f"they have the shape {images_NHWC.shape} and the type {images_NHWC.dtype}, not (N, "
            "height, width, 3) of uint8"
        )
        raise InputError("images", why, "Convert them to 8-bit RGB")
    return len(images_NHWC)


def in_memory(chunks: Chunks, shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], Found]:
    """All rows (of this shape) and which were found, as one array each."""
    rows, whether = [np.zeros((0, *shape[1:]), np.uint8)], [np.zeros(0, bool)]
    with closing(chunks(0)) as pieces:
        for rows_NHWC, found_N in pieces:
            rows.append(rows_NHWC)
            whether.append(found_N)
    return np.concatenate(rows), np.concatenate(whether)


def in_file(
    chunks: Chunks, shape: tuple[int, ...], out: Path, made_of: dict[str, Any]
) -> tuple[NDArray[np.uint8], Found]:
    """All rows as a memory map of `out`: read where it is whole and made of the same, else made or
    gone on with.

    Raises:
        InputError: `out` is not a ``.npy``.
        OutputError: see `open_rows`.
    """
    if out.suffix != ".npy":
        raise InputError(str(out), "conditions go into a .npy file", "Give it that suffix")
    key = json_sha256(made_of)
    if (finished := load_finished(out, key, shape)) is None:
        with open_rows(out, key, shape) as partial:
            with closing(chunks(partial.done)) as pieces:
                for rows_NHWC, found_N in pieces:
                    partial.append(rows_NHWC, found_N)
            partial.finish(out, {**made_of, "key": key})
        finished = load_finished(out, key, shape)
    assert finished is not None
    return finished


def _pieces(row_bytes: int) -> int:
    """Pictures in memory at once."""
    return max(1, min(CHUNK, CHUNK_BYTES // max(row_bytes, 1)))


def _digest(images_NHWC: NDArray[np.uint8]) -> str:
    digest = hashlib.sha256(str(images_NHWC.shape).encode())
    step = _pieces(int(np.prod(images_NHWC.shape[1:])))
    for start in range(0, len(images_NHWC), step):
        digest.update(np.ascontiguousarray(images_NHWC[start : start + step]).data)
    return digest.hexdigest()


CHILD = "unplug.sdk.drawing.conditions.arrays:conditions_of_job"


def conditions_of_job(job: Any) -> Reply:
    """Child process: conditions of the job's ``images``."""
    images, done = job.arrays["images"], itertools.count(1)
    with build_condition(job.values["kind"], job.values["options"]) as condition:
        rows_NHWC, found_N = _draw(
            condition,
            images,
            job.values["size"],
            lambda: job.progress(next(done), len(images), ""),
        )
    return Reply(values={}, arrays={"rows": rows_NHWC, "found": found_N})


def _draw(
    condition: Condition, images_NHWC: NDArray[np.uint8], size: int, tick: Callable[[], None]
) -> tuple[Array, Found]:
    rows_NHWC = np.zeros((len(images_NHWC), size, size, 3), np.uint8)
    found_N = np.zeros(len(images_NHWC), bool)
    for index, image_HWC in enumerate(images_NHWC):
        # Without a face, or with several, the row stays black, and `found_N` says so.
        with contextlib.suppress(NoFaceError, SeveralFacesError):
            rows_NHWC[index] = condition.render(np.asarray(image_HWC), size)
            found_N[index] = True
        tick()
    return rows_NHWC, found_N
