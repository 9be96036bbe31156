"""Weights that an exported file stores, read tensor by tensor, with bounds that keep a hostile file
from filling memory.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, ArtifactError, Registry

from .artifact import MAX_ARTIFACT_BYTES
from .mil.package import Package

MAX_TENSORS = 16_384  # the largest network of the project stores under a thousand
MAX_NAME = 4096  # LiteRT joins the names of all layers that it fused
AGAIN = "Export it again"
LITERT_IDENTIFIER = b"TFL3"
FLOATS = {"FLOAT16": "float16", "FLOAT32": "float32", "FLOAT64": "float64"}
INTEGERS = {
    "INT8": "int8",
    "UINT8": "uint8",
    "INT16": "int16",
    "UINT16": "uint16",
    "INT32": "int32",
}
OPAQUE = {"BFLOAT16": "uint16", "FLOAT8_E4M3FN": "uint8", "FLOAT8_E5M2": "uint8"}
"""numpy has no type for these: their codes are compared as plain bytes."""
PACKED = {"INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2, "UINT1": 1}


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One constant of an artifact, as its bytes are.

    Args:
        name: the name in the file.
        codes: the stored numbers in their own type and shape; four-bit ones as one byte each,
            bfloat16 as uint16.
        quantized: an integer code stands for a weight (a scale belongs to it), so that it is not an
            index or shape.
    """

    name: str
    codes: Array
    quantized: bool = False


def weights_of(path: Path, constants: Iterable[Stored]) -> dict[str, Array]:
    """Constants that are weights: floating point or quantized, of two elements or more.

    Scalars are arguments of operators (the 6 of a ReLU6), other integers are shapes and indices.

    Raises:
        ArtifactError: too many of them, or two of one name, where nothing would say which is which.
    """
    weights: dict[str, Array] = {}
    total = 0
    for constant in constants:
        if constant.codes.size < 2 or not (
            constant.quantized or np.issubdtype(constant.codes.dtype, np.floating)
        ):
            continue
        if constant.name in weights:
            raise ArtifactError(
                str(path), f"two of its constants are called {constant.name[:200]!r}", AGAIN
            )
        weights[constant.name] = constant.codes
        # Constants may share bytes, so a small file can claim many times its size.
        total += constant.codes.nbytes
        if len(weights) > MAX_TENSORS or total > MAX_ARTIFACT_BYTES:
            raise ArtifactError(
                str(path),
                f"it claims more than {MAX_TENSORS} constants or {MAX_ARTIFACT_BYTES} bytes",
                AGAIN,
            )
    return weights


def shaped(
    path: Path, name: str, raw: bytes | memoryview, dtype: str, shape: Sequence[int]
) -> Array:
    """Bytes as an array of a shape.

    Raises:
        ArtifactError: the bytes are more or fewer than the shape says.
    """
    count = math.prod(shape) if min(shape, default=0) >= 0 else -1
    if count * np.dtype(dtype).itemsize != len(raw):
        raise ArtifactError(
            str(path),
            f"constant {name[:200]!r} has {len(raw)} bytes for the shape {list(shape)[:8]}",
            AGAIN,
        )
    return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).reshape(shape)


