"""Ctrl-C and SIGTERM wait for the end of a training step, so that its state can be saved before the
process ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class HeldSignals:
    """Which signal waits; see `held_signals`."""

    def __init__(self) -> None:
        self._waiting: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self._waiting is not None

    def hold(self, number: int) -> None:
        """Remembers a signal that came."""
        self._waiting = signal.Signals(number)

    def deliver(self) -> None:
        """Hands the waiting signal, if any, to who would have had it; that usually raises."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            signal.raise_signal(waiting)


@contextmanager
def held_signals() -> Iterator[HeldSignals]:
    """Within it the first Ctrl-C or SIGTERM waits until `HeldSignals.deliver`, or for the end; a
    second one is not held.

    A signal whose handler is not Python's is left alone (SIGTERM outside of a command ends the
    process at once, as it should), and so are all of them outside the main thread.

    Yields:
        True in a condition while a signal waits.

    Example:
        >>> with held_signals() as held:
        ...     for step in range(3):
        ...         if held:
        ...             held.deliver()
    """
    held, before = HeldSignals(), dict[int, Any]()

    def hold(number: int, _: object) -> None:
        signal.signal(number, before[number])
        held.hold(number)

    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, hold)
    try:
        yield held
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)
        held.deliver()
