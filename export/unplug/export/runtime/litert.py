"""LiteRT on the CPU, with the XNNPACK delegate or the reference kernels, and on the GPU: WebGPU on
Vulkan, Metal or Direct3D, also on a software device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, ArtifactError, InputError, IOSpec

from ..targets.litert import SIGNATURE
from .base import Placement, PythonPackage, Runner, check_tensors


@dataclass(frozen=True)
class LiteRTRuntime(PythonPackage):
    """An interpreter from the first of `modules`; names come from the file's first signature."""

    name: str = "litert"
    suffix: str = ".tflite"
    modules: tuple[str, ...] = ("ai_edge_litert.interpreter",)
    package: str = "ai-edge-litert"
    extra: str = "run"
    delegates: tuple[str, ...] = ("xnnpack", "none", "gpu")

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Loads the flatbuffer and allocates its tensors, or compiles it for the GPU."""
        if delegate == "gpu":
            return open_on_gpu(path, iospec)
        package = import_module(self.modules[0])
        resolvers = package.OpResolverType
        kernels = (
            resolvers.AUTO if delegate == "xnnpack" else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        )
        try:
            interpreter = package.Interpreter(
                str(path), num_threads=threads, experimental_op_resolver_type=kernels
            )
            interpreter.allocate_tensors()
            signature = interpreter.get_signature_runner()
            inputs, outputs = signature.get_input_details(), signature.get_output_details()
            placement = placement_of(interpreter, delegate)
        except (ValueError, RuntimeError) as error:  # among them names that are not UTF-8
            lacking = re.search(r"Didn't find op for builtin opcode '(\w+)'", str(error))
            why, fix = f"{self.name} cannot load it ({error})", "Export it again"
            if lacking:
                why = f"{self.name} has no operator {lacking[1]}"
                fix = "Export the layer in other operators, or to another target"
            raise ArtifactError(str(path), why, fix) from error
        check_tensors(path, iospec, _describe(inputs), _describe(outputs))
        return _Interpreted(interpreter, inputs, outputs, placement)


def _describe(details: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], str]]:
    return {
        name: (tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"]).name)
        for name, detail in details.items()
    }


class _Interpreted:
    def __init__(
        self,
        interpreter: Any,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        placement: Placement,
    ) -> None:
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

    The interpreter lists the graph's own operators and, after them, one DELEGATE operator a
    partition. An operator was taken if a partition's outputs can be traced back to it without
    leaving the partition.
    """
    listed = interpreter._get_ops_details()  # no public call tells; a test holds this one
    nodes = [node for node in listed if node["op_name"] != "DELEGATE"]
    partitions = [node for node in listed if node["op_name"] == "DELEGATE"]
    maker = {int(tensor): node for node in nodes for tensor in node["outputs"]}
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
        nodes_total=len(nodes),
        partitions=len(partitions),
        left=tuple(node["op_name"] for node in nodes if node["index"] not in taken),
    )


NO_DEVICE = "No adapters found"
LOG = Path("/proc/self/fd/2")
LOG_BYTES = 65536
ADAPTER = re.compile(r"Selected adapter: (.+)")
LOGGED = re.compile(r"(INFO|WARNING|ERROR|VERBOSE|DEBUG): |([IWEF])\d{4} ")