def unpacked(
    path: Path, name: str, raw: bytes | memoryview, bits: int, shape: Sequence[int]
) -> Array:
    """Codes of 2 or 4 bits, low ones first, as one byte each.

    Example:
        >>> unpacked(Path("x"), "w", bytes([0x21, 0x03]), 4, [3]).tolist()
        [1, 2, 3]
    """
    per_byte = 8 // bits
    count = math.prod(shape) if min(shape, default=0) >= 0 else -1
    if -(-count // per_byte) != len(raw):
        raise ArtifactError(
            str(path),
            f"constant {name[:200]!r} has {len(raw)} bytes for the shape {list(shape)[:8]}",
            AGAIN,
        )
    packed = np.frombuffer(raw, np.uint8)
    pieces = [packed >> (bits * place) & (2**bits - 1) for place in range(per_byte)]
    return np.stack(pieces, axis=1).reshape(-1)[:count].reshape(shape)


def typed(
    path: Path,
    name: str,
    raw: bytes | memoryview,
    kind: str,
    shape: Sequence[int],
    *,
    quantized: bool,
) -> Iterator[Stored]:
    """A constant of LiteRT or Core ML, whose names of types are alike; nothing for shapes, indices
    and text.
    """
    if kind in FLOATS:
        yield Stored(name=name, codes=shaped(path, name, raw, FLOATS[kind], shape))
    elif kind in OPAQUE or (quantized and kind in INTEGERS):
        dtype = OPAQUE.get(kind) or INTEGERS[kind]
        yield Stored(name=name, codes=shaped(path, name, raw, dtype, shape), quantized=True)
    elif quantized and kind in PACKED:
        yield Stored(
            name=name, codes=unpacked(path, name, raw, PACKED[kind], shape), quantized=True
        )


def checked_name(path: Path, name: bytes | str | None) -> str:
    """A name that is text and of a bounded length."""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name or ""
    if not 0 < len(text) <= MAX_NAME:
        raise ArtifactError(str(path), f"a constant's name has {len(text)} characters", AGAIN)
    return text


def bounded(path: Path, what: str, count: int) -> Iterator[int]:
    """`range`, unless the file claims an absurd number."""
    if not 0 <= count <= MAX_TENSORS:
        raise ArtifactError(str(path), f"it claims {count} {what}", AGAIN)
    return iter(range(count))


def read_litert(path: Path) -> dict[str, Array]:
    """Weights by tensor name; those of further subgraphs carry the subgraph's number.

    Raises:
        ArtifactError: this is not a flatbuffer that can be read.
    """
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    if content[4:8] != LITERT_IDENTIFIER:
        raise ArtifactError(str(path), "it does not begin as a LiteRT file does", AGAIN)
    try:
        return weights_of(path, _litert_constants(path, content, schema))
    except (struct.error, IndexError, ValueError, TypeError, OverflowError) as error:
        # What flatbuffers raises where an offset leads out of the file.
        raise ArtifactError(str(path), f"its flatbuffer is broken ({error})", AGAIN) from error


def _litert_constants(path: Path, content: bytes, schema: Any) -> Iterator[Stored]:
    model = schema.Model.GetRootAs(content, 0)
    types = {number: name for name, number in vars(schema.TensorType).items() if name.isupper()}
    buffers = model.BuffersLength()
    for number in bounded(path, "subgraphs", model.SubgraphsLength()):
        graph = model.Subgraphs(number)
        for index in bounded(path, "tensors", graph.TensorsLength()):
            tensor = graph.Tensors(index)
            if (
                not 0 < tensor.Buffer() < buffers
            ):  # the first buffer is the empty one, of tensors that are computed
                continue
            raw = _buffer(path, content, model.Buffers(tensor.Buffer()))
            if raw is None:
                continue
            name = checked_name(path, tensor.Name()) + (f"@{number}" if number else "")
            shape = [] if tensor.ShapeIsNone() else [int(size) for size in tensor.ShapeAsNumpy()]
            quantization = tensor.Quantization()
            quantized = quantization is not None and quantization.ScaleLength() > 0
            yield from typed(
                path, name, raw, types.get(tensor.Type(), "unknown"), shape, quantized=quantized
            )


def _buffer(path: Path, content: bytes, buffer: Any) -> memoryview | None:
    """What a buffer holds, inside the flatbuffer or after it."""
    if buffer.Offset() > 1:
        end = buffer.Offset() + buffer.Size()
        if end > len(content):
            raise ArtifactError(str(path), f"a buffer ends at byte {end} of {len(content)}", AGAIN)
        return memoryview(content)[buffer.Offset() : end]
    return (
        None if buffer.DataIsNone() or not buffer.DataLength() else memoryview(buffer.DataAsNumpy())
    )


ONNX_CODES = {"INT8", "UINT8", "INT16", "UINT16", "INT32", "INT4", "UINT4", "INT2", "UINT2"}
ONNX_OPAQUE = {"BFLOAT16": "uint16", "FLOAT8E4M3FN": "uint8", "FLOAT8E5M2": "uint8"}
INTEGER_OPERATORS = {
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
    "DequantizeLinear",
}


def read_onnx(path: Path) -> dict[str, Array]:
    """Weights by initializer name; data in other files is refused, so that no path in the file is
    ever followed.

    Raises:
        ArtifactError: this is not an ONNX file that can be read.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(str(path), load_external_data=False)
        return weights_of(path, _onnx_constants(path, model.graph))
    except (DecodeError, ValueError, TypeError, OverflowError) as error:
        raise ArtifactError(str(path), f"its graph is broken ({error})", AGAIN) from error


def _onnx_constants(path: Path, graph: Any) -> Iterator[Stored]:
    import onnx
    from onnx import numpy_helper

    coded = {
        name for node in graph.node if node.op_type in INTEGER_OPERATORS for name in node.input
    }
    for index in bounded(path, "initializers", len(graph.initializer)):
        tensor = graph.initializer[index]
        name = checked_name(path, tensor.name)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ArtifactError(str(path), f"constant {name[:200]!r} lies in another file", AGAIN)
        kind = onnx.TensorProto.DataType.Name(tensor.data_type)
        codes = np.asarray(numpy_helper.to_array(tensor))
        if kind in ONNX_OPAQUE:
            yield Stored(name=name, codes=codes.view(ONNX_OPAQUE[kind]), quantized=True)
        elif kind in ONNX_CODES and name in coded:
            yield Stored(
                name=name,
                codes=codes if codes.dtype.kind in "iu" else codes.astype(np.int8),
                quantized=True,
            )
        elif codes.dtype.kind == "f":
            yield Stored(name=name, codes=codes)


# arguments of const and constexpr_* operators
COREML_WEIGHTS = (
    "val",
    "data",
    "quantized_data",
    "indices",
    "nonzero_data",
)


def read_coreml(path: Path) -> dict[str, Array]:
    """Weights by the name of the operator's output, the argument after it where it is not the
    plain value.

    Raises:
        ArtifactError: this is not an ML Program that can be read.
    """
    package = Package(path)
    try:
        return weights_of(path, _coreml_constants(package))
    except (ValueError, TypeError, OverflowError) as error:
        raise ArtifactError(str(path), f"its program is broken ({error})", AGAIN) from error


def _coreml_constants(package: Package) -> Iterator[Stored]:
    from coremltools.proto import MIL_pb2

    path = package.path
    for function in package.spec.mlProgram.functions.values():
        for block in function.block_specializations.values():
            for index in bounded(path, "operators", len(block.operations)):
                operation = block.operations[index]
                if not operation.outputs:
                    continue
                output = checked_name(path, operation.outputs[0].name)
                for name, value in _coreml_values(operation):
                    kind = MIL_pb2.DataType.Name(value.type.tensorType.dataType)
                    # Those within the program are small arguments, not weights.
                    if value.WhichOneof("value") == "blobFileValue":
                        raw = package.blob(value.blobFileValue.fileName, value.blobFileValue.offset)
                        shape = [
                            int(dimension.constant.size)
                            for dimension in value.type.tensorType.dimensions
                        ]
                        plain = name == "val"
                        yield from typed(
                            path,
                            output if plain else f"{output}/{name}",
                            raw,
                            kind,
                            shape,
                            quantized=not plain,
                        )


def _coreml_values(operation: Any) -> Iterator[tuple[str, Any]]:
    """Values of a constant: written with the operator itself, or bound to its arguments."""
    if operation.type == "const":
        yield "val", operation.attributes["val"]
    elif operation.type.startswith("constexpr_"):
        for name in COREML_WEIGHTS:
            if name in operation.attributes:
                yield name, operation.attributes[name]
            bindings = operation.inputs[name].arguments if name in operation.inputs else ()
            yield from (
                (name, binding.value)
                for binding in bindings
                if binding.WhichOneof("binding") == "value"
            )


READERS: Registry[Callable[[Path], dict[str, Array]]] = Registry(
    "weight reader",
    {
        "litert": "unplug.export.readers:read_litert",
        "onnx": "unplug.export.readers:read_onnx",
        "coreml": "unplug.export.readers:read_coreml",
    },
    group="unplug.readers",
)
"""Path to weights, by target; third parties add theirs through the entry-point group."""
