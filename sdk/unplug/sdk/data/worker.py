"""Decoding processes for sources written in Python: chunks of pixels through pipes, in order.

Plain subprocesses instead of `multiprocessing`: spawning there runs the caller's main module again, which breaks
every script that loads data without an ``if __name__ == "__main__"`` guard.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from unplug.core import ConversionError, DataError

from .source import Problem, parse_spec

CHUNK = 32  # faces a turn; a turn's pixels wait in the pipe while the other workers catch up


def decode_in_processes(spec: str, positions: Sequence[int], size: int, workers: int) -> Iterator[NDArray[np.uint8] | Problem]:
    """Decodes samples of a spec in worker processes; results come in the order of `positions`.

    Args:
        spec: data spec; each worker lists it anew, so listings must be deterministic.
        positions: which samples of the listing.
        size: side in pixels.
        workers: number of processes.

    Raises:
        ConversionError: a worker died.
    """
    chunks = [list(positions[start : start + CHUNK]) for start in range(0, len(positions), CHUNK)]
    pool = [_start(spec, size, chunks[number::workers]) for number in range(min(workers, len(chunks)))]
    try:
        for turn, chunk in enumerate(chunks):
            worker = pool[turn % len(pool)]
            for _ in chunk:
                yield _read(worker, size)
    finally:
        for worker in pool:
            worker.kill()
            worker.communicate()


def _start(spec: str, size: int, chunks: list[list[int]]) -> subprocess.Popen[bytes]:
    worker = subprocess.Popen(
        [sys.executable, "-m", "unplug.sdk.data.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert worker.stdin is not None
    job = {"spec": spec, "size": size, "positions": [position for chunk in chunks for position in chunk]}
    # A worker that died at once broke its pipe: `_read` then finds out why.
    with contextlib.suppress(BrokenPipeError), worker.stdin as pipe:
        pipe.write(json.dumps(job).encode())
    worker.stdin = None
    return worker


def _read(worker: subprocess.Popen[bytes], size: int) -> NDArray[np.uint8] | Problem:
    assert worker.stdout is not None and worker.stderr is not None
    header = worker.stdout.readline()
    if header == b"ok\n":
        pixels = worker.stdout.read(size * size * 3)
        if len(pixels) == size * size * 3:
            return np.frombuffer(pixels, np.uint8).reshape(size, size, 3)
    elif header.startswith(b"bad "):
        name, reason = json.loads(header[4:])
        return Problem(id=name, reason=reason)
    tail = worker.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
    raise ConversionError("decoding", f"a worker process died ({tail[0] if tail else 'no message'})", "Run the command again")


def main() -> None:
    """A worker: JSON on standard input, ``ok`` + pixels or ``bad`` + reason per sample on standard output."""
    job = json.load(sys.stdin)
    source = parse_spec(job["spec"])
    samples = source.listing().samples
    out = sys.stdout.buffer
    for position in job["positions"]:
        sample = samples[position]
        try:
            pixels = source.decode(sample, job["size"])
        except DataError as error:
            out.write(b"bad " + json.dumps([sample.id, error.why or error.what]).encode() + b"\n")
            continue
        out.write(b"ok\n" + np.ascontiguousarray(pixels).tobytes())
    out.flush()


if __name__ == "__main__":
    main()
