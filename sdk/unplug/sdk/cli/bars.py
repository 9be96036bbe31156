"""Progress: bars for people at a terminal, lines for logs and pipes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from unplug.core import seconds

from .base import Common


class progress_bar:  # noqa: N801 (used as a function)
    """A tqdm bar as the (done, total, text) callback that lower layers call; off a terminal a line
    a text, with its time.
    """

    def __init__(self, label: str, common: Common) -> None:
        from tqdm import tqdm

        self._label, self._common, self._last, self._begun = label, common, "", time.monotonic()
        self._bar = tqdm(desc=label, disable=not (common.show and sys.stderr.isatty()), leave=False)

    def __enter__(self) -> Callable[[int, int, str], None]:
        def update(done: int, total: int, text: str) -> None:
            self._bar.total = total
            self._bar.n = done
            self._bar.set_postfix_str(text)
            if self._bar.disable and text != self._last:
                self._last = text
                passed = seconds(time.monotonic() - self._begun)
                self._common.say(f"{self._label}: {done} of {total}, {text} ({passed})")

        return update

    def __exit__(self, *error: object) -> None:
        self._bar.close()
