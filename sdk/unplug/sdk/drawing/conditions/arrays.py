"""Conditions and face landmarks of a whole data set, given as one array of square pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError, NoFaceError, Reply, SeveralFacesError, json_sha256
from unplug.plugins.conditions import (
    POINTS,
    Condition,
    FaceLandmark,
    Faces,
    build_condition,
    checked_size,
    identity,
)
from unplug.sdk.learning.data import workers as cores

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
        out: a ``.npy`` file for the conditions, with a ``.json`` beside it. There already, of the
            same pictures and settings, it is read and nothing is drawn; half-made, it is continued.
            None keeps the conditions in memory.
        digest: of the pictures, where the caller has one; None reads them all for it.
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
    count = _check(images_NHWC)
    shape = (count, checked_size(size), size, 3)

    def chunks(start: int) -> Generator[tuple[Array, Found], None, None]:
        return _conditions(condition, images_NHWC, size, start, workers, show)

    if out is None:
        return in_memory(chunks, shape)
    made_of = {
        "condition": identity(condition),
        "size": size,
        "images": digest or _digest(images_NHWC),
    }
    return in_file(chunks, shape, out, made_of)


def in_memory(chunks: Chunks, shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], Found]:
    """All rows (of this shape) and which were found, as one array each."""
    rows, found = [np.zeros((0, *shape[1:]), np.uint8)], [np.zeros(0, bool)]
    with closing(chunks(0)) as pieces:
        for rows_NHWC, found_N in pieces:
            rows.append(rows_NHWC)
            found.append(found_N)
    return np.concatenate(rows), np.concatenate(found)


def in_file(
    chunks: Chunks, shape: tuple[int, ...], out: Path, made_of: dict[str, Any]
) -> tuple[NDArray[np.uint8], Found]:
    """All rows as a memory map of `out`: read where it is whole and made of the same, else made or
    gone on with.

    Raises:
        InputError: `out` is no ``.npy``.
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
        faces: of several, "largest" takes the largest; "one" takes none.
        workers: child processes at once (default: one a core).
        show: progress bar.

    Returns:
        For each picture (478, 2), x and y in pixels, or None where there is no face.

    Raises:
        InputError: no task file, a broken one, or images of another shape or type.
        ConversionError: a child process crashed.
    """
    condition = FaceLandmark(task=str(task), faces=faces).resolve()
    _check(images_NHWC)
    results: list[NDArray[np.float32] | None] = []
    with closing(
        _chunks("landmarks", condition, images_NHWC, POINTS * 2 * 4, 0, workers, show, {})
    ) as chunks:
        for points_NK2, found_N in chunks:
            results += [
                points_K2 if found else None
                for points_K2, found in zip(points_NK2, found_N, strict=True)
            ]
    return results


def _check(images_NHWC: NDArray[np.uint8]) -> int:
    if images_NHWC.ndim != 4 or images_NHWC.shape[3] != 3 or images_NHWC.dtype != np.uint8:
        why = (
            f"they have the shape {images_NHWC.shape} and the type {images_NHWC.dtype}, not (N, "
            "height, width, 3) of uint8"
        )
        raise InputError("images", why, "Convert them to 8-bit RGB")
    return len(images_NHWC)


def _pieces(row_bytes: int) -> int:
    """Pictures in memory at once."""
    return max(1, min(CHUNK, CHUNK_BYTES // max(row_bytes, 1)))


def _digest(images_NHWC: NDArray[np.uint8]) -> str:
    digest = hashlib.sha256(str(images_NHWC.shape).encode())
    step = _pieces(int(np.prod(images_NHWC.shape[1:])))
    for start in range(0, len(images_NHWC), step):
        digest.update(np.ascontiguousarray(images_NHWC[start : start + step]).data)
    return digest.hexdigest()


def _conditions(
    condition: Condition,
    images_NHWC: NDArray[np.uint8],
    size: int,
    start: int,
    workers: int | None,
    show: bool,
) -> Generator[tuple[Array, Found], None, None]:
    return _chunks(
        "conditions", condition, images_NHWC, size * size * 3, start, workers, show, {"size": size}
    )


def _chunks(
    what: str,
    condition: Condition,
    images_NHWC: NDArray[np.uint8],
    row_bytes: int,
    start: int,
    workers: int | None,
    show: bool,
    values: Mapping[str, int],
) -> Generator[tuple[Array, Found], None, None]:
    """Results of the pictures from `start` on, a chunk at a time."""
    pool = ConditionPool(
        condition, workers=workers or cores(), total=len(images_NHWC), done=start, show=show
    )
    step = _pieces(max(row_bytes, int(np.prod(images_NHWC.shape[1:]))))

    def run(first: int) -> tuple[Array, Found]:
        images = images_NHWC[first : first + step]
        if condition.parallel != "process":
            return WORK[what](condition, images, values, pool.tick)
        function = f"unplug.sdk.drawing.conditions.arrays:{what}_of_job"
        reply = pool.child(function, values, {"images": images}, len(images))
        return reply.arrays["rows"], reply.arrays["found"]

    yield from pool.run(run, range(start, len(images_NHWC), step))


def _each(
    task: Callable[[NDArray[np.uint8]], Array],
    images_NHWC: NDArray[np.uint8],
    rows: Array,
    tick: Callable[[], None],
) -> tuple[Array, Found]:
    found_N = np.zeros(len(images_NHWC), bool)
    for index, image_HWC in enumerate(images_NHWC):
        try:
            rows[index] = task(np.asarray(image_HWC))
            found_N[index] = True
        except (NoFaceError, SeveralFacesError):
            pass  # the row stays zero, and `found_N` says so
        tick()
    return rows, found_N


def _draw(
    condition: Any, images: NDArray[np.uint8], values: Mapping[str, int], tick: Callable[[], None]
) -> tuple[Array, Found]:
    size = values["size"]
    rows = np.zeros((len(images), size, size, 3), np.uint8)
    return _each(lambda image: condition.render(image, size), images, rows, tick)


def _find(
    condition: Any, images: NDArray[np.uint8], _: Mapping[str, int], tick: Callable[[], None]
) -> tuple[Array, Found]:
    return _each(condition.landmarks, images, np.zeros((len(images), POINTS, 2), np.float32), tick)


WORK = {"conditions": _draw, "landmarks": _find}


def _of_job(what: str, job: Any) -> Reply:
    images, done = job.arrays["images"], iter(range(1, len(job.arrays["images"]) + 1))
    with build_condition(job.values["kind"], job.values["options"]) as condition:
        rows, found = WORK[what](
            condition, images, job.values, lambda: job.progress(next(done), len(images), "")
        )
    return Reply(values={}, arrays={"rows": rows, "found": found})


def conditions_of_job(job: Any) -> Reply:
    """Child process: conditions of the job's ``images``."""
    return _of_job("conditions", job)


def landmarks_of_job(job: Any) -> Reply:
    """Child process: face landmarks of the job's ``images``."""
    return _of_job("landmarks", job)
