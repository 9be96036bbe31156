"""Names that the recipe's data hold, so that a request is told at once where it names somebody whom
they do not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from unplug.core import DataError, KnownNames
from unplug.sdk.learning.data import named_samples, parse_spec

from .batching import Busy
from .logs import log_error

AGAIN_SECONDS = 2.0
"""So long a list of the data is believed that lacks a name: who asks for strangers must not have
the data listed each time.
"""


class DataNames:
    """The names of some data, listed without opening a picture, and again where somebody is asked
    for who was not there.

    Args:
        spec: the spec of the data.
    """

    def __init__(self, spec: str) -> None:
        self._spec, self._lock = spec, threading.Lock()
        self._known, self._at = KnownNames(()), float("-inf")

    def now(self) -> tuple[str, ...]:
        """All names, from the data as they are.

        Raises:
            DataError: they cannot be listed.
        """
        return tuple(named_samples(parse_spec(self._spec).listing().samples))

    def known(self, names: Sequence[str]) -> KnownNames:
        """The names of the data, at most `AGAIN_SECONDS` old where they lack one of some names.

        Raises:
            Busy: the data cannot be listed now.
        """
        with self._lock:
            lacking = not all(self._known.alike(name) for name in names)
            if lacking and time.monotonic() - self._at > AGAIN_SECONDS:
                try:
                    self._known = KnownNames(self.now())
                except DataError as error:
                    log_error("the data cannot be listed", error)
                    raise Busy(
                        "the data of this server",
                        "they cannot be read now",
                        "Try again in a moment",
                    ) from error
                self._at = time.monotonic()
            return self._known
