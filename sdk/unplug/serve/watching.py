"""What works in the background of one process: whatever ends unasked is told, and started again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from .logs import log_error

Work = Callable[[], Coroutine[Any, Any, None]]
PAUSE_SECONDS = 1.0
"""Until something that failed is started again: a fault that lasts must not fill the log."""


class StreamWatch:
    """Keeps threads and tasks running, and knows which of them do not.

    Each is a function that returns when it is told to end, and by that alone; anything else is a
    fault.

    Args:
        pause_seconds: until one that ended unasked is started again.
    """

    def __init__(self, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._pause, self._stopping = pause_seconds, threading.Event()
        self._failed: set[str] = set()
        self._threads: dict[str, threading.Thread] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def thread(self, name: str, run: Callable[[], None]) -> threading.Thread:
        """Runs a function in a thread of that name."""
        started = threading.Thread(
            target=self._keep_thread, args=(name, run), name=name, daemon=True
        )
        self._threads[name] = started
        started.start()
        return started

    def task(self, name: str, run: Work) -> None:
        """Runs a coroutine function in the event loop that calls this."""
        self._tasks[name] = asyncio.create_task(self._keep_task(name, run), name=f"watch {name}")

    def down(self) -> tuple[str, ...]:
        """Names of what should work now and does not."""
        ended = {name for name, thread in [*self._threads.items()] if not thread.is_alive()}
        ended |= {name for name, task in self._tasks.items() if task.done()}
        return tuple(sorted(self._failed | ended))

    def stop(self) -> None:
        """Says that all is to end: nothing is started again from here on."""
        self._stopping.set()

    async def end_tasks(self) -> None:
        """Ends all tasks and waits for them."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _keep_thread(self, name: str, run: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            self._failed.discard(name)
            try:
                run()
                del self._threads[name]
                break
            except BaseException as error:  # noqa: BLE001 (a thread that ends silently is what this is against)
                self._tell(name, error)
            self._stopping.wait(self._pause)

    async def _keep_task(self, name: str, run: Work) -> None:
        while not self._stopping.is_set():
            self._failed.discard(name)
            inner = asyncio.create_task(run(), name=name)
            try:
                await asyncio.wait({inner})
            finally:
                inner.cancel()
            if not inner.cancelled() and inner.exception() is None:
                del self._tasks[name]
                return
            self._tell(name, asyncio.CancelledError() if inner.cancelled() else inner.exception())
            await asyncio.sleep(self._pause)

    def _tell(self, name: str, error: BaseException | None) -> None:
        if self._stopping.is_set():
            return
        self._failed.add(name)
        log_error("background work ended", error, work=name)
