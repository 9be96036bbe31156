"""Constants of an ``.mlpackage``: the program names them, a weight file holds the large ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unplug.core import Array, ArtifactError

from ..mil.package import AGAIN, Package
from .base import Stored, bounded, checked_name, shaped, unpacked, weights_of

FLOATS = {"FLOAT16": "float16", "FLOAT32": "float32", "FLOAT64": "float64"}
INTEGERS = {"INT8": "int8", "UINT8": "uint8", "INT16": "int16", "UINT16": "uint16", "INT32": "int32"}
OPAQUE = {"BFLOAT16": "uint16"}
PACKED = {"INT4": 4, "UINT4": 4, "UINT2": 2, "UINT1": 1}
WEIGHTS = ("val", "data", "quantized_data", "indices", "nonzero_data")  # arguments of const and constexpr_* operators


def read(path: Path) -> dict[str, Array]:
    """Weights by the name of the operator's output, the argument behind it where it is not the plain value.

    Raises:
        ArtifactError: this is no ML Program that can be read.
    """
    package = Package(path)
    try:
        return weights_of(path, _constants(package))
    except (ValueError, TypeError, OverflowError) as error:
        raise ArtifactError(str(path), f"its program is broken ({error})", AGAIN) from error


def _constants(package: Package) -> Iterator[Stored]:
    from coremltools.proto import MIL_pb2

    path = package.path
    for function in package.spec.mlProgram.functions.values():
        for block in function.block_specializations.values():
            for index in bounded(path, "operators", len(block.operations)):
                operation = block.operations[index]
                if not operation.outputs:
                    continue
                output = checked_name(path, operation.outputs[0].name)
                for name, value in _values(operation):
                    kind = MIL_pb2.DataType.Name(value.type.tensorType.dataType)
                    # Those within the program are small arguments, not weights.
                    if value.WhichOneof("value") == "blobFileValue":
                        raw = package.blob(value.blobFileValue.fileName, value.blobFileValue.offset)
                        yield from _stored(path, output if name == "val" else f"{output}/{name}", raw, kind, value)


def _values(operation: Any) -> Iterator[tuple[str, Any]]:
    """Values of a constant: written with the operator itself, or bound to its arguments."""
    if operation.type == "const":
        yield "val", operation.attributes["val"]
    elif operation.type.startswith("constexpr_"):
        for name in WEIGHTS:
            if name in operation.attributes:
                yield name, operation.attributes[name]
            bindings = operation.inputs[name].arguments if name in operation.inputs else ()
            yield from ((name, binding.value) for binding in bindings if binding.WhichOneof("binding") == "value")


def _stored(path: Path, name: str, raw: bytes | memoryview, kind: str, value: Any) -> Iterator[Stored]:
    shape = [int(dimension.constant.size) for dimension in value.type.tensorType.dimensions]
    if kind in FLOATS:
        yield Stored(name=name, codes=shaped(path, name, raw, FLOATS[kind], shape))
    elif kind in OPAQUE:
        yield Stored(name=name, codes=shaped(path, name, raw, OPAQUE[kind], shape), quantized=True)
    elif "/" in name and kind in INTEGERS:
        yield Stored(name=name, codes=shaped(path, name, raw, INTEGERS[kind], shape), quantized=True)
    elif "/" in name and kind in PACKED:
        yield Stored(name=name, codes=unpacked(path, name, raw, PACKED[kind], shape), quantized=True)
