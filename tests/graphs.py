"""ONNX files of "somebody else", as `unplug adopt --trunk` takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE = 32


def graph(path: Path, **changed: Any) -> str:
    """Writes a network of 12 features and 5 answers for pictures of 32 pixels.

    Args:
        path: where.
        changed: ``batch``, ``operator``, ``external`` or ``swells``: what is wrong with it.

    Returns:
        Its name as a trunk."""
    generator = np.random.default_rng(0)

    def constant(name: str, *shape: int) -> TensorProto:
        value = generator.normal(size=shape, scale=0.4).astype(np.float32)
        return numpy_helper.from_array(value, name)

    kernel = constant("kernel", 12, 3, 5, 5)
    if changed.get("external"):
        kernel.data_location = TensorProto.EXTERNAL
        kernel.ClearField("raw_data")
        kernel.external_data.add(key="location", value="elsewhere.bin")
    nodes = [
        helper.make_node("Conv", ["images", "kernel"], ["maps"], strides=[2, 2]),
        helper.make_node(changed.get("operator", "Relu"), ["maps"], ["rising"]),
        helper.make_node("GlobalAveragePool", ["rising"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("Gemm", ["features", "last", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"]),
        helper.make_node("ReduceMean", ["features", "axes"], ["centre"]),
        helper.make_node("Sub", ["features", "centre"], ["mixed"]),
        helper.make_node("Log", ["centre"], ["logs"]),
        helper.make_node("Sub", ["features", "features"], ["constant"]),
        helper.make_node("Div", ["constant", "constant"], ["nan"]),
    ]
    if changed.get("swells"):
        sizes = numpy_helper.from_array(np.array([2**32], np.int64), "sizes")
        nodes += [
            helper.make_node("Constant", [], ["many"], value=sizes),
            helper.make_node("ConstantOfShape", ["many"], ["huge"]),
            helper.make_node("ReduceSum", ["huge"], ["total"], keepdims=0),
            helper.make_node("Add", ["features", "total"], ["swollen"]),
        ]
    axes = numpy_helper.from_array(np.array([0], np.int64), "axes")
    made = helper.make_graph(
        nodes,
        "theirs",
        [
            helper.make_tensor_value_info(
                "images", TensorProto.FLOAT, [changed.get("batch", "N"), 3, SIDE, SIDE]
            )
        ],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 5])],
        [kernel, constant("last", 12, 5), constant("bias", 5), axes],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, str(path))
    return f"onnx:{path}"
