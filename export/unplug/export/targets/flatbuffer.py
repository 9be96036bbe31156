"""Changes to a LiteRT file that its converter and quantizer leave to us.

Short names and shared vectors are the same graph in fewer bytes. The converter names a tensor by
every module around each operator that was fused into it, a fiftieth of a small fp32 file; the
quantizer writes a zero point of eight bytes for each channel, all of them zero, a tenth of an int8
one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from unplug.core import ConversionError

IDENTIFIER = b"TFL3"
ALIGNMENT = 16
"""Bytes to which the format aligns constants, so that a runtime can use them where they lie."""


def compact(flatbuffer: bytes) -> bytes:
    """The file written again, with a `short_name` for each tensor, and one copy of vectors that are
    equal.
    """
    model = read_model(flatbuffer)
    for graph in model.subgraphs:
        seen: Counter[str] = Counter()
        for tensor in graph.tensors:
            name = short_name(bytes(tensor.name or b"").decode("utf-8", "replace"))
            seen[name] += 1
            tensor.name = name if seen[name] == 1 else f"{name}~{seen[name]}"
    return written(model, len(flatbuffer))


def float_outputs(flatbuffer: bytes) -> bytes:
    """The file with outputs of floats again where the quantizer gives int8 ones.

    Where a float operator reads an output too, it puts a DEQUANTIZE in front of the operator and
    leaves the signature's output, and at times the graph's, at the int8 tensor (0.10.0).

    Raises:
        ConversionError: an int8 output that nothing dequantizes.
    """
    from ai_edge_litert.schema_py_generated import BuiltinOperator, TensorType

    model = read_model(flatbuffer)
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    for number, graph in enumerate(model.subgraphs):
        floats = {
            int(node.inputs[0]): int(node.outputs[0])
            for node in graph.operators
            if codes[node.opcodeIndex] == BuiltinOperator.DEQUANTIZE
        }
        ends = [
            item
            for signature in model.signatureDefs
            if signature.subgraphIndex == number
            for item in signature.outputs
        ]

        def as_float(index: int, graph: Any = graph, floats: dict[int, int] = floats) -> int:
            if graph.tensors[index].type != TensorType.INT8:
                return index
            if index not in floats:
                name = bytes(graph.tensors[index].name).decode("utf-8", "replace")
                raise ConversionError(
                    f"output {name}", "the quantizer left it in int8", "Export another precision"
                )
            return floats[index]

        graph.outputs = np.array([as_float(int(index)) for index in graph.outputs], np.int32)
        for end in ends:
            end.tensorIndex = as_float(end.tensorIndex)
    return written(model, len(flatbuffer))


def read_model(flatbuffer: bytes) -> Any:
    """Its tables as objects, with all constants in their buffers."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(flatbuffer, 0)
    for buffer in model.buffers:
        if buffer.offset > 1:  # the quantizer puts data after the tables
            data = flatbuffer[buffer.offset : buffer.offset + buffer.size]
            buffer.data, buffer.offset, buffer.size = np.frombuffer(data, np.uint8), 0, 0
    return model


def written(model: Any, size: int) -> bytes:
    """Bytes of the tables; `size` is about how many there will be."""
    builder = _sharing_builder(size)
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
    # Each part is a class with its module, an underscore, and the name under which the parent has
    # it.
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
                self.StartVector(
                    x.itemsize, x.size, ALIGNMENT if x.dtype == np.uint8 else x.dtype.alignment
                )
                head = self.head = self.head - len(payload)  # type: ignore[has-type]
                self.Bytes[head : head + len(payload)] = payload
                self.known[key] = self.EndVector()
            return self.known[key]

    return Builder()
