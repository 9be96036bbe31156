"""The child's side of `unplug.core.child`: reads a request, calls one function, writes a result."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .child import Array, Reply, write_message
from .errors import UnplugError
from .files import read_json


class Job:
    """What a function in a child process is given.

    Args:
        folder: the job's temporary folder; the parent removes it.
        values: JSON arguments.
        arrays: named arrays, mapped read-only from files.
    """

    def __init__(self, folder: Path, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.folder, self.values, self.arrays = folder, values, arrays

    def progress(self, done: int, total: int, text: str) -> None:
        """Tells the parent how far the work is."""
        with (self.folder / "progress").open("a", encoding="utf-8") as handle:
            handle.write(json.dumps([done, total, text]) + "\n")


def echo(job: Job) -> Reply:
    """Returns what it was given: the smallest function that shows the protocol."""
    return Reply(values=job.values, arrays=job.arrays)


def _end_with_parent(folder: Path) -> None:
    """Blocks until stdin closes, which happens when the parent is gone; then nobody wants the result."""
    # os.read, not sys.stdin: Python aborts when it ends while a thread holds the lock of a buffered stream.
    while os.read(0, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _load_triton_first() -> None:
    """The CUDA build of torch brings triton, whose library ends the process where TensorFlow's is loaded already.

    coremltools and mediapipe load TensorFlow wherever it is installed.
    """
    if find_spec("triton") is not None and find_spec("tensorflow") is not None:
        with contextlib.suppress(ImportError):  # a broken one is for those that need it to tell of
            import_module("triton")


def main(folder: Path) -> int:
    """Runs the request in `folder`; typed errors go back as data, all others as a traceback on stderr."""
    _load_triton_first()
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    request = read_json(folder / "request.json")
    arrays = {name: np.load(folder / file, mmap_mode="r", allow_pickle=False) for name, file in request["arrays"].items()}
    module, _, attribute = request["function"].partition(":")
    try:
        reply = getattr(import_module(module), attribute)(Job(folder, request["values"], arrays))
    except UnplugError as error:
        kind, arguments = error.__reduce__()
        (folder / "error.json").write_text(json.dumps({"class": kind.__name__, "args": list(arguments)}), encoding="utf-8")
        return 1
    write_message(folder / "result.json", {"values": reply.values}, reply.arrays)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
