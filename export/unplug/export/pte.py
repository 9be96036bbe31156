"""What an ExecuTorch program (``.pte``) says of itself: which delegates and which operators its
method ``forward`` calls.

A flatbuffer, and after it segments with the delegates' own data. It is read field by field, by
their numbers in ExecuTorch's ``program.fbs``: the package's own reader builds objects of the whole
file. Imported in child processes only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import ArtifactError

from .readers import AGAIN, bounded

IDENTIFIER, HEADER = b"ET", b"eh00"
"""At bytes 4 and 8 of the file."""
SEGMENT_BASE = 24
"""Byte of the header's last field: after the magic at 8, its own length at 12 and the program's
size at 16.
"""
XNNPACK, XNNPACK_HEADER = "XnnpackBackend", b"XH00"
KERNEL_CALL, DELEGATE_CALL = 1, 2
"""Kinds of an instruction."""
INLINE = 0
"""Where a delegate's data may be; else they are in a segment."""


@dataclass(frozen=True, kw_only=True)
class Calls:
    """What ``forward`` calls.

    Args:
        delegates: name of the backend of each call, in order.
        delegated: operators inside XNNPACK's graphs, or None where a delegate has a form of its
            own.
        operators: the operators that run on ExecuTorch's portable kernels, in order.
    """

    delegates: tuple[str, ...]
    delegated: int | None
    operators: tuple[str, ...]


class PteTable:
    """One table of a flatbuffer, its fields by number; what is not there is 0, "" or nothing."""

    def __init__(self, content: bytes, position: int) -> None:
        from flatbuffers.table import Table as Raw

        self._content, self._raw = content, Raw(content, position)

    @classmethod
    def root(cls, content: bytes) -> PteTable:
        """The table that the buffer begins with."""
        return cls(content, *struct.unpack_from("<I", content, 0))

    def _place(self, field: int) -> int:
        offset = self._raw.Offset(4 + 2 * field)
        return int(offset and self._raw.Pos + offset)

    def number(self, field: int, form: str) -> int:
        """A number, `form` as in `struct`."""
        place = self._place(field)
        return int(struct.unpack_from(form, self._content, place)[0]) if place else 0

    def text(self, field: int) -> str:
        """A string."""
        place = self._place(field)
        return self._raw.String(place).decode() if place else ""

    def table(self, field: int) -> PteTable:
        """A table below this one."""
        place = self._place(field)
        if not place:
            raise ValueError(f"field {field} of a table is missing")
        return PteTable(self._content, self._raw.Indirect(place))

    def count(self, field: int) -> int:
        """The length of a vector."""
        offset = self._raw.Offset(4 + 2 * field)
        return int(self._raw.VectorLen(offset)) if offset else 0

    def item(self, field: int, index: int) -> PteTable:
        """A table of a vector."""
        if not 0 <= index < self.count(field):
            raise IndexError(f"there is no item {index} of {self.count(field)}")
        return PteTable(
            self._content,
            self._raw.Indirect(self._raw.Vector(self._raw.Offset(4 + 2 * field)) + 4 * index),
        )

    def bytes(self, field: int) -> bytes:
        """A vector of bytes."""
        offset = self._raw.Offset(4 + 2 * field)
        start = self._raw.Vector(offset) if offset else 0
        return self._content[start : start + self.count(field)]


def read_calls(path: Path) -> Calls:
    """Reads the instructions of the method ``forward``.

    Raises:
        ArtifactError: this is not an ExecuTorch program that can be read.
    """
    content = path.read_bytes()
    if content[4:6] != IDENTIFIER:
        raise ArtifactError(str(path), "it does not begin as an ExecuTorch program does", AGAIN)
    try:
        return _calls(path, content)
    except (struct.error, IndexError, ValueError, TypeError, OverflowError) as error:
        # What flatbuffers raises where an offset leads out of the file.
        raise ArtifactError(str(path), f"its flatbuffer is broken ({error})", AGAIN) from error


def _calls(path: Path, content: bytes) -> Calls:
    program = PteTable.root(content)
    plans = [program.item(1, index) for index in bounded(path, "methods", program.count(1))]
    plan = next((item for item in plans if item.text(0) == "forward"), None)
    if plan is None:
        raise ArtifactError(str(path), "it has no method 'forward'", AGAIN)
    delegates, operators = list[str](), list[str]()
    delegated: int | None = 0
    for kind, call in _instructions(path, plan):
        if kind == KERNEL_CALL:
            operators.append(plan.item(6, call.number(0, "<i")).text(0))
        elif kind == DELEGATE_CALL:
            delegate = plan.item(7, call.number(0, "<i"))
            delegates.append(delegate.text(0))
            if delegated is not None and delegates[-1] == XNNPACK:
                delegated += xnnpack_nodes(_data(program, delegate, content))
            else:
                delegated = None
    return Calls(delegates=tuple(delegates), delegated=delegated, operators=tuple(operators))


def _instructions(path: Path, plan: PteTable) -> Iterator[tuple[int, Any]]:
    for number in bounded(path, "chains", plan.count(5)):
        chain = plan.item(5, number)
        for index in bounded(path, "instructions", chain.count(2)):
            instruction = chain.item(2, index)
            yield instruction.number(0, "<B"), instruction.table(1)


def _data(program: PteTable, delegate: PteTable, content: bytes) -> bytes:
    """The delegate's own data: in the flatbuffer, or in a segment after it."""
    place = delegate.table(1)
    location, index = place.number(0, "<b"), place.number(1, "<I")
    if location == INLINE:
        return program.item(3, index).bytes(0)
    if content[8:12] != HEADER:
        raise ValueError("it has segments, and no header that says where")
    segment = program.item(4, index)
    start = int(struct.unpack_from("<Q", content, SEGMENT_BASE)[0]) + segment.number(0, "<Q")
    return content[start : start + segment.number(1, "<Q")]


def xnnpack_nodes(data: bytes) -> int:
    """How many operators an XNNPACK graph has: the length of the second field of its flatbuffer."""
    if data[4:8] != XNNPACK_HEADER:
        raise ValueError("its delegate's data do not begin as XNNPACK's do")
    (start,) = struct.unpack_from("<I", data, 10)
    return PteTable.root(data[start:]).count(1)
