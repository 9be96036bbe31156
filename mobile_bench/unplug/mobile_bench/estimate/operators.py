"""What an estimate knows of a file: for each kind of operator its multiply-accumulates and the
bytes that it moves.

The flatbuffer is read in a child process.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from unplug.core import (
    ArtifactError,
    InputError,
    Job,
    Reply,
    call_in_child,
    memory_for,
    require_modules,
    seconds_for,
)
from unplug.export import AGAIN, Artifact, bounded

KINDS = ("conv1x1", "conv", "depthwise", "dense", "pool", "elementwise", "resize", "other")
MAC_KINDS = KINDS[:4]
"""Kinds that multiply and accumulate; of the others only the bytes count."""
COUNT_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Features:
    """Totals over the operators of a file.

    Args:
        macs: multiply-accumulates by kind of operator.
        bytes: the bytes of inputs, weights and outputs by kind, each operator's own.
        operators: their number.
    """

    macs: dict[str, int]
    bytes: dict[str, int]
    operators: int

    @property
    def total_macs(self) -> int:
        """Multiply-accumulates of all kinds of operators together."""
        return sum(self.macs.values())

    @property
    def total_bytes(self) -> int:
        """Bytes moved by all kinds of operators together."""
        return sum(self.bytes.values())


def read_features(artifacts: Sequence[Artifact]) -> list[Features]:
    """Counts the operators of LiteRT files, in one child process.

    Args:
        artifacts: artifacts from `load_artifact`.

    Raises:
        InputError: a file is of another target.
        ArtifactError: a file is not a flatbuffer that can be read.
        MissingExtraError: ai-edge-litert is not installed.
    """
    for artifact in artifacts:
        if artifact.card.target != "litert":
            why = (
                "an estimate reads the operators of LiteRT files, and this is for "
                f"{artifact.card.target}"
            )
            raise InputError(str(artifact.path), why, "Export it with `unplug export --to litert`")
    require_modules(("ai_edge_litert",), "run")
    paths: list[Path] = [artifact.path.resolve() for artifact in artifacts]
    reply = call_in_child(
        "unplug.mobile_bench.estimate.operators:count",
        {"paths": [str(path) for path in paths]},
        what="counting operators",
        timeout=seconds_for(0, COUNT_SECONDS),
        memory=memory_for(*paths),
    )
    return [Features(**item) for item in reply.values["files"]]


IDENTIFIER = b"TFL3"
# multiply-accumulates of one operator: a thousand times the largest network of the project
MAX_WORK = 2**50
POOL = {"AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "SUM", "REDUCE_MAX"}
RESIZE = {"RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH"}
ELEMENTWISE = {
    "ADD",
    "SUB",
    "MUL",
    "DIV",
    "MAXIMUM",
    "MINIMUM",
    "RELU",
    "RELU6",
    "PRELU",
    "LEAKY_RELU",
    "ELU",
    "GELU",
    "HARD_SWISH",
    "LOGISTIC",
    "TANH",
    "SQRT",
    "RSQRT",
    "SQUARE",
    "SQUARED_DIFFERENCE",
    "EXP",
    "NEG",
    "ABS",
    "SOFTMAX",
    "QUANTIZE",
    "DEQUANTIZE",
    "CAST",
    "POW",
    "CLAMP",
}
BYTES = {
    "FLOAT64": 8.0,
    "INT64": 8.0,
    "UINT64": 8.0,
    "FLOAT16": 2.0,
    "INT16": 2.0,
    "UINT16": 2.0,
    "BFLOAT16": 2.0,
    "INT8": 1.0,
    "UINT8": 1.0,
    "BOOL": 1.0,
    "INT4": 0.5,
    "INT2": 0.25,
}
"""The bytes of one element; the others have four."""


class Tensor(NamedTuple):
    """Shape and size of one tensor."""

    shape: tuple[int, ...]
    bytes: float


def count(job: Job) -> Reply:
    """Totals by kind, and the number of operators, of each file in ``paths``."""
    return Reply(values={"files": [count_file(Path(path)) for path in job.values["paths"]]})


def count_file(path: Path) -> dict[str, Any]:
    """Totals of one file.

    Raises:
        ArtifactError: this is not a flatbuffer that can be read, or it claims impossible work.
    """
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    if content[4:8] != IDENTIFIER:
        raise ArtifactError(str(path), "it does not begin as a LiteRT file does", AGAIN)
    macs, moved, number = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0.0), 0
    try:
        for kind, work, size in _operators(path, content, schema):
            macs[kind] += work
            moved[kind] += size
            number += 1
    except (
        struct.error,
        IndexError,
        ValueError,
        TypeError,
        OverflowError,
        AttributeError,
    ) as error:
        # What flatbuffers raises where an offset leads out of the file or to nothing.
        raise ArtifactError(str(path), f"its flatbuffer is broken ({error})", AGAIN) from error
    return {
        "macs": macs,
        "bytes": {kind: int(size) for kind, size in moved.items()},
        "operators": number,
    }


def _operators(path: Path, content: bytes, schema: Any) -> Iterator[tuple[str, int, float]]:
    model = schema.Model.GetRootAs(content, 0)
    names = {
        number: name for name, number in vars(schema.BuiltinOperator).items() if name.isupper()
    }
    types = {number: name for name, number in vars(schema.TensorType).items() if name.isupper()}
    graph = model.Subgraphs(0)
    tensors = [
        _tensor(graph.Tensors(index), types)
        for index in bounded(path, "tensors", graph.TensorsLength())
    ]
    for index in bounded(path, "operators", graph.OperatorsLength()):
        operator = graph.Operators(index)
        code = model.OperatorCodes(operator.OpcodeIndex())
        name = names.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "unknown")
        # An input that is left out has the number -1.
        inputs = [tensors[place] for place in _numbers(operator.InputsAsNumpy()) if place >= 0]
        outputs = [tensors[place] for place in _numbers(operator.OutputsAsNumpy()) if place >= 0]
        work, moved = (
            macs_of(name, inputs, outputs),
            sum(item.bytes for item in (*inputs, *outputs)),
        )
        if not (0 <= work <= MAX_WORK and moved <= MAX_WORK):
            raise ArtifactError(str(path), f"operator {index} claims impossible work", AGAIN)
        yield kind_of(name, inputs), work, moved


def _numbers(found: Any) -> list[int]:
    return [] if isinstance(found, int) else [int(number) for number in found]


def _tensor(tensor: Any, types: dict[int, str]) -> Tensor:
    shape = () if tensor.ShapeIsNone() else tuple(int(size) for size in tensor.ShapeAsNumpy())
    if min(shape, default=0) < 0:
        raise ValueError("a tensor has a negative size")
    return Tensor(shape, math.prod(shape) * BYTES.get(types.get(tensor.Type(), ""), 4.0))


def kind_of(name: str, inputs: list[Tensor]) -> str:
    """Which of `KINDS` an operator is.

    Example:
        >>> kind_of("CONV_2D", [Tensor((1, 8, 8, 3), 768.0), Tensor((16, 1, 1, 3), 192.0)])
        'conv1x1'
    """
    if name == "CONV_2D":
        return "conv1x1" if inputs[1].shape[1:3] == (1, 1) else "conv"
    if name in ("TRANSPOSE_CONV", "CONV_3D"):
        return "conv"
    if name == "DEPTHWISE_CONV_2D":
        return "depthwise"
    if name in ("FULLY_CONNECTED", "BATCH_MATMUL"):
        return "dense"
    return (
        "pool"
        if name in POOL
        else "elementwise"
        if name in ELEMENTWISE
        else "resize"
        if name in RESIZE
        else "other"
    )


def macs_of(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> int:
    """Multiply-accumulates of one operator; 0 for those that have none.

    A convolution has, for every element that it writes, one for every weight of one output channel:
    height x width x inputs.

    Example:
        >>> macs_of("CONV_2D", [Tensor((1, 8, 8, 3), 0.0), Tensor((16, 3, 3, 3), 0.0)], [Tensor((1, 4, 4, 16), 0.0)])
        6912
    """
    if name in ("CONV_2D", "CONV_3D", "FULLY_CONNECTED"):
        weights = inputs[1].shape
        depth = math.prod(weights[:-1]) if name == "CONV_3D" else math.prod(weights[1:])
        return math.prod(outputs[0].shape) * depth
    if name == "DEPTHWISE_CONV_2D":
        return math.prod(outputs[0].shape) * math.prod(inputs[1].shape[1:3])
    if (
        name == "TRANSPOSE_CONV"
    ):  # sizes, weights (out, height, width, in), input: each input element meets every other axis
        return math.prod(inputs[2].shape) * math.prod(inputs[1].shape[:-1])
    if (
        name == "BATCH_MATMUL"
    ):  # (.., m, k) x (.., k, n): the common k is what the left side has beyond the output's rows
        return math.prod(inputs[0].shape) * outputs[0].shape[-1]
    return 0
