"""An ML Program as plain data: constants, and operators in the order in which they run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, ArtifactError, UnknownOperatorError

from ..artifact import MAX_ARTIFACT_BYTES
from ..readers import bounded, checked_name, shaped, unpacked
from .package import AGAIN, Package

DTYPES = {
    "BOOL": "bool",
    "FLOAT16": "float16",
    "FLOAT32": "float32",
    "FLOAT64": "float64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
}
PACKED = {"INT4": 4, "UINT4": 4, "UINT2": 2, "UINT1": 1, "UINT3": 3, "UINT6": 6}
WHOLE_CODES = (1, 2, 4)
"""Bits of which a byte holds a whole number."""
STRING = "STRING"


@dataclass(frozen=True, kw_only=True)
class TensorType:
    """What the program declares of a tensor: numpy's name of its type, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True)
class Name:
    """An argument that another operator computes, or that is an input or a constant."""

    name: str


Constant = Array | str
Argument = Name | Constant


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operator.

    Args:
        kind: its type in MIL, "conv" for example.
        name: the converter's name for it, for messages.
        arguments: the arguments by their names in MIL; several values where an operator takes a
            list.
        outputs: names and declared types.
    """

    kind: str
    name: str
    arguments: Mapping[str, tuple[Argument, ...]]
    outputs: tuple[tuple[str, TensorType], ...]

    def __str__(self) -> str:
        return f"operator {self.kind} {self.name[:120]!r}"


@dataclass(frozen=True, kw_only=True)
class Program:
    """The function ``main`` of a package."""

    path: Path
    inputs: dict[str, TensorType]
    outputs: tuple[str, ...]
    constants: dict[str, Constant]
    operations: tuple[Operation, ...]


def read_program(path: Path) -> Program:
    """Reads an ``.mlpackage``; neither its program nor its weight files are trusted.

    Args:
        path: the package folder.

    Raises:
        ArtifactError: no ML Program, one that cannot be read, dynamic shapes, or operators within
            operators.
    """
    package = Package(path)
    try:
        return _program(package)
    except (ValueError, TypeError, OverflowError, KeyError) as error:
        raise ArtifactError(str(path), f"its program is broken ({error})", AGAIN) from error


def _program(package: Package) -> Program:
    functions, path = package.spec.mlProgram.functions, package.path
    if "main" not in functions:
        raise ArtifactError(str(path), "it has no ML Program with a function main", AGAIN)
    main = functions["main"]
    if main.opset not in main.block_specializations:
        raise ArtifactError(
            str(path), f"its function main has no block for {main.opset[:60]!r}", AGAIN
        )
    block = main.block_specializations[main.opset]
    constants: dict[str, Constant] = {}
    operations: list[Operation] = []
    total = 0
    for index in bounded(path, "operators", len(block.operations)):
        operation = _operation(package, block.operations[index])
        if operation.kind == "const":
            value = operation.arguments["val"][0]
            if isinstance(value, Name):
                raise ArtifactError(str(path), f"{operation} is not a constant", AGAIN)
            total += 0 if isinstance(value, str) else value.nbytes
            constants[operation.outputs[0][0]] = value
        else:
            operations.append(operation)
        # Constants may share bytes, so a small file can claim many times its size.
        if total > MAX_ARTIFACT_BYTES:
            raise ArtifactError(
                str(path), f"it claims more than {MAX_ARTIFACT_BYTES} bytes of constants", AGAIN
            )
    return Program(
        path=path,
        inputs={item.name: _type(path, item.name, item.type) for item in main.inputs},
        outputs=tuple(block.outputs),
        constants=constants,
        operations=tuple(operations),
    )


def _operation(package: Package, raw: Any) -> Operation:
    kind = raw.type[:60]
    name = _text(raw.attributes["name"]) if "name" in raw.attributes else ""
    outputs = tuple((checked_name(package.path, item.name), item.type) for item in raw.outputs)
    name = name or (outputs[0][0] if outputs else "")
    if raw.blocks:
        why = f"operator {kind} {name[:120]!r} holds operators, which cannot be evaluated here"
        raise UnknownOperatorError(str(package.path), why, "Export a model without it")
    arguments: dict[str, tuple[Argument, ...]] = {
        key: (_value(package, value),) for key, value in raw.attributes.items() if key != "name"
    }
    for key, given in raw.inputs.items():
        arguments[key] = tuple(_argument(package, binding) for binding in given.arguments)
    types = tuple((output, _type(package.path, output, declared)) for output, declared in outputs)
    return Operation(kind=kind, name=name, arguments=arguments, outputs=types)


def _argument(package: Package, binding: Any) -> Argument:
    if binding.WhichOneof("binding") == "name":
        return Name(binding.name)
    return _value(package, binding.value)


def _type(path: Path, name: str, declared: Any) -> TensorType:
    from coremltools.proto import MIL_pb2

    if declared.WhichOneof("type") != "tensorType":
        kind = declared.WhichOneof("type")
        raise ArtifactError(
            str(path), f"{name[:120]!r} is a {kind}, not a tensor", "Export a model of tensors"
        )
    tensor, shape = declared.tensorType, []
    for dimension in tensor.dimensions:
        if dimension.WhichOneof("dimension") != "constant":
            raise ArtifactError(
                str(path), f"{name[:120]!r} has a dynamic shape", "Export it with fixed shapes"
            )
        shape.append(int(dimension.constant.size))
    kind = MIL_pb2.DataType.Name(tensor.dataType)
    return TensorType(dtype=DTYPES.get(kind, kind.lower()), shape=tuple(shape))


def _text(value: Any) -> str:
    strings = value.immediateValue.tensor.strings.values
    return str(strings[0]) if strings else ""


def _value(package: Package, value: Any) -> Constant:
    """A constant: numbers from the program or from a weight file, or a string."""
    from coremltools.proto import MIL_pb2

    kind = MIL_pb2.DataType.Name(value.type.tensorType.dataType)
    if kind == STRING:
        return _text(value)
    shape = _type(package.path, "a constant", value.type).shape
    if value.WhichOneof("value") == "blobFileValue":
        raw = package.blob(value.blobFileValue.fileName, value.blobFileValue.offset)
        return _from_bytes(package.path, raw, kind, shape)
    tensor = value.immediateValue.tensor
    which = tensor.WhichOneof("value")
    if which == "bytes":
        return _from_bytes(package.path, tensor.bytes.values, kind, shape)
    if which is None and math.prod(shape) == 0:
        return np.empty(shape, DTYPES[kind])
    numbers = np.array(list(getattr(tensor, which).values), DTYPES[kind])
    return numbers.reshape(shape)


def _from_bytes(path: Path, raw: bytes | memoryview, kind: str, shape: tuple[int, ...]) -> Array:
    if PACKED.get(kind) in WHOLE_CODES:
        codes = unpacked(path, "a constant", raw, PACKED[kind], shape)
        return _signed(codes) if kind == "INT4" else codes
    if kind not in DTYPES:
        raise ArtifactError(
            str(path),
            f"a constant holds {kind}, which is not known here",
            "Export it in another precision",
        )
    return shaped(path, "a constant", raw, DTYPES[kind], shape)


def _signed(codes: Array) -> Array:
    """Four-bit codes as they are meant: 8 to 15 stand for -8 to -1."""
    signed: Array = codes.astype(np.int8)
    signed[signed > 7] -= 16
    return signed


def last_uses(program: Program) -> Iterator[tuple[int, str]]:
    """(position of the last operator that reads it, name) of everything that operators compute,
    outputs left out.
    """
    seen: dict[str, int] = {}
    for index, operation in enumerate(program.operations):
        for name, _ in operation.outputs:
            seen.setdefault(name, index)
        for given in operation.arguments.values():
            seen |= {item.name: index for item in given if isinstance(item, Name)}
    return (
        (index, name)
        for name, index in seen.items()
        if name not in program.outputs and name not in program.constants
    )
