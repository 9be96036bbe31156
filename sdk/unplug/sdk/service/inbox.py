"""Requests on their way into the ledger: those that come at the same time are added in one transaction."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue

from unplug.core import InputError
from unplug.sdk.ledger import Ledger, Request, Submission

from .owners import Desk

MOST = 200
"""Of one transaction: every one of them waits for the last."""
Outcome = tuple[Request, bool]


@dataclass(frozen=True, kw_only=True)
class _Letter:
    submission: Submission
    answer: Future[Outcome] = field(default_factory=Future)


class Inbox:
    """Adds requests; an answer comes when the request is on the disk, and not before.

    Args:
        ledger: where they go.
    """

    def __init__(self, ledger: Ledger | Desk) -> None:
        self._ledger = ledger
        self._letters: SimpleQueue[_Letter | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="inbox", daemon=True)
        self._thread.start()

    def put(self, submission: Submission) -> Future[Outcome]:
        """The request as the ledger holds it, and whether it is new; or the `UnplugError` that refused it."""
        letter = _Letter(submission=submission)
        self._letters.put(letter)
        return letter.answer

    def close(self) -> None:
        """Adds what came until now, and ends."""
        self._letters.put(None)
        self._thread.join(timeout=60)

    def _run(self) -> None:
        while (first := self._letters.get()) is not None:
            letters, ended = [first], False
            while len(letters) < MOST and not self._letters.empty():
                if (more := self._letters.get()) is None:
                    ended = True
                    break
                letters.append(more)
            self._add(letters)
            if ended:
                return

    def _add(self, letters: list[_Letter]) -> None:
        try:
            found = self._ledger.add_all([letter.submission for letter in letters])
        except Exception as error:  # noqa: BLE001 (whoever waits must be told, whatever it is)
            for letter in letters:
                letter.answer.set_exception(error)
            return
        for letter, outcome in zip(letters, found, strict=True):
            if isinstance(outcome, InputError):
                letter.answer.set_exception(outcome)
            else:
                letter.answer.set_result(outcome)
