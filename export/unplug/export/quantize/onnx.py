"""ONNX graphs in fewer bits, by onnxruntime's quantizer."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from unplug.core import Array

INTEGER = ("Conv", "Clip", "Relu", "Add")
"""Operators between whose int8 tensors a runtime may fuse; the head stays float32, as in LiteRT."""


def half(proto: Any) -> Any:
    """A float16 copy whose inputs and outputs stay float32."""
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    halved = convert_float_to_float16(_copy(proto), keep_io_types=True)
    # An input that two operators take in float32 (the scales of Resize) it casts twice, to the same name.
    casts = {node.output[0]: node for node in halved.graph.node if node.op_type == "Cast"}
    again = [node for node in halved.graph.node if node.op_type == "Cast" and casts[node.output[0]] is not node]
    for node in again:
        halved.graph.node.remove(node)
    del halved.graph.value_info[:]  # it says float16 of those scales, which stay float32
    # It appends the casts of the inputs at the end, where the checker and strict runtimes refuse them.
    OnnxModel.graph_topological_sort(halved.graph)
    return halved


def static(proto: Any, calibration: Mapping[str, Array]) -> Any:
    """A copy with QuantizeLinear and DequantizeLinear pairs: int8 kernels, one scale an output channel.

    Args:
        proto: fp32.
        calibration: input name to N samples; they give each activation its range.
    """
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            count = len(next(iter(calibration.values())))
            self.rest = iter([{name: array[n : n + 1] for name, array in calibration.items()} for n in range(count)])

        def get_next(self) -> Any:
            return next(self.rest, None)

    with tempfile.TemporaryDirectory(prefix="unplug-onnx-") as folder:
        path = f"{folder}/model.onnx"
        quantize_static(
            _copy(proto), path, Samples(), quant_format=QuantFormat.QDQ, op_types_to_quantize=list(INTEGER), per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod.MinMax,
        )  # fmt: skip
        return compact(onnx.load(path))


def compact(proto: Any) -> Any:
    """Drops what nothing reads, names of operators and shapes of values inside, and keeps one of constants that are equal.

    A tenth of a quantized file was such: all zero points of a length are the same, and each had a name.
    """
    first: dict[bytes, str] = {}
    known: dict[str, str] = {}
    kept = []
    for item in proto.graph.initializer:
        twin = type(item)()
        twin.CopyFrom(item)
        twin.name = ""
        known[item.name] = first.setdefault(twin.SerializeToString(deterministic=True), item.name)
        if known[item.name] == item.name:
            kept.append(item)
    for node in proto.graph.node:
        node.name = ""
        for place, name in enumerate(node.input):
            node.input[place] = known.get(name, name)
    del proto.graph.initializer[:], proto.graph.value_info[:]
    proto.graph.initializer.extend(kept)
    return proto


def _copy(proto: Any) -> Any:
    """What is handed to the quantizer and the converter they change: weights become references to files."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy
