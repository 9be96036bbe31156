"""Child processes: every converter and every foreign runtime works in one of its own.

Some of these packages kill the process when they are imported in the wrong order (SIGSEGV, no
message), and a hostile artifact can do the same. So the parent never imports them: it writes a
request and arrays into a temporary folder, starts ``python -m unplug.core.worker FOLDER``, and
reads a result and arrays back. A `Child` stays and takes the next call; `call_in_child` is for one,
`map_in_children` for many, and `in_order` runs pieces of work side by side.

Plain subprocesses instead of `multiprocessing`: spawning there runs the caller's main module again,
which breaks every script without an ``if __name__ == "__main__"`` guard.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import LifoQueue
from typing import TYPE_CHECKING, Any, TypeVar

from .cache import cache_dir
from .errors import ConversionError, OutputError, UnplugError, error_class
from .files import read_json
from .homes import home
from .limits import TIME_VARIABLE, explain_memory, out_of_memory
from .temporaries import temporary_folder

if TYPE_CHECKING:
    from .arrays import Array

P = TypeVar("P")
R = TypeVar("R")
Progress = Callable[[int, int, str], None]
"""Called with (done, total, what is being done)."""

DEFAULT_TIMEOUT_SECONDS = (
    1800.0  # the largest network of the project converts in under 40 s; slow disks get the rest
)
POLL_SECONDS = 0.1  # quick enough for a progress bar, rare enough not to disturb a timing run
# between looks at a call that has just begun: waiting adds a tenth to it, at most POLL_SECONDS
MIN_POLL_SECONDS = 0.002
END_SECONDS = 10.0  # for what a process does on its way out
RESULT, ERROR = "result.json", "error.json"
REPORT = "If the file or model is sound, report this with the text above"
_PARSING = threading.Lock()
TAIL_BYTES = 65536
TAIL_LINES = 12
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
TAIL_CHARACTERS = 2000


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a child sent back: JSON values and named arrays."""

    values: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)


class Child:
    """A Python process that answers one call after another; what it loaded for one is there for the
    next (`Job.kept`).

    It starts with the first call, and again with the first one after a crash, a timeout or `close`.
    It ends with `close`, with this object, or with this process. Calls of several threads wait for
    each other.

    Args:
        environment: variables that the process gets besides this one's.

    Example:
        >>> with Child() as child:
        ...     [child.call("unplug.core.worker:echo", {"n": n}, what="echo").values["n"] for n in range(2)]
        [0, 1]
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(environment or {})
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Path] | None = None
        self._end: Callable[[], object] | None = None
        self._calls = 0

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process; a later call starts another."""
        if self._end is not None:
            self._end()
        self._running = self._end = None

    def call(
        self,
        function: str,
        values: Mapping[str, Any],
        arrays: Mapping[str, Array] | None = None,
        *,
        what: str,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        memory: int = 0,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> Reply:
        """Calls a function in the process; arguments and errors are those of `call_in_child`."""
        with self._lock:
            try:
                child, root = self._started()
                self._calls += 1
                folder = root / str(self._calls)
                folder.mkdir()
                request = {"function": function, "values": dict(values), "memory": memory}
                write_message(folder / "request.json", request, arrays or {})
                with contextlib.suppress(
                    BrokenPipeError
                ):  # it is dead already, and waiting for it says of what
                    assert child.stdin is not None
                    child.stdin.write(f"{folder.name}\n".encode())
                    child.stdin.flush()
                _wait(child, folder, what, timeout, memory, progress, cancel)
                reply = _reply(folder)
                shutil.rmtree(folder, ignore_errors=True)
            except OSError as error:
                self._kill()
                if error.filename == sys.executable:
                    why = f"Python cannot be started again ({error.strerror})"
                    raise OutputError(
                        what, why, f"See that you may read and run {sys.executable}, links followed"
                    ) from error
                why = f"its temporary folder failed ({error.strerror or error})"
                raise OutputError(
                    what, why, "Free some space, or set TMPDIR to a folder with room"
                ) from error
            except BaseException:
                self._kill()
                raise
        if isinstance(reply, UnplugError):
            raise reply
        return reply

    def _started(self) -> tuple[subprocess.Popen[bytes], Path]:
        if self._running is not None and self._running[0].poll() is None:
            return self._running
        self.close()
        files = contextlib.ExitStack()
        folder = files.enter_context(temporary_folder("unplug-job-"))
        # -P keeps the working directory off the import path; faulthandler puts the Python stack of
        # a SIGSEGV into stderr.
        command = [
            sys.executable,
            "-P",
            "-X",
            "faulthandler",
            "-m",
            "unplug.core.worker",
            str(folder),
        ]
        with (folder / "stderr").open("wb") as log:
            # Its own session: Ctrl-C reaches the parent alone, which then kills the whole group.
            # The open stdin pipe tells the child when the parent dies without a chance to do so.
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **_without_home(folder), **self._environment},
            )
        self._running = child, folder
        self._end = weakref.finalize(self, _end, child, files)
        return self._running

    def _kill(self) -> None:
        if self._running is not None:
            _kill(self._running[0])
        self.close()


