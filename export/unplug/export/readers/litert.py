"""Constants of a ``.tflite`` flatbuffer, read tensor by tensor: nothing is unpacked that was not asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unplug.core import Array, ArtifactError

from .base import AGAIN, Stored, bounded, checked_name, shaped, unpacked, weights_of

IDENTIFIER = b"TFL3"
FLOATS = {"FLOAT32": "float32", "FLOAT16": "float16", "FLOAT64": "float64"}
INTEGERS = {"INT8": "int8", "UINT8": "uint8", "INT16": "int16", "UINT16": "uint16", "INT32": "int32"}
# numpy has no type for these: their codes are compared as plain bytes.
OPAQUE = {"BFLOAT16": "uint16", "FLOAT8_E4M3FN": "uint8", "FLOAT8_E5M2": "uint8"}
PACKED = {"INT4": 4, "UINT4": 4, "INT2": 2}


def read(path: Path) -> dict[str, Array]:
    """Weights by tensor name; those of further subgraphs carry the subgraph's number.

    Raises:
        ArtifactError: this is no flatbuffer that can be read.
    """
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    if content[4:8] != IDENTIFIER:
        raise ArtifactError(str(path), "it does not begin as a LiteRT file does", AGAIN)
    try:
        return weights_of(path, _constants(path, content, schema))
    except (struct.error, IndexError, ValueError, TypeError, OverflowError) as error:
        # What flatbuffers raises where an offset leads out of the file.
        raise ArtifactError(str(path), f"its flatbuffer is broken ({error})", AGAIN) from error


def _constants(path: Path, content: bytes, schema: Any) -> Iterator[Stored]:
    model = schema.Model.GetRootAs(content, 0)
    types = {number: name for name, number in vars(schema.TensorType).items() if name.isupper()}
    buffers = model.BuffersLength()
    for number in bounded(path, "subgraphs", model.SubgraphsLength()):
        graph = model.Subgraphs(number)
        for index in bounded(path, "tensors", graph.TensorsLength()):
            tensor = graph.Tensors(index)
            if not 0 < tensor.Buffer() < buffers:  # the first buffer is the empty one, of tensors that are computed
                continue
            raw = _bytes(path, content, model.Buffers(tensor.Buffer()))
            if raw is None:
                continue
            name = checked_name(path, tensor.Name()) + (f"@{number}" if number else "")
            stored = _stored(path, name, raw, types.get(tensor.Type(), "unknown"), tensor)
            if stored is not None:
                yield stored


def _bytes(path: Path, content: bytes, buffer: Any) -> memoryview | None:
    """What a buffer holds, inside the flatbuffer or behind it."""
    if buffer.Offset() > 1:
        end = buffer.Offset() + buffer.Size()
        if end > len(content):
            raise ArtifactError(str(path), f"a buffer ends at byte {end} of {len(content)}", AGAIN)
        return memoryview(content)[buffer.Offset() : end]
    return None if buffer.DataIsNone() or not buffer.DataLength() else memoryview(buffer.DataAsNumpy())


def _stored(path: Path, name: str, raw: memoryview, kind: str, tensor: Any) -> Stored | None:
    shape = [] if tensor.ShapeIsNone() else [int(size) for size in tensor.ShapeAsNumpy()]
    quantization = tensor.Quantization()
    quantized = quantization is not None and quantization.ScaleLength() > 0
    if kind in FLOATS:
        return Stored(name=name, codes=shaped(path, name, raw, FLOATS[kind], shape))
    if kind in OPAQUE:
        return Stored(name=name, codes=shaped(path, name, raw, OPAQUE[kind], shape), quantized=True)
    if quantized and kind in INTEGERS:
        return Stored(name=name, codes=shaped(path, name, raw, INTEGERS[kind], shape), quantized=True)
    if quantized and kind in PACKED:
        return Stored(name=name, codes=unpacked(path, name, raw, PACKED[kind], shape), quantized=True)
    return None  # shapes, indices, text
