"""Tensors of a LiteRT file, by its interpreter's reference kernels, which keep each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array

from ..targets.litert import SIGNATURE
from .base import Traced, Tracer


def open_tracer(path: Path) -> Tracer:
    """Loads the file without delegates: XNNPACK would fuse what is to be looked at."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )  # fmt: skip
    interpreter.allocate_tensors()
    details = {int(item["index"]): item for item in interpreter.get_tensor_details()}
    named = {name: item["index"] for name, item in interpreter.get_signature_runner(SIGNATURE).get_input_details().items()}

    def trace(inputs: Mapping[str, Array]) -> Iterator[Traced]:
        for name, array in inputs.items():
            interpreter.set_tensor(named[name], array)
        interpreter.invoke()
        for node in interpreter._get_ops_details():
            for index in map(int, node["outputs"]):
                value = as_floats(interpreter.get_tensor(index), details[index]["quantization_parameters"])
                yield Traced(name=str(details[index]["name"]), kind=str(node["op_name"]), value=value)

    return trace


def as_floats(codes: Array, how: Mapping[str, Any]) -> Array:
    """What the codes of a quantized tensor stand for: scale (code - zero point), by channel where there are several.

    Example:
        >>> how = {"scales": np.array([0.5]), "zero_points": np.array([-1]), "quantized_dimension": 0}
        >>> as_floats(np.array([1, 3], np.int8), how).tolist()
        [1.0, 2.0]
    """
    scales, zeros = np.asarray(how["scales"], np.float32), np.asarray(how["zero_points"], np.float32)
    if not scales.size:
        return codes.astype(np.float32)
    along = [1] * codes.ndim
    if scales.size > 1:
        along[how["quantized_dimension"]] = scales.size
    return (codes.astype(np.float32) - zeros.reshape(along)) * scales.reshape(along)