def _without_home(folder: Path) -> dict[str, str]:
    """What a child is told where there is no home: libraries would make a folder called ``~`` in
    the working directory.
    """
    return {} if home() is not None else {"HOME": str(folder), "UNPLUG_CACHE": str(cache_dir())}


def call_in_child(
    function: str,
    values: Mapping[str, Any],
    arrays: Mapping[str, Array] | None = None,
    *,
    what: str,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    memory: int = 0,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> Reply:
    """Calls ``package.module:function`` with a `Job` in a fresh Python process.

    Args:
        function: the address of the function; it takes a `unplug.core.worker.Job` and returns a
            `Reply`.
        values: JSON-ready arguments.
        arrays: arguments that go by file; the child maps them into memory and copies nothing.
        what: the work, named as the user knows it; opens every error message.
        timeout: seconds after which the child is killed.
        memory: bytes that the child may take (`memory_for` says how many for a file from outside);
            0 sets no limit.
        progress: told what the child reports.
        cancel: when set, from another thread, the child is killed.

    Raises:
        UnplugError: the typed error that the function raised.
        ConversionError: the child raised anything else, crashed, was killed, took too long or was
            cancelled.
        OutputError: the temporary folder cannot be written.

    Example:
        >>> call_in_child("unplug.core.worker:echo", {"n": 3}, what="echo").values
        {'n': 3}
    """
    with Child() as child:
        return child.call(
            function,
            values,
            arrays,
            what=what,
            timeout=timeout,
            memory=memory,
            progress=progress,
            cancel=cancel,
        )


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    task: Callable[[P], R],
    pieces: Iterable[P],
    workers: int,
    *,
    stop: threading.Event | None = None,
) -> Generator[R, None, None]:
    """`task` of every piece, `workers` at once in threads; results come in order, few of them ahead
    of who takes them.

    Args:
        task: raises what ends the whole: the pieces that have not begun are dropped.
        pieces: taken as they are needed.
        workers: threads.
        stop: set at the end, also where a task raised or nobody wants more, so that tasks under way
            can give up.

    Example:
        >>> list(in_order(str, range(3), workers=2))
        ['0', '1', '2']
    """
    executor = ThreadPoolExecutor(workers)
    waiting: deque[Future[R]] = deque()
    try:
        for piece in pieces:
            waiting.append(executor.submit(task, piece))
            if len(waiting) > 2 * workers:  # results that nobody has taken yet fill memory
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        if stop is not None:
            stop.set()
        executor.shutdown(wait=True, cancel_futures=True)


def map_in_children(
    function: str,
    calls: Iterable[Mapping[str, Any]],
    workers: int,
    *,
    what: str,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    memory: int = 0,
) -> Generator[Reply, None, None]:
    """Calls a function with each of `calls` in `workers` processes that stay; replies come in
    order.

    Args:
        function, what: see `call_in_child`.
        calls: the values of each call.
        workers: processes.
        timeout: seconds after which a call's process is killed.
        memory: bytes that each process may take; 0 sets no limit.

    Raises:
        UnplugError: see `call_in_child`; of the first call that failed. The others are killed.
    """
    idle, stop = LifoQueue[Child](), threading.Event()
    children = [Child() for _ in range(workers)]
    for child in children:
        idle.put(child)

    def run(values: Mapping[str, Any]) -> Reply:
        worker = idle.get()
        try:
            return worker.call(
                function, values, what=what, timeout=timeout, memory=memory, cancel=stop
            )
        finally:
            idle.put(worker)

    try:
        yield from in_order(run, calls, workers, stop=stop)
    finally:
        for child in children:
            child.close()


def write_message(path: Path, value: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    """Writes JSON and, next to it, one ``.npy`` file an array; never pickled."""
    import numpy as np

    files = {}
    for index, (name, array) in enumerate(arrays.items()):
        files[name] = f"{path.stem}.{index}.npy"
        np.save(path.with_name(files[name]), np.ascontiguousarray(array), allow_pickle=False)
    # The other side waits for the name: it must never read half of the text.
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({**value, "arrays": files}), encoding="utf-8")
    partial.replace(path)


