"""Child processes: every converter and every foreign runtime works in one of its own.

Some of these packages kill the process when they are imported in the wrong order (SIGSEGV, no message), and a
hostile artifact can do the same. So the parent never imports them: it writes a request and arrays into a temporary
folder, starts ``python -m unplug.core.worker FOLDER``, and reads a result and arrays back.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import ConversionError, OutputError, UnplugError, error_class
from .files import read_json

Array = NDArray[Any]
Progress = Callable[[int, int, str], None]
"""Called with (done, total, what is being done)."""

DEFAULT_TIMEOUT_SECONDS = 1800.0  # the largest network of the project converts in under 40 s; slow disks get the rest
POLL_SECONDS = 0.1  # quick enough for a progress bar, rare enough not to disturb a timing run
REPORT = "If the file or model is sound, report this with the text above"
TAIL_BYTES = 65536
TAIL_LINES = 12
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
TAIL_CHARACTERS = 2000


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a child sent back: JSON values and named arrays."""

    values: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)


def call_in_child(
    function: str,
    values: Mapping[str, Any],
    arrays: Mapping[str, Array] | None = None,
    *,
    what: str,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> Reply:
    """Calls ``package.module:function`` with a `Job` in a fresh Python process.

    Args:
        function: where the function lives; it takes a `unplug.core.worker.Job` and returns a `Reply`.
        values: JSON-ready arguments.
        arrays: arguments that go by file; the child maps them into memory and copies nothing.
        what: the work, named as the user knows it; opens every error message.
        timeout: seconds after which the child is killed.
        progress: told what the child reports.
        cancel: when set, from another thread, the child is killed.

    Raises:
        UnplugError: the typed error that the function raised.
        ConversionError: the child raised anything else, crashed, was killed, took too long or was cancelled.
        OutputError: the temporary folder cannot be written.

    Example:
        >>> call_in_child("unplug.core.worker:echo", {"n": 3}, what="echo").values
        {'n': 3}
    """
    try:
        with tempfile.TemporaryDirectory(prefix="unplug-job-") as name:
            folder = Path(name)
            write_message(folder / "request.json", {"function": function, "values": dict(values)}, arrays or {})
            code = _run(folder, what, timeout, progress, cancel)
            return _reply(folder, code, what)
    except OSError as error:
        why = f"its temporary folder failed ({error.strerror or error})"
        raise OutputError(what, why, "Free some space, or set TMPDIR to a folder with room") from error


def write_message(path: Path, value: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    """Writes JSON and, beside it, one ``.npy`` file an array; never pickled."""
    files = {}
    for index, (name, array) in enumerate(arrays.items()):
        files[name] = f"{path.stem}.{index}.npy"
        np.save(path.with_name(files[name]), np.ascontiguousarray(array), allow_pickle=False)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({**value, "arrays": files}), encoding="utf-8")
    partial.replace(path)


def _run(folder: Path, what: str, timeout: float, progress: Progress | None, cancel: threading.Event | None) -> int:
    # -P keeps the working directory off the import path; faulthandler puts the Python stack of a SIGSEGV into stderr.
    command = [sys.executable, "-P", "-X", "faulthandler", "-m", "unplug.core.worker", str(folder)]
    with (folder / "stderr").open("wb") as log:
        # Its own session: Ctrl-C reaches the parent alone, which then kills the whole group. The open stdin pipe
        # tells the child when the parent dies without a chance to do so.
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
    lines = _ProgressLines(folder / "progress", progress)
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                code = child.wait(POLL_SECONDS)
                lines.forward()
                return code
            except subprocess.TimeoutExpired:
                lines.forward()
            if cancel is not None and cancel.is_set():
                raise ConversionError(what, "it was stopped because other work failed", "See the first error")
            if time.monotonic() > deadline:
                why = f"not done after {timeout:g} s; its last words: {error_tail(folder / 'stderr') or 'none'}"
                raise ConversionError(what, why, "Give it more time, or a smaller model")
    finally:
        _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
        child.wait()
    if child.stdin is not None:
        child.stdin.close()


class _ProgressLines:
    """Reads what the child appends to its progress file."""

    def __init__(self, path: Path, progress: Progress | None) -> None:
        self._path, self._progress, self._offset = path, progress, 0

    def forward(self) -> None:
        if self._progress is None or not self._path.is_file():
            return
        with self._path.open("rb") as handle:
            handle.seek(self._offset)
            block = handle.read()
        whole = block[: block.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            done, total, text = json.loads(line)
            self._progress(done, total, text)


def _reply(folder: Path, code: int, what: str) -> Reply:
    path = folder / "result.json"
    if code == 0 and path.is_file():
        raw = read_json(path)
        arrays = {name: np.load(folder / file, allow_pickle=False) for name, file in raw["arrays"].items()}
        return Reply(values=raw["values"], arrays=arrays)
    if (folder / "error.json").is_file():
        raise _typed(read_json(folder / "error.json"))
    raise _untyped(what, code, error_tail(folder / "stderr"))


def _typed(raw: dict[str, Any]) -> UnplugError:
    kind = error_class(str(raw["class"]), ConversionError)
    return kind(*raw["args"])


def _untyped(what: str, code: int, tail: str) -> ConversionError:
    if code < 0:
        why = f"its child process was killed by {signal.Signals(-code).name}; its last words: {tail or 'none'}"
        memory = "The system may have run out of memory; close other programs or choose a smaller model"
        return ConversionError(what, why, memory if code == -getattr(signal, "SIGKILL", 9) else REPORT)
    if operators := missing_operators(tail):
        why = f"the target does not have {', '.join(operators)}; {tail}"
        return ConversionError(what, why, "Build the model from other operators, or choose another target")
    return ConversionError(what, tail or f"its child process ended with code {code} and said nothing", REPORT)


def error_tail(log: Path) -> str:
    """What a log ends with: its last exception's message, a fatal error's report, or else its last lines."""
    if not log.is_file():
        return ""
    with log.open("rb") as handle:
        handle.seek(max(0, log.stat().st_size - TAIL_BYTES))
        text = COLOURS.sub("", handle.read().decode("utf-8", "replace"))
    lines = [line.rstrip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    fatal = [i for i, line in enumerate(lines) if line.startswith("Fatal Python error")]
    traced = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    start = max(0, len(lines) - TAIL_LINES)
    if fatal:
        start = fatal[-1]
    elif traced:
        # The exception's own line is the first one behind its traceback that is not indented.
        start = next((i for i in range(traced[-1] + 1, len(lines)) if not lines[i].startswith(" ")), traced[-1])
    return " | ".join(line.strip() for line in lines[start : start + TAIL_LINES])[:TAIL_CHARACTERS]


MISSING = re.compile(r"not found|not implemented|unsupported|no onnx function", re.IGNORECASE)
OPERATOR = re.compile(r"\b(?:aten|prims)(?:\.|::)\w+|(?<=Unsupported fx node )\w+")


def missing_operators(text: str) -> list[str]:
    """PyTorch operators that a converter's message says it cannot lower.

    Example:
        >>> missing_operators("RuntimeError: Lowering not found: aten._linalg_eigh.default")
        ['aten._linalg_eigh']
    """
    return list(dict.fromkeys(OPERATOR.findall(text))) if MISSING.search(text) else []
