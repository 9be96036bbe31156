"""ONNX: by PyTorch's own exporter, or a graph of somebody else with our head; static batch of one;
float16 inside with float32 at the edges, int8 by onnxruntime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Array, temporary_folder

from .base import TargetSource

OPSET = 18  # the exporter's own; newer ones are converted from it, older runtimes lose nothing


@dataclass(frozen=True)
class Onnx:
    """Graph inputs and outputs have the IOSpec's names; one file, no external data."""

    name: str = "onnx"
    suffix: str = ".onnx"
    precisions: tuple[str, ...] = ("fp32", "fp16", "int8-static")
    modules: tuple[str, ...] = ("onnx", "onnxscript", "onnxruntime")
    distributions: tuple[str, ...] = ("onnx", "onnxscript", "onnxruntime", "torch")
    extra: str = "onnx"
    runtime: str = "onnx"
    kernel_levels: int = 64  # see `static`

    def prepare(self, source: TargetSource) -> Any:
        """Converts the checkpoint to the fp32 graph that every precision starts from."""
        from .onnx_joined import joined, onnx_trunk

        trunk = onnx_trunk(source.model)
        proto = clean(exported(source) if trunk is None else joined(source, trunk))
        proto.graph.doc_string = source.description
        for key, value in source.facts.items():
            proto.metadata_props.add(key=key, value=value)
        sides = (
            (proto.graph.input, source.iospec.inputs),
            (proto.graph.output, source.iospec.outputs),
        )
        for end, tensor in (pair for side in sides for pair in zip(*side, strict=True)):
            end.doc_string = tensor.description
        return proto

    def write(
        self, prepared: Any, precision: str, path: Path, calibration: Mapping[str, Array]
    ) -> None:
        """Writes the graph, and checks it."""
        import onnx

        made = {
            "fp32": lambda: prepared,
            "fp16": lambda: half(prepared),
            "int8-static": lambda: static(prepared, calibration),
        }
        graph, told = made[precision](), list(prepared.metadata_props)
        del graph.metadata_props[:]  # the quantizer leaves notes of its own
        graph.metadata_props.extend(told)
        onnx.checker.check_model(graph, full_check=True)
        onnx.save(graph, str(path))


def exported(source: TargetSource) -> Any:
    """What PyTorch's exporter makes of a model."""
    import torch

    from .wrappers import Positional, examples

    program = torch.onnx.export(
        Positional(source),
        examples(source),
        dynamo=True,
        opset_version=OPSET,
        input_names=[tensor.name for tensor in source.iospec.inputs],
        output_names=[tensor.name for tensor in source.iospec.outputs],
        verbose=False,
    )
    if program is None:
        raise TypeError("torch.onnx.export returned no program")
    return program.model_proto


def clean(proto: Any) -> Any:
    """Drops the exporter's notes: they hold source paths of the machine that exported, and change
    from run to run.
    """
    del proto.metadata_props[:]
    del proto.graph.metadata_props[:]
    for part in (
        *proto.graph.node,
        *proto.graph.input,
        *proto.graph.output,
        *proto.graph.value_info,
    ):
        del part.metadata_props[:]
        part.doc_string = ""
    return proto


INTEGER = ("Conv", "Clip", "Relu", "Add")
"""Operators between whose int8 tensors a runtime may fuse; the head stays float32, as in LiteRT."""


def half(proto: Any) -> Any:
    """A float16 copy whose inputs and outputs stay float32."""
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    halved = convert_float_to_float16(_copy(proto), keep_io_types=True)
    # An input that two operators take in float32 (the scales of Resize) it casts twice, to the same
    # name.
    casts = {node.output[0]: node for node in halved.graph.node if node.op_type == "Cast"}
    again = [
        node
        for node in halved.graph.node
        if node.op_type == "Cast" and casts[node.output[0]] is not node
    ]
    for node in again:
        halved.graph.node.remove(node)
    del halved.graph.value_info[:]  # it says float16 of those scales, which stay float32
    # It appends the casts of the inputs at the end, where the checker and strict runtimes refuse
    # them.
    OnnxModel.graph_topological_sort(halved.graph)
    return halved


def static(proto: Any, calibration: Mapping[str, Array]) -> Any:
    """A copy with QuantizeLinear and DequantizeLinear pairs: int8 kernels, one scale an output
    channel.

    Codes of kernels have seven bits, -64 to 64: kernels of x86 without VNNI add two products of 8
    bits in 16, and 2 x 255 x 127 does not fit there. Measured with ONNX Runtime 1.31 as on a
    Haswell: 30 to 32 dB with eight bits, 50 to 58 with seven, on an age predictor; signed
    activations saturate alike, unsigned kernels do not and took twice the time where there is VNNI.

    Args:
        proto: fp32.
        calibration: input name to N samples; they give each activation its range.
    """
    import onnx
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            count = len(next(iter(calibration.values())))
            self.rest = iter(
                [
                    {name: array[n : n + 1] for name, array in calibration.items()}
                    for n in range(count)
                ]
            )

        def get_next(self) -> Any:
            return next(self.rest, None)

    with temporary_folder("unplug-onnx-") as folder:
        path = f"{folder}/model.onnx"
        quantize_static(
            _copy(proto),
            path,
            Samples(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(INTEGER),
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
        )
        return compact(onnx.load(path))


def compact(proto: Any) -> Any:
    """Drops what nothing reads, names of operators and shapes of values inside, and keeps one of
    constants that are equal.

    A tenth of a quantized file was such: all zero points of a length are the same, and each had a
    name.
    """
    first: dict[bytes, str] = {}
    known: dict[str, str] = {}
    kept = []
    for constant in proto.graph.initializer:
        twin = type(constant)()
        twin.CopyFrom(constant)
        twin.name = ""
        known[constant.name] = first.setdefault(
            twin.SerializeToString(deterministic=True), constant.name
        )
        if known[constant.name] == constant.name:
            kept.append(constant)
    for node in proto.graph.node:
        node.name = ""
        for place, name in enumerate(node.input):
            node.input[place] = known.get(name, name)
    del proto.graph.initializer[:], proto.graph.value_info[:]
    proto.graph.initializer.extend(kept)
    return proto


def _copy(proto: Any) -> Any:
    """What is handed to the quantizer and the converter they change: weights become references to
    files.
    """
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


TARGET = Onnx()