def open_on_gpu(path: Path, iospec: IOSpec) -> Runner:
    """Compiles a file for the GPU; whatever cannot go there is an error, as a phone's fallback to
    the CPU would be silent.

    Raises:
        InputError: there is no GPU, and no software device that stands in for one.
        ArtifactError: LiteRT cannot load the file, or the delegate refuses it or leaves operators
            to the CPU.
    """
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.gpu_options import GpuOptions
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator
    from ai_edge_litert.options import Options

    # Without benchmark mode a run returns before its work is done, and timing it measures
    # nothing.
    options = Options(
        hardware_accelerators=HardwareAccelerator.GPU, gpu_options=GpuOptions(benchmark_mode=True)
    )
    try:
        model = CompiledModel.from_file(str(path), options=options)
    except RuntimeError as error:
        raise _refusal(path, error) from error
    if not model.is_fully_accelerated():
        why = "the GPU delegate leaves operators to the CPU"
        raise ArtifactError(str(path), why, "Export another precision, or run it on xnnpack")
    sides = model.get_input_tensor_details(SIGNATURE), model.get_output_tensor_details(SIGNATURE)
    check_tensors(path, iospec, *map(_describe, sides))
    return _OnGPU(model, iospec)


def _refusal(path: Path, error: RuntimeError) -> InputError | ArtifactError:
    log = _said()
    if NO_DEVICE in log:
        why = f"there is no GPU here that Vulkan, Metal or Direct3D finds ({NO_DEVICE})"
        return InputError(
            "delegate 'gpu'", why, "Use another delegate, or a software device: see docs/export.md"
        )
    text = " ".join(" ".join(_errors(log.splitlines()) or [str(error)]).split())[:500]
    return ArtifactError(
        str(path),
        f"the GPU delegate refuses it: {text}",
        "Export another precision, or run it on xnnpack",
    )


def _errors(lines: Iterable[str]) -> list[str]:
    """What a log says in its errors: their first lines and those that go on from them.

    Example:
        >>> _errors(["INFO: ready", "ERROR: not supported:", "TILE: no such op", "INFO: bye", "E0000 1 x.cc:2] broken"])
        ['ERROR: not supported:', 'TILE: no such op', 'broken']
    """
    errors, inside = list[str](), False
    for line in lines:
        if (start := LOGGED.match(line)) is not None:
            inside = (start[1] or start[2]) in ("E", "ERROR")
        if inside:
            errors.append(line.split("] ", 1)[-1])
    return errors


def _said() -> str:
    """What this process wrote to stderr, where that is a file: the delegate gives its reasons there
    and nowhere else.
    """
    try:
        with LOG.open("rb") as handle:
            handle.seek(0, 2)
            handle.seek(max(0, handle.tell() - LOG_BYTES))
            return handle.read().decode("utf-8", "replace") if LOG.resolve().is_file() else ""
    except OSError:
        return ""


def _adapter() -> str | None:
    """The GPU that the delegate chose, by its log."""
    chosen = ADAPTER.findall(_said())
    return chosen[-1].strip()[:200] if chosen else None


class _OnGPU:
    def __init__(self, model: Any, iospec: IOSpec) -> None:
        self.placement = Placement(delegate_asked="gpu", delegate_got="gpu", adapter=_adapter())
        self._model, self._iospec = model, iospec
        self._inputs = {
            item.name: model.create_input_buffer_by_name(SIGNATURE, item.name)
            for item in iospec.inputs
        }
        self._outputs = {
            item.name: model.create_output_buffer_by_name(SIGNATURE, item.name)
            for item in iospec.outputs
        }

    def feed(self, inputs: Mapping[str, Array]) -> None:
        for name, buffer in self._inputs.items():
            buffer.write(inputs[name])

    def invoke(self) -> None:
        self._model.run_by_name(SIGNATURE, self._inputs, self._outputs)

    def read(self) -> dict[str, Array]:
        return {
            spec.name: self._outputs[spec.name]
            .read(int(np.prod(spec.shape)), np.dtype(spec.dtype))
            .reshape(spec.shape)
            for spec in self._iospec.outputs
        }


RUNTIME = LiteRTRuntime()
TENSORFLOW = LiteRTRuntime(
    name="tensorflow",
    modules=("tensorflow.lite.python.interpreter",),
    package="tensorflow",
    extra="tensorflow",
    delegates=("xnnpack", "none"),
)
"""TensorFlow's own interpreter of LiteRT files: the older runtime, which many apps still embed."""
