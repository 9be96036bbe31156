"""One registry class: lazy targets, entry points, no silent collisions."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from .errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to lazily imported objects; third parties add theirs through an entry point.

    Args:
        kind: the kind of object registered, in the singular ("method"); used in messages.
        targets: name to the object (no text), or to ``"package.module:Object"``, which is imported
            when it is asked for.
        group: entry-point group that is read on first use, for example ``unplug.methods``.

    Raises:
        InputError: from `get`, for an unknown name (suggests near ones); from `register`, for a
            name taken.

    Example:
        >>> codecs = Registry("codec", {"json": "json:dumps"})
        >>> codecs.get("json")([1])
        '[1]'
    """

    def __init__(self, kind: str, targets: Mapping[str, str | T], group: str | None = None) -> None:
        self.kind = kind
        self._targets: dict[str, str | T] = dict(targets)
        self._group = group

    def _load_entry_points(self) -> None:
        if self._group is None:
            return
        points: dict[str, str] = {}
        for point in entry_points(group=self._group):
            if point.name in self._targets or point.name in points:
                raise self._taken(point.name)
            points[point.name] = point.value
        self._targets |= points
        self._group = None  # only now: after a collision every use raises, not just the first

    def _taken(self, name: str) -> InputError:
        return InputError(
            f"{self.kind} {name!r}", "this name is registered already", "Choose another name"
        )

    def register(self, name: str, target: str | T) -> None:
        """Adds `name`; `target` is an object or ``"package.module:Object"``. Taken names raise
        `InputError`.
        """
        self._load_entry_points()
        if name in self._targets:
            raise self._taken(name)
        self._targets[name] = target

    def __iter__(self) -> Iterator[str]:
        self._load_entry_points()
        return iter(sorted(self._targets))

    def __contains__(self, name: object) -> bool:
        self._load_entry_points()
        return name in self._targets

    def targets(self) -> dict[str, str | T]:
        """What is registered by each name, in their order: objects, or where they will be imported
        from.
        """
        return {name: self._targets[name] for name in self}

    def get(self, name: str) -> T:
        """Imports and returns the object called `name`."""
        self._load_entry_points()
        if name not in self._targets:
            near = difflib.get_close_matches(name, self._targets, n=2)
            hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(self)}"
            raise InputError(f"{self.kind} {name!r}", "no such name", hint)
        target = self._targets[name]
        if isinstance(target, str):
            module, _, attribute = target.partition(":")
            target = cast(T, getattr(import_module(module), attribute))
            self._targets[name] = target
        return target
