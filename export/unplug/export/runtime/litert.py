"""LiteRT on the CPU, with the XNNPACK delegate or the reference kernels, or on the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, ArtifactError, IOSpec

from .base import Placement, PythonPackage, Runner, check_tensors


@dataclass(frozen=True)
class LiteRT(PythonPackage):
    """An interpreter from the first of `modules`; names come from the file's first signature."""

    name: str = "litert"
    suffix: str = ".tflite"
    modules: tuple[str, ...] = ("ai_edge_litert.interpreter",)
    package: str = "ai-edge-litert"
    extra: str = "litert"
    delegates: tuple[str, ...] = ("xnnpack", "none", "gpu")

    def unavailable(self) -> str | None:
        """It runs everywhere."""
        return None

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Loads the flatbuffer and allocates its tensors, or compiles it for the GPU."""
        if delegate == "gpu":
            from .litert_gpu import open_on_gpu

            return open_on_gpu(path, iospec)
        package = import_module(self.modules[0])
        resolvers = package.OpResolverType
        kernels = resolvers.AUTO if delegate == "xnnpack" else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        try:
            interpreter = package.Interpreter(str(path), num_threads=threads, experimental_op_resolver_type=kernels)
            interpreter.allocate_tensors()
            signature = interpreter.get_signature_runner()
            inputs, outputs = signature.get_input_details(), signature.get_output_details()
            placement = placement_of(interpreter, delegate)
        except (ValueError, RuntimeError) as error:  # among them names that are not UTF-8
            raise ArtifactError(str(path), f"{self.name} cannot load it ({error})", "Export it again") from error
        check_tensors(path, iospec.inputs, _describe(inputs))
        check_tensors(path, iospec.outputs, _describe(outputs))
        return _Runner(interpreter, inputs, outputs, placement)


def _describe(details: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"]).name) for name, detail in details.items()}


class _Runner:
    def __init__(self, interpreter: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], placement: Placement) -> None:
        self.placement = placement
        self._interpreter = interpreter
        self._inputs = {name: detail["index"] for name, detail in inputs.items()}
        self._outputs = {name: detail["index"] for name, detail in outputs.items()}

    def feed(self, inputs: Mapping[str, Array]) -> None:
        for name, index in self._inputs.items():
            self._interpreter.set_tensor(index, inputs[name])

    def invoke(self) -> None:
        self._interpreter.invoke()

    def read(self) -> dict[str, Array]:
        return {name: self._interpreter.get_tensor(index) for name, index in self._outputs.items()}


def placement_of(interpreter: Any, asked: str) -> Placement:
    """Counts what the delegate took.

    The interpreter lists the graph's own operators and, behind them, one DELEGATE operator a partition. An operator
    was taken if a partition's outputs can be traced back to it without leaving the partition.
    """
    listed = interpreter._get_ops_details()  # no public call tells; a test holds this one
    own = [node for node in listed if node["op_name"] != "DELEGATE"]
    partitions = [node for node in listed if node["op_name"] == "DELEGATE"]
    maker = {int(tensor): node for node in own for tensor in node["outputs"]}
    taken: set[int] = set()
    for partition in partitions:
        edge = {int(tensor) for tensor in partition["inputs"]}
        waiting = [int(tensor) for tensor in partition["outputs"]]
        while waiting:
            tensor = waiting.pop()
            node = None if tensor in edge else maker.get(tensor)
            if node is not None and node["index"] not in taken:
                taken.add(node["index"])
                waiting.extend(int(source) for source in node["inputs"])
    return Placement(
        delegate_asked=asked,
        delegate_got="xnnpack" if taken else "none",
        nodes_delegated=len(taken),
        nodes_total=len(own),
        partitions=len(partitions),
        left=tuple(node["op_name"] for node in own if node["index"] not in taken),
    )


RUNTIME = LiteRT()
