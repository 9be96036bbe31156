"""Tensors of an ONNX file: every one becomes an output, and ONNX Runtime optimizes nothing away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from unplug.core import Array

from .base import Traced, Tracer


def open_tracer(path: Path) -> Tracer:
    """Loads the graph with all of its tensors as outputs; of a quantized one the dequantized twins are what counts."""
    import onnx
    import onnxruntime

    model = onnx.load(path)
    own = {item.name for item in model.graph.output}
    kinds = {name: node.op_type for node in model.graph.node for name in node.output if name}
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in kinds if name not in own)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def trace(inputs: Mapping[str, Array]) -> Iterator[Traced]:
        for (name, kind), value in zip(kinds.items(), session.run(list(kinds), dict(inputs)), strict=True):
            if np.issubdtype(value.dtype, np.floating):
                yield Traced(name=name, kind=kind, value=value.astype(np.float32))

    return trace
