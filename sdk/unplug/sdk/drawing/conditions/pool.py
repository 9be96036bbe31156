"""Pieces of work in child processes, in threads or one after the other; results come in order."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from unplug.core import Reply, call_in_child, in_order, memory_for, progress, seconds_for
from unplug.plugins.conditions import Condition

P = TypeVar("P")
R = TypeVar("R")
# before a child counts as stuck; a hundred times what they take
START_SECONDS, PICTURE_SECONDS = (
    120.0,
    10.0,
)


@dataclass
class ConditionPool:
    """Runs pieces of work the way a condition asks for.

    Args:
        condition: decides by `Condition.parallel`; resolved.
        workers: child processes or threads at once.
        total: pictures, for the progress bar.
        done: pictures that an earlier call has drawn.
        show: progress bar.
    """

    condition: Condition
    workers: int
    total: int
    done: int = 0
    show: bool = False
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._bar = progress(
            total=self.total, done=self.done, label=self.condition.kind, show=self.show
        )

    def tick(self, count: int = 1) -> None:
        """Moves the progress bar by one picture."""
        with self._lock:
            self._bar.update(count)

    def run(self, task: Callable[[P], R], pieces: Sequence[P]) -> Generator[R, None, None]:
        """Runs `task` on every piece and gives the results in order; if one raises, the others stop."""
        parallel = self.condition.parallel != "none"
        with contextlib.closing(self._bar), self.condition:
            yield from (
                in_order(task, pieces, self.workers, stop=self._stop)
                if parallel
                else map(task, pieces)
            )

    def child(
        self, function: str, values: Mapping[str, Any], arrays: Mapping[str, Any] | None, count: int
    ) -> Reply:
        """Calls a function of this package in a child process, which builds the condition anew; it
        reports `count` pictures.

        Pictures and task files are from outside: the process gets the memory of `memory_for` and
        the time of `seconds_for`.
        """
        seen = 0

        def progress(done: int, _total: int, _text: str) -> None:
            nonlocal seen
            self.tick(done - seen)
            seen = done

        return call_in_child(
            function,
            {"kind": self.condition.kind, "options": as_text(self.condition), **values},
            arrays,
            what=f"condition {self.condition.kind}",
            timeout=seconds_for(count, START_SECONDS + PICTURE_SECONDS * count),
            memory=memory_for(),
            progress=progress,
            cancel=self._stop,
        )


def as_text(condition: Condition) -> dict[str, str]:
    """The settings that differ from the defaults, as `build_condition` reads them."""
    settings: Any = condition
    usual = type(settings)()
    values = {item.name: getattr(settings, item.name) for item in fields(settings)}
    return {name: str(value) for name, value in values.items() if value != getattr(usual, name)}
