"""Every tensor that a checkpoint or an exported file computes on the way, in order; third parties
add tracers of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, IOSpec, Registry

from ..targets.litert import SIGNATURE


@dataclass(frozen=True, kw_only=True)
class Traced:
    """One tensor of one run.

    Args:
        name: the name in the file or checkpoint.
        kind: the kind of operator or layer that computed it.
        value: its numbers as floats; codes of integer tensors times their scale.
    """

    name: str
    kind: str
    value: Array


Tracer = Callable[[Mapping[str, Array]], Iterable[Traced]]
"""Runs one sample, batch axis of one included. ``open_tracer(path)`` of a target's module makes
one, in a child process.
"""


TRACERS: Registry[Callable[[Path], Tracer]] = Registry(
    "tracer",
    {
        "litert": "unplug.export.layers.tracers:trace_litert",
        "coreml": "unplug.export.layers.tracers:trace_coreml",
        "onnx": "unplug.export.layers.tracers:trace_onnx",
    },
    group="unplug.tracers",
)


def trace_checkpoint(model: Any, iospec: IOSpec) -> Callable[[tuple[Any, ...]], list[Traced]]:
    """What runs a model on one sample and keeps what its modules gave; of a module that only hands
    on, the one inside.

    Batch norms are folded into the convolutions first, as every converter does: what stands between
    them is in no file.

    Args:
        model: it is copied, and stays as it is.
        iospec: names its outputs.

    Returns:
        From inputs in the order of the forward, one sample of each, to tensors.
    """
    import torch
    from torch import Tensor

    from ..bias_correction import folded

    twin, seen = folded(model), list[Traced]()

    def note(name: str) -> Any:
        def hook(layer: Any, _given: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not (
                seen and np.array_equal(seen[-1].value, output.numpy())
            ):
                seen.append(
                    Traced(name=name, kind=type(layer).__name__, value=output.numpy().copy())
                )

        return hook

    for name, module in twin.named_modules():
        if name:
            module.register_forward_hook(note(name))

    def trace(inputs: tuple[Tensor, ...]) -> list[Traced]:
        seen.clear()
        with torch.inference_mode():
            outputs = iospec.name_outputs(twin(*inputs))
        ends = [
            Traced(name=name, kind="output", value=value.numpy()) for name, value in outputs.items()
        ]
        return [
            item for item in seen if not any(np.array_equal(item.value, end.value) for end in ends)
        ] + ends

    return trace


def trace_litert(path: Path) -> Tracer:
    """Loads the file without delegates: XNNPACK would fuse what is to be looked at."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    details = {int(item["index"]): item for item in interpreter.get_tensor_details()}
    named = {
        name: item["index"]
        for name, item in interpreter.get_signature_runner(SIGNATURE).get_input_details().items()
    }

    def trace(inputs: Mapping[str, Array]) -> Iterator[Traced]:
        for name, array in inputs.items():
            interpreter.set_tensor(named[name], array)
        interpreter.invoke()
        for node in interpreter._get_ops_details():
            for index in map(int, node["outputs"]):
                value = as_floats(
                    interpreter.get_tensor(index), details[index]["quantization_parameters"]
                )
                yield Traced(
                    name=str(details[index]["name"]), kind=str(node["op_name"]), value=value
                )

    return trace


def as_floats(codes: Array, how: Mapping[str, Any]) -> Array:
    """What the codes of a quantized tensor stand for: scale (code - zero point), by channel where
    there are several.

    Example:
        >>> how = {"scales": np.array([0.5]), "zero_points": np.array([-1]), "quantized_dimension": 0}
        >>> as_floats(np.array([1, 3], np.int8), how).tolist()
        [1.0, 2.0]
    """
    scales, zeros = (
        np.asarray(how["scales"], np.float32),
        np.asarray(how["zero_points"], np.float32),
    )
    if not scales.size:
        return codes.astype(np.float32)
    along = [1] * codes.ndim
    if scales.size > 1:
        along[how["quantized_dimension"]] = scales.size
    return (codes.astype(np.float32) - zeros.reshape(along)) * scales.reshape(along)


def trace_onnx(path: Path) -> Tracer:
    """Loads the graph with all of its tensors as outputs; of a quantized one the dequantized twins
    are what counts.
    """
    import onnx
    import onnxruntime

    model = onnx.load(path)
    outputs = {item.name for item in model.graph.output}
    kinds = {name: node.op_type for node in model.graph.node for name in node.output if name}
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in kinds if name not in outputs
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def trace(inputs: Mapping[str, Array]) -> Iterator[Traced]:
        for (name, kind), value in zip(
            kinds.items(), session.run(list(kinds), dict(inputs)), strict=True
        ):
            if np.issubdtype(value.dtype, np.floating):
                yield Traced(name=name, kind=kind, value=value.astype(np.float32))

    return trace


def trace_coreml(path: Path) -> Tracer:
    """Reads the program; see `unplug.export.mil`."""
    from ..mil.evaluate import Evaluator
    from ..mil.program import read_program

    evaluator = Evaluator(read_program(path))

    def trace(inputs: Mapping[str, Array]) -> list[Traced]:
        seen: list[Traced] = []

        def watch(operation: Any, name: str, value: Any) -> None:
            if value.is_floating_point():
                seen.append(Traced(name=name, kind=operation.kind, value=value.float().numpy()))

        evaluator(inputs, watch)
        return seen

    return trace