def _wait(
    child: subprocess.Popen[bytes],
    folder: Path,
    what: str,
    timeout: float,
    memory: int,
    progress: Progress | None,
    cancel: threading.Event | None,
) -> None:
    """Returns when the call's answer lies in its folder; raises `ConversionError` where none will."""
    lines, log, started = (
        _ProgressLines(folder / "progress", progress),
        folder.parent / "stderr",
        time.monotonic(),
    )
    while True:
        # Asked for first: a child that answers and ends between the two looks has answered.
        code = child.poll()
        answered = (folder / RESULT).exists() or (folder / ERROR).exists()
        lines.forward()
        if answered:
            return
        if code is not None:
            raise _untyped(what, code, error_tail(log), memory)
        if cancel is not None and cancel.is_set():
            raise ConversionError(
                what, "it was stopped because other work failed", "See the first error"
            )
        elapsed = time.monotonic() - started
        if elapsed > timeout:
            why = f"not done after {timeout:g} s; its last words: {error_tail(log) or 'none'}"
            raise ConversionError(
                what, why, f"Give it more time ({TIME_VARIABLE}), or a smaller model"
            )
        time.sleep(min(max(elapsed / 10, MIN_POLL_SECONDS), POLL_SECONDS))


def _end(child: subprocess.Popen[bytes], files: contextlib.ExitStack) -> None:
    """Lets a process end, and makes it where it does not."""
    try:
        if child.stdin is not None:
            with contextlib.suppress(OSError):
                child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_SECONDS)
    finally:
        _kill(child)
        files.close()


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
        child.wait()


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


def _reply(folder: Path) -> Reply | UnplugError:
    """What the child answered: a result, or the typed error that the function raised."""
    if (folder / ERROR).is_file():
        raw = read_json(folder / ERROR)
        return error_class(str(raw["class"]), ConversionError)(*raw["args"])
    import numpy as np

    raw = read_json(folder / RESULT)
    # NumPy parses heads with `ast`, which threads of CPython 3.11 break ("recursion depth
    # mismatch")
    with _PARSING:
        arrays = {
            name: np.load(folder / file, allow_pickle=False) for name, file in raw["arrays"].items()
        }
    return Reply(values=raw["values"], arrays=arrays)


def _untyped(what: str, code: int, tail: str, memory: int) -> ConversionError:
    fix = explain_memory(memory) if out_of_memory(tail) else REPORT
    if code < 0:
        why = (
            f"its child process was killed by {signal.Signals(-code).name}; its last words: "
            f"{tail or 'none'}"
        )
        full = (
            "The system may have run out of memory; close other programs or choose a smaller model"
        )
        return ConversionError(what, why, full if code == -getattr(signal, "SIGKILL", 9) else fix)
    if operators := missing_operators(tail):
        why = f"the target does not have {', '.join(operators)}; {tail}"
        return ConversionError(
            what, why, "Build the model from other operators, or choose another target"
        )
    return ConversionError(
        what, tail or f"its child process ended with code {code} and said nothing", fix
    )


def error_tail(log: Path) -> str:
    """What a log ends with: its last exception's message, a fatal error's report, or else its last
    lines.
    """
    if not log.is_file():
        return ""
    with log.open("rb") as handle:
        handle.seek(max(0, log.stat().st_size - TAIL_BYTES))
        text = COLOURS.sub("", handle.read().decode("utf-8", "replace"))
    lines = [line.rstrip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    fatal = [i for i, line in enumerate(lines) if line.startswith("Fatal Python error")]
    traced = [
        i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")
    ]
    start = max(0, len(lines) - TAIL_LINES)
    if fatal:
        start = fatal[-1]
    elif traced:
        # The exception's own line is the first one after its traceback that is not indented.
        start = next(
            (i for i in range(traced[-1] + 1, len(lines)) if not lines[i].startswith(" ")),
            traced[-1],
        )
    return " | ".join(line.strip() for line in lines[start : start + TAIL_LINES])[:TAIL_CHARACTERS]


MISSING = re.compile(
    r"not found|not implemented|unsupported|no onnx function|not in core aten", re.IGNORECASE
)
OPERATOR = re.compile(r"\b(?:aten|prims)(?:\.|::)\w+|(?<=Unsupported fx node )\w+")


def missing_operators(text: str) -> list[str]:
    """PyTorch operators that a converter's message says it cannot lower.

    Example:
        >>> missing_operators("RuntimeError: Lowering not found: aten._linalg_eigh.default")
        ['aten._linalg_eigh']
    """
    return list(dict.fromkeys(OPERATOR.findall(text))) if MISSING.search(text) else []
