"""Progress bars."""

from __future__ import annotations

from collections.abc import Callable

from .base import Common


class progress_bar:  # noqa: N801 (used as a function)
    """A tqdm bar as the (done, total, text) callback that lower layers call."""

    def __init__(self, label: str, common: Common) -> None:
        from tqdm import tqdm

        self._bar = tqdm(desc=label, disable=not common.show, leave=False)

    def __enter__(self) -> Callable[[int, int, str], None]:
        def update(done: int, total: int, text: str) -> None:
            self._bar.total = total
            self._bar.n = done
            self._bar.set_postfix_str(text)

        return update

    def __exit__(self, *error: object) -> None:
        self._bar.close()
