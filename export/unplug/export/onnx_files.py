"""Which other files an ONNX file reads: its tensors may name any path, and a hash of the file says
nothing about those.

Reads the protocol buffer's fields by hand, since runtimes are installed without the package
``onnx``, and skips all values.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from unplug.core import ArtifactError

# Field numbers of onnx.proto3: where tensors, and graphs with tensors, hang below a model.
MODEL = {7: "graph", 20: "training", 25: "function"}
BELOW: dict[str, dict[int, str]] = {
    "model": MODEL,
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
NAME, EXTERNAL, LOCATION, DATA_LOCATION = 8, 13, 1, 14
MAX_MESSAGES = 2_000_000
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def external_tensor(path: Path) -> str | None:
    """The name of a tensor whose numbers lie in another file, or None.

    Raises:
        ArtifactError: the file has more messages than a network could.
    """
    if not path.stat().st_size:
        return None
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        try:
            return _search(raw, path)
        except (IndexError, ValueError, KeyError):
            return None  # no protocol buffer: the runtime refuses it and says why


def _search(raw: mmap.mmap, path: Path) -> str | None:
    waiting, seen = [("model", 0, len(raw))], 0
    while waiting:
        kind, start, end = waiting.pop()
        seen += 1
        if seen > MAX_MESSAGES:
            raise ArtifactError(
                str(path),
                f"its graph has more than {MAX_MESSAGES} parts",
                "This is not an artifact of unplug",
            )
        if kind == "tensor":
            if (name := _external_name(raw, start, end)) is not None:
                return name
            continue
        below = BELOW[kind]
        for number, wire, first, last in _fields(raw, start, end):
            if wire == BYTES and number in below:
                waiting.append((below[number], first, last))
    return None


def _external_name(raw: mmap.mmap, start: int, end: int) -> str | None:
    """The name of a tensor with data elsewhere: it says so, or names a place for them."""
    name, elsewhere = "", False
    for number, wire, first, last in _fields(raw, start, end):
        if number == NAME and wire == BYTES:
            name = raw[first : min(last, first + 200)].decode("utf-8", "replace")
        elsewhere |= number == EXTERNAL or (
            number == DATA_LOCATION and wire == VARINT and first == LOCATION
        )
    return (name or "without a name") if elsewhere else None


def _fields(raw: mmap.mmap, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, start, end) of each field; of a varint its value instead of its start."""
    while position < end:
        key, position = _varint(raw, position)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, position = _varint(raw, position)
            yield number, wire, value, position
            continue
        length, position = (
            _varint(raw, position) if wire == BYTES else ({FIXED64: 8, FIXED32: 4}[wire], position)
        )
        if position + length > end:
            raise ValueError("a field ends beyond its message")
        yield number, wire, position, position + length
        position += length


def _varint(raw: mmap.mmap, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number of more than ten bytes")
