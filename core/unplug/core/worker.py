"""The child's side of `unplug.core.processes`: reads requests, calls a function for each, writes
what it returns or raises.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from .arrays import Array
from .errors import UnplugError
from .files import read_json
from .limits import limit_own_memory
from .processes import ERROR, RESULT, Reply, write_message


class Job:
    """What a function in a child process is given.

    Args:
        folder: the job's temporary folder; the parent removes it.
        values: JSON arguments.
        arrays: named arrays, mapped read-only from files.
        kept: objects that functions keep for later calls of the same process.
    """

    def __init__(
        self, folder: Path, values: dict[str, Any], arrays: dict[str, Array], kept: dict[str, Any]
    ) -> None:
        self.folder, self.values, self.arrays, self.kept = folder, values, arrays, kept

    def progress(self, done: int, total: int, text: str) -> None:
        """Tells the parent how far the work is."""
        with (self.folder / "progress").open("a", encoding="utf-8") as handle:
            handle.write(json.dumps([done, total, text]) + "\n")


def echo(job: Job) -> Reply:
    """Returns what it was given: the smallest function that shows the protocol."""
    return Reply(values=job.values, arrays=job.arrays)


def _listen(folder: Path, calls: SimpleQueue[str | None], idle: threading.Event) -> None:
    """Takes calls from stdin until it closes: the parent is done with us, or gone amid a call that
    nobody wants any more.
    """
    # os.read, not sys.stdin: Python aborts when it ends while a thread holds the lock of a buffered
    # stream.
    text = b""
    while block := os.read(0, 4096):
        *names, text = (text + block).split(b"\n")
        for name in names:
            idle.clear()
            calls.put(name.decode())
    calls.put(None)
    if not idle.is_set():
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def _load_triton_first() -> None:
    """The CUDA build of torch brings triton, whose library ends the process where TensorFlow's is
    loaded already.

    coremltools and mediapipe load TensorFlow wherever it is installed.
    """
    if find_spec("triton") is not None and find_spec("tensorflow") is not None:
        with contextlib.suppress(ImportError):  # a broken one is for those that need it to tell of
            import_module("triton")


def answer(folder: Path, kept: dict[str, Any]) -> None:
    """Runs the request in `folder`; typed errors go back as data, all others end the process with a
    traceback on stderr.
    """
    request = read_json(folder / "request.json")
    arrays = {
        name: np.load(folder / file, mmap_mode="r", allow_pickle=False)
        for name, file in request["arrays"].items()
    }
    limit_own_memory(request["memory"])
    module, _, attribute = request["function"].partition(":")
    try:
        reply = getattr(import_module(module), attribute)(
            Job(folder, request["values"], arrays, kept)
        )
    except UnplugError as error:
        kind, arguments = error.__reduce__()
        write_message(folder / ERROR, {"class": kind.__name__, "args": list(arguments)}, {})
    else:
        write_message(folder / RESULT, {"values": reply.values}, reply.arrays)


def main(folder: Path) -> int:
    """Answers the calls whose folders stdin names, one a line, until it closes."""
    # what a package leaves when a file kills it goes with the parent's folder
    tempfile.tempdir = str(folder)
    _load_triton_first()
    calls, idle, kept = SimpleQueue[str | None](), threading.Event(), dict[str, Any]()
    idle.set()
    threading.Thread(target=_listen, args=(folder, calls, idle), daemon=True).start()
    while (name := calls.get()) is not None:
        answer(folder / name, kept)
        idle.set()
    shutil.rmtree(folder, ignore_errors=True)  # the parent may have been killed
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
