"""Decoded pixels on disk: one memory-mapped array per (content, size), written once, in order,
atomically.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unplug.core import (
    DataError,
    InputError,
    Reply,
    cores,
    in_order,
    map_in_children,
    memory_for,
    open_array,
    progress,
    read_json,
    seconds_for,
    use_cache,
    write_array,
    write_json,
)

from .people import note_people
from .source import Sample, SampleProblem, Source, parse_spec

T = TypeVar("T")
FORMAT = "unplug-pixels/2"
SERIAL_BELOW = 64  # starting processes takes longer than drawing this few faces
CHUNK = 32  # faces a call


def workers() -> int:
    """Decoding workers: the cores that this process may use, at most 16."""
    return min(16, cores())


def _attempt(task: Callable[[Sample], T], sample: Sample) -> T | SampleProblem:
    try:
        return task(sample)
    except DataError as error:
        return SampleProblem(id=sample.id, reason=error.why or error.what)


def run_all(
    task: Callable[[Sample], T], samples: Sequence[Sample], label: str, show: bool
) -> Iterator[T | SampleProblem]:
    """`task` over all samples in order, in threads, with a progress bar; a `DataError` becomes a
    `SampleProblem`.
    """
    # Pillow warns of what the decoder judges anyway. Not in the threads: they would undo each
    # other's filters.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from _bar(
            in_order(partial(_attempt, task), samples, workers()), len(samples), label, show
        )


def decode_in_processes(
    spec: str, positions: Sequence[int], size: int, workers: int
) -> Iterator[NDArray[np.uint8] | SampleProblem]:
    """Decodes samples of a spec in child processes, for sources written in Python; results come in
    the order of `positions`.

    Args:
        spec: data spec; each process lists it anew, so listings must be deterministic.
        positions: the places of the samples in the listing.
        size: side in pixels.
        workers: number of processes.

    Raises:
        DataError: the spec cannot be listed any more.
        ConversionError: a process died, took more memory than `unplug.core.memory_for` gives it, or
            too long.
    """
    chunks = [list(positions[start : start + CHUNK]) for start in range(0, len(positions), CHUNK)]
    calls = ({"spec": spec, "size": size, "positions": chunk} for chunk in chunks)
    function = "unplug.sdk.learning.data.picture_cache:decode_of_job"
    replies = map_in_children(
        function,
        calls,
        min(workers, max(1, len(chunks))),
        what="decoding",
        timeout=seconds_for(CHUNK),
        memory=memory_for(),
    )
    for reply in replies:
        for row_HWC, problem in zip(reply.arrays["pixels"], reply.values["problems"], strict=True):
            yield row_HWC if problem is None else SampleProblem(**problem)


def decode_of_job(job: Any) -> Reply:
    """Child process: pixels of the job's ``positions``, and for each None or why it cannot be
    decoded.
    """
    spec, size, positions = (job.values[name] for name in ("spec", "size", "positions"))
    if job.kept.get("spec") != spec:
        source = parse_spec(spec)
        job.kept |= {"spec": spec, "source": source, "samples": source.listing().samples}
    pixels_NHWC = np.zeros((len(positions), size, size, 3), np.uint8)
    problems: list[dict[str, str] | None] = []
    for row, position in enumerate(positions):
        result = _attempt(
            partial(job.kept["source"].decode, size=size), job.kept["samples"][position]
        )
        problems.append(
            {"id": result.id, "reason": result.reason}
            if isinstance(result, SampleProblem)
            else None
        )
        if not isinstance(result, SampleProblem):
            pixels_NHWC[row] = result
    return Reply(values={"problems": problems}, arrays={"pixels": pixels_NHWC})


def _decoded(
    spec: str,
    source: Source,
    samples: Sequence[Sample],
    positions: Sequence[int],
    size: int,
    show: bool,
) -> Iterator[NDArray[np.uint8] | SampleProblem]:
    if source.parallel == "thread":
        return run_all(partial(source.decode, size=size), samples, "decode", show)
    if len(samples) < SERIAL_BELOW:
        return _bar(
            map(partial(_attempt, partial(source.decode, size=size)), samples),
            len(samples),
            "decode",
            show,
        )
    return _bar(decode_in_processes(spec, positions, size, workers()), len(samples), "decode", show)


def _bar(results: Iterable[T], total: int, label: str, show: bool) -> Iterator[T]:
    yield from progress(results, total=total, label=label, show=show)


def fingerprints(
    source: Source, samples: Sequence[Sample], show: bool
) -> list[bytes | SampleProblem]:
    """Content hash of every sample, or why it cannot be read."""
    return list(run_all(source.fingerprint, samples, "hash", show))


def pixels(
    spec: str,
    source: Source,
    samples: Sequence[Sample],
    positions: Sequence[int],
    prints: Sequence[bytes],
    size: int,
    show: bool,
) -> tuple[NDArray[np.uint8], dict[int, str]]:
    """The decoded images of all samples, from the cache or into it.

    Args:
        spec, source: decode what the cache lacks.
        samples: N samples.
        positions: the position of each in the source's listing.
        prints: their content hashes; with `size` they are the key.
        size: side in pixels.
        show: progress bar.

    Returns:
        A read-only memory map (N, size, size, 3), and position to reason of those that do not
        decode (their rows are 0).
    """
    # The same bytes are other pixels to another source, which may cut a face out of them.
    owner = getattr(source, "pictures_of", source)
    key = hashlib.sha256(f"{FORMAT}/{type(owner).__name__}/{size}".encode())
    for content in prints:
        key.update(content)
    stem = use_cache() / f"{key.hexdigest()[:32]}-{size}px"
    array, notes = stem.with_suffix(".npy"), stem.with_suffix(".json")
    shape = (len(samples), size, size, 3)
    if (cached := open_array(array, shape, "uint8")) is not None and (
        noted := _read_bad(notes)
    ) is not None:
        note_people(array, spec, samples)
        return cached, noted
    bad: dict[int, str] = {}

    def rows() -> Iterator[NDArray[np.uint8]]:
        for position, result in enumerate(_decoded(spec, source, samples, positions, size, show)):
            if isinstance(result, SampleProblem):
                bad[position] = result.reason
                result = np.zeros(shape[1:], np.uint8)
            yield result

    write_array(array, shape, "uint8", rows())
    write_json(
        notes,
        {"schema": FORMAT, "bad": {str(position): reason for position, reason in bad.items()}},
    )
    note_people(array, spec, samples)
    return np.load(array, mmap_mode="r"), bad


def _read_bad(notes: Path) -> dict[int, str] | None:
    """Position to reason of what does not decode, or None where the notes are not whole."""
    try:
        return {int(position): str(reason) for position, reason in read_json(notes)["bad"].items()}
    except (ValueError, InputError, KeyError, AttributeError, TypeError):
        return None
