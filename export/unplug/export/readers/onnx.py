"""Initializers of an ``.onnx`` graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, ArtifactError

from .base import AGAIN, Stored, bounded, checked_name, weights_of

CODES = {"INT8", "UINT8", "INT16", "UINT16", "INT32", "INT4", "UINT4", "INT2", "UINT2"}
OPAQUE = {"BFLOAT16": "uint16", "FLOAT8E4M3FN": "uint8", "FLOAT8E5M2": "uint8"}
INTEGER_OPERATORS = {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DequantizeLinear"}


def read(path: Path) -> dict[str, Array]:
    """Weights by initializer name; data in other files is refused, so that no path in the file is ever followed.

    Raises:
        ArtifactError: this is no ONNX file that can be read.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(str(path), load_external_data=False)
        return weights_of(path, _constants(path, model.graph))
    except (DecodeError, ValueError, TypeError, OverflowError) as error:
        raise ArtifactError(str(path), f"its graph is broken ({error})", AGAIN) from error


def _constants(path: Path, graph: Any) -> Iterator[Stored]:
    import onnx
    from onnx import numpy_helper

    coded = {name for node in graph.node if node.op_type in INTEGER_OPERATORS for name in node.input}
    for index in bounded(path, "initializers", len(graph.initializer)):
        tensor = graph.initializer[index]
        name = checked_name(path, tensor.name)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ArtifactError(str(path), f"constant {name[:200]!r} lies in another file", AGAIN)
        kind = onnx.TensorProto.DataType.Name(tensor.data_type)
        codes = np.asarray(numpy_helper.to_array(tensor))
        if kind in OPAQUE:
            yield Stored(name=name, codes=codes.view(OPAQUE[kind]), quantized=True)
        elif kind in CODES and name in coded:
            yield Stored(name=name, codes=codes if codes.dtype.kind in "iu" else codes.astype(np.int8), quantized=True)
        elif codes.dtype.kind == "f":
            yield Stored(name=name, codes=codes)
