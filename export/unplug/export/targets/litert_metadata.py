"""TFLite Metadata: what a LiteRT file says of its tensors to Android Studio, ML Kit and MediaPipe's
tasks.

A flatbuffer of its own ("M001") in the file's buffers.
Slots are fields of the schema's tables, in their order.

Reference:
    metadata_schema.fbs, version 1.5, of TensorFlow Lite Support.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from unplug.core import TensorSpec

from ..file_facts import LICENSE
from .base import TargetSource

FIELD, IDENTIFIER, PARSER = "TFLITE_METADATA", b"M001", "1.0.0"
FACTS = "UNPLUG"
IMAGE_PROPERTIES, NORMALIZATION, RGB = 2, 1, 1
"""Members of the unions ContentProperties and ProcessUnitOptions, and of the enum ColorSpaceType.
"""
AXES = {"N": "batch", "C": "channels", "H": "height", "W": "width", "T": "tokens", "G": "groups"}


@dataclass(frozen=True)
class MetadataTable:
    """A flatbuffer table: slot to text, table, list of one of them or of floats, or a `Number`."""

    slots: dict[int, Any]


@dataclass(frozen=True)
class Number:
    """An unsigned integer of `bits` bits."""

    value: int
    bits: int = 8


def described(flatbuffer: bytes, source: TargetSource) -> bytes:
    """The LiteRT file with metadata of its inputs and outputs, and with `TargetSource.facts` as
    JSON in a buffer of their own.

    Args:
        flatbuffer: a flatbuffer with one signature.
        source: the model that it was made from.
    """
    from ai_edge_litert import schema_py_generated as schema

    from .flatbuffer import read_model, written

    model = read_model(flatbuffer)
    (signature,) = model.signatureDefs
    graph = model.subgraphs[signature.subgraphIndex]
    sides, iospec = [], source.iospec
    for specs, ends, order in (
        (iospec.inputs, signature.inputs, graph.inputs),
        (iospec.outputs, signature.outputs, graph.outputs),
    ):
        named = {end.tensorIndex: bytes(end.name).decode() for end in ends}
        by_name = {spec.name: spec for spec in specs}
        sides.append(
            [
                tensor_table(by_name[named[int(index)]], scaled=specs is iospec.inputs)
                for index in order
            ]
        )
    name = source.model_type
    subgraph = MetadataTable({0: name, 2: sides[0], 3: sides[1]})
    slots = {0: name, 1: source.description, 3: [subgraph], 7: PARSER}
    if LICENSE in source.facts:
        slots[5] = source.facts[LICENSE]
    model.metadata = [*(model.metadata or [])]
    for field, data in (
        (FIELD, packed(MetadataTable(slots))),
        (FACTS, json.dumps(source.facts).encode()),
    ):
        buffer, entry = schema.BufferT(), schema.MetadataT()
        buffer.data = np.frombuffer(data, np.uint8)
        entry.name, entry.buffer = field, len(model.buffers)
        model.buffers.append(buffer)
        model.metadata.append(entry)
    return written(model, len(flatbuffer))


def tensor_table(spec: TensorSpec, *, scaled: bool) -> MetadataTable:
    """TensorMetadata; where `scaled`, an image's pixels of 0 to 255 become its range by (x - mean)
    / std, as inputs do.
    """
    slots: dict[int, Any] = {
        0: spec.name,
        1: spec.description,
        2: [AXES.get(axis, axis) for axis in spec.layout],
    }
    if spec.colour == "RGB":
        sides = dict(zip(spec.layout, spec.shape, strict=True))
        size = MetadataTable({0: Number(sides["W"], 32), 1: Number(sides["H"], 32)})
        slots[3] = MetadataTable(
            {0: Number(IMAGE_PROPERTIES), 1: MetadataTable({0: Number(RGB), 1: size})}
        )
    if spec.range is not None:
        low, high = spec.range
        if scaled and spec.colour == "RGB":
            std = 255.0 / (high - low)
            slots[4] = [
                MetadataTable(
                    {0: Number(NORMALIZATION), 1: MetadataTable({0: [-low * std], 1: [std]})}
                )
            ]
        slots[5] = MetadataTable({0: [high], 1: [low]})
    return MetadataTable(slots)


def packed(root: MetadataTable) -> bytes:
    """The bytes of a metadata flatbuffer."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(_add(builder, root), IDENTIFIER)
    return bytes(builder.Output())


def _add(builder: Any, value: Any) -> int:
    """Writes what a slot refers to, and returns where it is."""
    if isinstance(value, str):
        return int(builder.CreateString(value))
    if isinstance(value, MetadataTable):
        places = {
            slot: _add(builder, entry)
            for slot, entry in value.slots.items()
            if not isinstance(entry, Number)
        }
        builder.StartObject(max(value.slots) + 1)
        for slot, entry in value.slots.items():
            if not isinstance(entry, Number):
                builder.PrependUOffsetTRelativeSlot(slot, places[slot], 0)
            elif entry.bits == 32:
                builder.PrependUint32Slot(slot, entry.value, 0)
            else:
                builder.PrependUint8Slot(slot, entry.value, 0)
        return int(builder.EndObject())
    if all(isinstance(entry, float) for entry in value):
        return int(builder.CreateNumpyVector(np.array(value, np.float32)))
    offsets = [_add(builder, entry) for entry in value]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())
