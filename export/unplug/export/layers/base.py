"""What a tracer gives: every tensor that a file computes, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from unplug.core import Array


@dataclass(frozen=True, kw_only=True)
class Traced:
    """One tensor of one run.

    Args:
        name: as the file or the checkpoint calls it.
        kind: of the operator or layer that computed it.
        value: its numbers as floats; codes of integer tensors times their scale.
    """

    name: str
    kind: str
    value: Array


Tracer = Callable[[Mapping[str, Array]], Iterable[Traced]]
"""Runs one sample, batch axis of one included. ``open_tracer(path)`` of a target's module makes one, in a child process."""
