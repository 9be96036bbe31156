"""Every change that a call makes to files, seen by an audit hook in a forked process: told, or the
last thing that it does.

A fork of a process that has imported everything costs milliseconds where a command would import
torch for five seconds. What Python cannot audit is told by hand: `os.fsync`, and the exchange of
names (`unplug.core.durable` raises an event for it). SQLite is watched through its own interface
(`sqlite_changes`). What other compiled code does to files of its own (safetensors writes into a
file that was made, and published, by Python) shows as what lies there at the next change.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import worker

from .sqlite_changes import SqliteWatch

KILLED = -signal.SIGKILL
PATHS = {
    "open": 1,
    "os.rename": 2,
    "os.remove": 1,
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.truncate": 1,
    "os.chmod": 1,
    "os.chown": 1,
    "os.utime": 1,
    "os.link": 2,
    "os.symlink": 2,
    "os.setxattr": 1,
    "unplug.exchange": 2,
}
"""Audit events that change files, and how many of their first arguments are paths; `os.replace`
tells of itself as a rename.
"""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is about to happen to which file."""

    event: str
    path: str


class Watch:
    """Sees every change of this process, and of those that it forks, from now on: there is no way
    to take a hook back.

    Args:
        root: what is outside it counts for nothing.
        kill_at: at this change, counted from 0, this process and all of its group are killed before
            it happens.
        before: called with each change before it happens, and its number, in the process that makes
            it.
        after_sync: called with a path whose bytes, or names, are on the disk now.
        sqlite: see what SQLite does as well.
    """

    def __init__(
        self,
        root: Path,
        *,
        kill_at: int | None = None,
        before: Callable[[int, Change], None] | None = None,
        after_sync: Callable[[str], None] | None = None,
        sqlite: bool = False,
    ) -> None:
        self._root, self._kill_at, self._before = str(root), kill_at, before
        self._lock = multiprocessing.get_context("fork").RLock()
        self._seen = mmap.mmap(-1, 8)  # shared with forks
        self._busy = False

        def fsync(
            handle: int,
        ) -> None:  # what is sure is kept account of: the disk itself need not be waited for
            path = str(Path(f"/proc/self/fd/{handle}").readlink())
            self._change(Change(event="fsync", path=path))
            if after_sync is not None:
                after_sync(path)

        def in_sqlite(event: str, path: str) -> None:
            if event != "sqlite.synced":
                self._change(Change(event=event, path=path))
            elif after_sync is not None and path.startswith(self._root):
                after_sync(path)

        os.fsync = fsync  # type: ignore[assignment]
        self._sqlite = SqliteWatch(in_sqlite) if sqlite else None
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in PATHS or self._busy:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITES):
            return
        folder = arguments[-1] if event in ("os.remove", "os.rmdir") else -1
        self._change(Change(event=event, path=_text(arguments[PATHS[event] - 1], folder)))

    def _change(self, change: Change) -> None:
        if not change.path.startswith(self._root):
            return
        with self._lock:
            number = int.from_bytes(self._seen[:8], "little")
            self._seen[:8] = (number + 1).to_bytes(8, "little")
            if number == self._kill_at:
                os.killpg(0, signal.SIGKILL)
            if self._before is not None:
                self._busy = True
                try:
                    self._before(number, change)
                finally:
                    self._busy = False


def _text(path: Any, folder: int = -1) -> str:
    """The absolute form of a path or an open file; `folder`: the open one that the path starts
    from, or -1.
    """
    if isinstance(path, int):
        return str(Path(f"/proc/self/fd/{path}").readlink())
    base = Path.cwd() if folder < 0 else Path(_text(folder))
    return str(base / os.fsdecode(path))


def in_fork(call: Callable[[], object], log: Path, kill_after: float | None = None) -> int:
    """Runs a call in a forked process with a group of its own, and waits.

    Args:
        call: what it raises makes the exit code: that of a `SystemExit`, or 70.
        log: a file that gets what it says.
        kill_after: seconds, after which the whole group is killed, if it has not ended by then.

    Returns:
        The exit code, or minus the number of the signal that ended it.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        timer = None if kill_after is None else threading.Timer(kill_after, _end_group, [pid])
        if timer is not None:
            timer.start()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if timer is not None:
            timer.cancel()
            timer.join()
        _end_group(pid)
        return code
    os.setsid()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(handle, stream)
    code = 70
    try:
        call()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 (whatever it is, this process ends here)
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class ForkedWorker:
    """Stands in for the `subprocess.Popen` of a worker of `unplug.core.processes`: a fork of this
    process, of the same group.

    So its changes are seen as well, and a kill takes it along as a power cut does. It calls `last`
    before it ends.
    """

    last: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, command: list[str], *, stdout: Any, env: dict[str, str], **_: Any) -> None:
        inside, outside = os.pipe()
        log = stdout.fileno()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(inside, 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.closerange(3, 1024)  # the locks of the command, above all
            os.environ.update(env)
            code = 1
            try:
                code = worker.main(Path(command[-1]))
                self.last()
            except BaseException:  # noqa: BLE001 (see above)
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        os.close(inside)
        self.stdin = os.fdopen(outside, "wb")

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end, however long that takes."""
        del timeout
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def use_folders(root: Path) -> None:
    """Makes `root` the only place that unplug and Python know for temporary files and caches, and
    goes there.
    """
    for name in ("tmp", "cache"):
        (root / name).mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "TMPDIR": str(root / "tmp"),
        "UNPLUG_CACHE": str(root / "cache"),
        "HOME": str(root),
    }
    tempfile.tempdir = str(root / "tmp")  # Python would try it with a file of its own first
    os.chdir(root)
