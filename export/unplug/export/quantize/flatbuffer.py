"""A LiteRT file with short names and shared vectors: the same graph in fewer bytes.

The converter names a tensor by every module around each operator that was fused into it, a fiftieth of a small fp32 file; the
quantizer writes a zero point of eight bytes for each channel, all of them zero, a tenth of an int8 one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

IDENTIFIER = b"TFL3"
ALIGNMENT = 16
"""Bytes to which the format aligns constants, so that a runtime can use them where they lie."""


def compact(flatbuffer: bytes) -> bytes:
    """The file written again, with a `short_name` for each tensor, and one copy of vectors that are equal."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(flatbuffer, 0)
    for buffer in model.buffers:
        if buffer.offset > 1:  # the quantizer puts data behind the tables
            data = flatbuffer[buffer.offset : buffer.offset + buffer.size]
            buffer.data, buffer.offset, buffer.size = np.frombuffer(data, np.uint8), 0, 0
    for graph in model.subgraphs:
        seen: Counter[str] = Counter()
        for tensor in graph.tensors:
            name = short_name(bytes(tensor.name or b"").decode("utf-8", "replace"))
            seen[name] += 1
            tensor.name = name if seen[name] == 1 else f"{name}~{seen[name]}"
    builder = _sharing_builder(len(flatbuffer))
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


def short_name(name: str) -> str:
    """Where in the model a tensor is computed, from the converter's name of it.

    Example:
        >>> short_name("a.ByName/b.Net_model/torch.nn.Sequential_blocks/x.Block_12/torch.nn.ReLU6_2;a.ByName/b.Net_model")
        'blocks.12.2'
        >>> short_name("serving_default_image")
        'serving_default_image'
    """
    first = name.split(";")[0]
    if "/" not in first:
        return first
    # Each part is a class with its module, an underscore, and the name under which the parent has it.
    names = [part.rsplit(".", 1)[-1].partition("_")[2] for part in first.split("/")]
    return ".".join(name for name in names if name and name != "model") or "model"


def _sharing_builder(size: int) -> Any:
    import flatbuffers

    class Builder(flatbuffers.Builder):  # type: ignore[misc]
        """Writes a vector once, and refers to it again; constants are aligned."""

        def __init__(self) -> None:
            super().__init__(size)
            self.known: dict[tuple[str, bytes], int] = {}

        def CreateNumpyVector(self, x: Any) -> int:
            payload = x.tobytes()
            key = x.dtype.str, payload
            if key not in self.known:
                self.StartVector(x.itemsize, x.size, ALIGNMENT if x.dtype == np.uint8 else x.dtype.alignment)
                head = self.head = self.head - len(payload)  # type: ignore[has-type]
                self.Bytes[head : head + len(payload)] = payload
                self.known[key] = self.EndVector()
            return self.known[key]

    return Builder()
