"""Worker processes on this machine, one torch thread each; on CUDA they share the device.

A thread per worker hands it one order at a time, so that slow jobs do not hold up the others.
"""

from __future__ import annotations

import math
import os
import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from unplug.core import Child, ConversionError, Reply, TrainingError, cores

from ..backend import ATTEMPTS, JobOutcome, JobSetup, context_failure, revive
from ..result import Order

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def import_path() -> str:
    """Where this process finds modules, for the environment of another."""
    return os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)


def processes(orders: Sequence[Order], setup: JobSetup) -> Iterator[JobOutcome]:
    """Runs the orders in `JobSetup.workers` processes (default: one per core).

    Raises:
        UnplugError: the context refused to be built.
        TrainingError: workers die while they build it.
    """
    todo: queue.SimpleQueue[Order] = queue.SimpleQueue()
    for order in orders:
        todo.put(order)
    outcomes: queue.SimpleQueue[tuple[_Slot, JobOutcome | Exception]] = queue.SimpleQueue()
    stop = threading.Event()
    slots = [
        _Slot(todo, outcomes, setup, stop)
        for _ in range(min(len(orders), setup.workers or cores()))
    ]
    try:
        for slot in slots:
            slot.thread.start()
        for _ in orders:
            slot, outcome = outcomes.get()
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome
            slot.written.release()
    finally:
        stop.set()
        for slot in slots:
            slot.end()


class _Slot:
    """A thread and the process that it feeds."""

    def __init__(
        self,
        todo: queue.SimpleQueue[Order],
        found: queue.SimpleQueue[tuple[_Slot, JobOutcome | Exception]],
        setup: JobSetup,
        stop: threading.Event,
    ) -> None:
        # A result that waits to be written while its worker goes on would be lost with the driver,
        # besides those at work.
        self.written = threading.Semaphore(0)
        self._todo, self._found, self._setup, self._stop = todo, found, setup, stop
        # As multiprocessing does: what can be imported here can be imported there.
        self._child = Child({**dict.fromkeys(THREADS, "1"), "PYTHONPATH": import_path()})
        self._ready = False
        self.thread = threading.Thread(target=self._feed, daemon=True)

    def end(self) -> None:
        """Waits for the thread, whose call has been stopped, and ends the process."""
        self.written.release()
        if self.thread.ident is not None:
            self.thread.join()
        self._child.close()

    def _feed(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    order = self._todo.get_nowait()
                except queue.Empty:
                    return
                self._found.put((self, self._try(order)))
                self.written.acquire()
        except Exception as error:  # noqa: BLE001 (a thread's errors are raised by the generator)
            self._found.put((self, error))

    def _try(self, order: Order) -> JobOutcome:
        note = ""
        for _ in range(ATTEMPTS):
            self._prepare()
            try:
                reply = self._call(order)
            except ConversionError as death:
                self._ready = False
                note = f"its worker process died {ATTEMPTS} times, the last with: {death.why}"
                if self._stop.is_set():
                    break
            else:
                packed = reply.arrays["packed"].tobytes()
                return JobOutcome(
                    name=order.job.name,
                    status=reply.values["status"],
                    packed=packed,
                    note=reply.values["note"],
                )
        return JobOutcome(name=order.job.name, status="failed", note=note)

    def _prepare(self) -> None:
        """Has the context built where the process is new; raises what its function raised."""
        note = ""
        for _ in range(ATTEMPTS):
            if self._ready:
                return
            try:
                self._call(None)
                self._ready = True
            except ConversionError as death:
                if self._stop.is_set():
                    raise
                note = death.why
        if not self._ready:
            raise TrainingError(
                "fleet workers",
                f"they die while they build the context ({note})",
                "Use fewer workers",
            )

    def _call(self, order: Order | None) -> Reply:
        """An order, or the context alone. `ConversionError`: the process died. What functions raise
        is in the reply.
        """
        context = None if self._setup.context is None else asdict(self._setup.context)
        values = {"context": context, "order": None if order is None else asdict(order)}
        # However long a training takes.
        call = self._child.call
        reply = call(
            "unplug.sdk.evidence.fleet.worker:run_order",
            values,
            what="fleet",
            timeout=math.inf,
            cancel=self._stop,
        )
        if reply.values["status"] == "refused":
            raise revive(reply.values["error"])
        if reply.values["status"] == "context failed":
            raise context_failure(reply.values["note"])
        return reply
