"""What happens, for all who follow it in one process: one look into the database for all of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from unplug.core import UnplugError
from unplug.trust.ledger import Contents, Ledger

from .jobs import JobEvent, Jobs
from .logs import log_error

KEPT = 2000
"""Events in memory; who comes from further back reads the database."""


@dataclass(frozen=True, kw_only=True)
class Happening:
    """An event with the requests that its job covers."""

    event: JobEvent
    requests: frozenset[str]


class Hub:
    """Looks for news every so often, and wakes those who wait for them.

    Args:
        ledger, jobs: the sources of news.
        poll_seconds: the seconds between two looks.
        on_event: awaited for each new event.
    """

    def __init__(
        self,
        ledger: Ledger,
        jobs: Jobs,
        poll_seconds: float,
        on_event: Callable[[JobEvent], Awaitable[None]],
    ) -> None:
        self._ledger, self._jobs, self._poll, self._on_event = ledger, jobs, poll_seconds, on_event
        self._news = asyncio.Condition()
        self._kept: deque[Happening] = deque(maxlen=KEPT)
        self._untold: deque[JobEvent] = deque()
        self._last = 0
        self.contents: Contents | None = None
        """The ledger at the last look."""

    async def start(self) -> None:
        """The first look; `run` goes on looking."""
        self._last = await asyncio.to_thread(self._jobs.last_event)
        self.contents = await asyncio.to_thread(self._ledger.contents)

    async def wait(self, seconds: float) -> None:
        """Waits until there is news, or for so long."""
        try:
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait()
        except TimeoutError:
            return

    async def since(self, number: int) -> list[Happening]:
        """Everything that happened after an event, up to the last look: `contents` is at least as
        new as what this returns.
        """
        # memory holds everything after that event where its oldest one follows it at once
        if self._kept and self._kept[0].event.number <= number + 1:
            return [item for item in self._kept if item.event.number > number]
        last = self._last
        if number >= last:
            return []
        return [
            item
            for item in await asyncio.to_thread(self._read, number)
            if item.event.number <= last
        ]

    def _read(self, number: int) -> list[Happening]:
        events = self._jobs.events(number)
        covered = {id: self._jobs.get(id) for id in {event.job for event in events}}
        return [
            Happening(
                event=event, requests=frozenset(job.requests if (job := covered[event.job]) else ())
            )
            for event in events
        ]

    async def run(self) -> None:
        """Looks, for ever."""
        while True:
            await asyncio.sleep(self._poll)
            try:
                new = await asyncio.to_thread(self._read, self._last)
                contents = await asyncio.to_thread(self._ledger.contents)
            except (
                UnplugError
            ) as error:  # the database is away; `/ready` says so, and the next look may find it
                log_error("the database cannot be read", error)
                continue
            if new or contents is not self.contents:
                self.contents = contents
                for happening in new:
                    self._kept.append(happening)
                    self._untold.append(happening.event)
                    self._last = happening.event.number
                async with self._news:
                    self._news.notify_all()
            while self._untold:  # one that fails is told again
                await self._on_event(self._untold[0])
                self._untold.popleft()
