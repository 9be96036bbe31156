"""Requests on their way into the ledger: those that come at the same time are added in one
transaction.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from unplug.core import InputError
from unplug.trust.ledger import Request

from .batching import Busy
from .logs import log_error
from .owners import Desk, Owned

MOST, MOST_NAMES = 200, 5000
"""The limits of one transaction: every one of them waits for the last."""
MOST_WAITING = 1000
Outcome = tuple[Request, bool]


@dataclass(frozen=True, kw_only=True)
class _Letter:
    submission: Owned
    answer: Future[Outcome] = field(default_factory=Future)


class Inbox:
    """Adds requests; an answer comes when the request is on the disk, and not before.

    Args:
        desk: the desk for the requests.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._letters: SimpleQueue[_Letter | None] = SimpleQueue()

    def put(self, submission: Owned) -> Future[Outcome]:
        """The request as the ledger holds it, and whether it is new; or the `UnplugError` that
        refused it.

        A caller that cancels the future before its turn has not asked; what has begun is added all
        the same.

        Raises:
            Busy: too many wait.
        """
        if self._letters.qsize() >= MOST_WAITING:
            raise Busy("the ledger", "too many requests wait for it", "Try again in a moment")
        letter = _Letter(submission=submission)
        self._letters.put(letter)
        return letter.answer

    def close(self) -> None:
        """Has `run` add what came until now, and return."""
        self._letters.put(None)

    def run(self) -> None:
        """Adds what comes, until it is closed."""
        ended = False
        while not ended:
            letters, ended = self._next()
            self._add(letters)

    def _next(self) -> tuple[list[_Letter], bool]:
        """Letters for one transaction, and whether the box was closed after them."""
        letters, names = list[_Letter](), 0
        while len(letters) < MOST and names < MOST_NAMES:
            try:  # a wait without an end could not be interrupted
                letter = self._letters.get(timeout=0.0 if letters else 1.0)
            except Empty:
                break
            if letter is None:
                return letters, True
            if letter.answer.set_running_or_notify_cancel():
                letters.append(letter)
                names += len(letter.submission.names)
        return letters, False

    def _add(self, letters: list[_Letter]) -> None:
        try:
            outcomes = self._desk.add_all([letter.submission for letter in letters])
            for letter, outcome in zip(letters, outcomes, strict=True):
                if isinstance(outcome, InputError):
                    letter.answer.set_exception(outcome)
                else:
                    letter.answer.set_result(outcome)
        except BaseException as error:  # callers that wait must be told, whatever it is
            ended, why = not isinstance(error, Exception), error
            if ended or isinstance(
                error, InputError
            ):  # of no letter, but of the ledger, its key or the clock
                log_error("requests cannot be added", error)
                why = Busy("the ledger", "nothing can be added to it now", "Try again in a moment")
            for letter in letters:
                if not letter.answer.done():
                    letter.answer.set_exception(why)
            if ended:
                raise
