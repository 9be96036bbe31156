"""A person as searches know her, and a place that could not be looked into."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from unplug.core import SUBJECT, CheckFailed, InputError
from unplug.trust.certificates import TracedPlace

from .words import PersonWords

if TYPE_CHECKING:
    from unplug.sdk.learning.data import Split


@dataclass(frozen=True, kw_only=True)
class Person:
    """The person to look for.

    Args:
        name: the name as in requests, a sample id or ``subject:NAME``.
        ids: the ids of all her samples in the data.
    """

    name: str
    ids: frozenset[str]

    @cached_property
    def names(self) -> PersonWords:
        """Finds in texts what names her."""
        return PersonWords((*self.ids, self.name, self.name.removeprefix(SUBJECT)))

    def called(self, name: str) -> bool:
        """Whether the name of a file or a folder is hers, or holds hers as a word."""
        raw = name.encode("utf-8", "surrogateescape")
        return bool(
            self.names.within(name)
            or (not name.isascii() and self.names.within(raw.decode("latin-1")))
        )

    def among(self, split: Split, part: Iterable[str]) -> int:
        """How many of her samples are in a part of a stored split, in clear or as digests;
        `InputError` without its key.
        """
        from unplug.sdk.learning.data import stored_name

        names = set(part)
        return sum(stored_name(split, name) in names for name in self.ids)


def unknown(path: object, kind: str, why: str | Exception) -> TracedPlace:
    """A place that could not be looked into, and why."""
    if isinstance(why, InputError | CheckFailed):
        why = why.why if why.what == str(path) else f"{why.what}: {why.why}"
    elif isinstance(why, OSError):
        why = why.strerror or str(why)
    reason = str(why) or type(why).__name__
    return TracedPlace(path=str(path), kind=kind, standing="unknown", goes_by=reason)
