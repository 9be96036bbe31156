"""Worker processes on this machine, one torch thread each; on CUDA they share the device.

Plain subprocesses instead of `multiprocessing`, as in `unplug.sdk.data.worker`: scripts need no main guard. A thread per
worker hands it one order at a time, so that slow jobs do not hold up the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unplug.core import TrainingError

from ..backend import ATTEMPTS, Outcome, Setup, context_failure, revive, tail
from ..result import Order

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class _Died(Exception):
    """A worker closed its pipe; the message is the end of its standard error."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def import_path() -> str:
    """Where this process finds modules, for the environment of another."""
    return os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)


def processes(orders: Sequence[Order], setup: Setup) -> Iterator[Outcome]:
    """Runs the orders in `Setup.workers` processes (default: one per core).

    Raises:
        UnplugError: the context refused to be built.
        TrainingError: workers die while they build it.
    """
    todo: queue.SimpleQueue[Order] = queue.SimpleQueue()
    for order in orders:
        todo.put(order)
    found: queue.SimpleQueue[tuple[_Slot, Outcome | Exception]] = queue.SimpleQueue()
    slots = [_Slot(todo, found, setup) for _ in range(min(len(orders), setup.workers or cores()))]
    try:
        for slot in slots:
            slot.thread.start()
        for _ in orders:
            slot, item = found.get()
            if isinstance(item, Exception):
                raise item
            yield item
            slot.written.release()
    finally:
        for slot in slots:
            slot.stop()


class _Slot:
    """A thread and the process that it feeds."""

    def __init__(
        self, todo: queue.SimpleQueue[Order], found: queue.SimpleQueue[tuple[_Slot, Outcome | Exception]], setup: Setup
    ) -> None:
        # A result that waits to be written while its worker goes on would be lost with the driver, beside those at work.
        self.written = threading.Semaphore(0)
        self._todo, self._found, self._setup = todo, found, setup
        self._worker: _Worker | None = None
        self._lock, self._stopped = threading.Lock(), False
        self.thread = threading.Thread(target=self._feed, daemon=True)

    def stop(self) -> None:
        """Kills the process, which also ends the thread."""
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                self._worker.close()
        self.written.release()
        if self.thread.ident is not None:
            self.thread.join()

    def _feed(self) -> None:
        try:
            while not self._stopped:
                try:
                    order = self._todo.get_nowait()
                except queue.Empty:
                    return
                self._found.put((self, self._try(order)))
                self.written.acquire()
        except Exception as error:  # noqa: BLE001 (a thread's errors are raised by the generator)
            self._found.put((self, error))

    def _try(self, order: Order) -> Outcome:
        note = ""
        for _ in range(ATTEMPTS):
            try:
                return self._ready().run(order)
            except _Died as death:
                note = f"its worker process died {ATTEMPTS} times, the last with: {death}"
                if self._stopped:
                    break
        return Outcome(name=order.job.name, status="failed", note=note)

    def _ready(self) -> _Worker:
        """The worker, started anew where it died."""
        for _ in range(ATTEMPTS):
            if self._worker is not None and self._worker.alive:
                return self._worker
            with self._lock:
                if self._worker is not None:
                    self._worker.close()
                if self._stopped:
                    raise _Died("stopped")
                self._worker = _Worker()
            try:
                self._worker.prepare(self._setup)
            except _Died as death:
                if self._stopped:
                    raise
                note = str(death)
        if self._worker is not None and self._worker.alive:
            return self._worker
        raise TrainingError("fleet workers", f"they die while they build the context ({note})", "Use fewer workers")


class _Worker:
    """A process that runs `unplug.sdk.fleet.worker`."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (`close` does)
        self._process = subprocess.Popen(
            # As multiprocessing does: what can be imported here can be imported there. -P: and nothing else.
            [sys.executable, "-P", "-m", "unplug.sdk.fleet.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            env={**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": import_path()},
        )  # fmt: skip
        self.alive = True

    def prepare(self, setup: Setup) -> None:
        """Has the context built; raises what its function raised."""
        reply, _ = self._ask({"context": None if setup.context is None else asdict(setup.context)})
        if reply["status"] == "refused":
            raise revive(reply["error"])
        if reply["status"] == "failed":
            raise context_failure(reply["note"])

    def run(self, order: Order) -> Outcome:
        """Has an order carried out."""
        reply, packed = self._ask({"order": asdict(order)})
        return Outcome(name=order.job.name, status=reply["status"], packed=packed, note=reply["note"])

    def close(self) -> None:
        """Kills the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]

    def _ask(self, message: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            reply: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {"size": -1}
            packed = self._process.stdout.read(max(0, reply["size"]))
        except (OSError, ValueError):  # ValueError: `close` was faster
            reply, packed = {"size": -1}, b""
        if len(packed) != reply["size"]:
            self.alive = False
            raise _Died(self._last_words())
        return reply, packed

    def _last_words(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            code = self._process.wait()
            self._stderr.seek(0)
            return tail(self._stderr.read().decode(errors="replace")) or f"exit status {code}"
        return "it was stopped"
