"""A person as searches know her, and a place where she was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from unplug.core import SUBJECT, CheckFailed, InputError

from .words import Words

if TYPE_CHECKING:
    from unplug.sdk.data import Split

Standing = Literal["holds", "deleted", "remembers", "derived", "names", "forgot", "unknown"]
"""``holds``: pictures, or what was computed of them. ``deleted``: it held them until this search purged it. ``remembers``: a
model that was trained on them, or what such models say. ``derived``: made from such a model. ``names``: her name or an id is in
it. ``forgot``: made to forget her. ``unknown``: it could not be looked into."""


@dataclass(frozen=True, kw_only=True)
class Person:
    """Whom to look for.

    Args:
        name: as requests have it, a sample id or ``subject:NAME``.
        ids: of all her samples in the data.
    """

    name: str
    ids: frozenset[str]

    @cached_property
    def names(self) -> Words:
        """Finds in texts what names her."""
        return Words((*self.ids, self.name, self.name.removeprefix(SUBJECT)))

    def called(self, name: str) -> bool:
        """Whether the name of a file or a folder is hers, or holds hers as a word."""
        raw = name.encode("utf-8", "surrogateescape")
        return bool(self.names.within(name) or (not name.isascii() and self.names.within(raw.decode("latin-1"))))

    def among(self, split: Split, part: Iterable[str]) -> int:
        """How many of her samples are in a part of a stored split, in clear or as digests; `InputError` without its key."""
        from unplug.sdk.data import stored_name

        names = set(part)
        return sum(stored_name(split, name) in names for name in self.ids)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where she was found, or could not be looked for.

    Args:
        path: file or folder.
        kind: what it is, in words.
        standing: see `Standing`.
        samples: how many of hers, where that is known.
        goes_by: what removes it, or why it cannot be told.
    """

    path: str
    kind: str
    standing: Standing
    samples: int | None = None
    goes_by: str = ""


def unknown(path: str, kind: str, error: Exception) -> Place:
    """A place that could not be looked into, and why."""
    why = error.why if isinstance(error, InputError | CheckFailed) else error.strerror if isinstance(error, OSError) else None
    return Place(path=path, kind=kind, standing="unknown", goes_by=why or str(error) or type(error).__name__)
