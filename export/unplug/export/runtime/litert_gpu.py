"""LiteRT's GPU delegate: WebGPU on Vulkan, Metal or Direct3D, also on a software device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, ArtifactError, InputError, IOSpec

from ..targets.litert import SIGNATURE
from .base import Placement, Runner, check_tensors

NO_DEVICE = "No adapters found"
LOG = Path("/proc/self/fd/2")
LOG_BYTES = 65536
ADAPTER = re.compile(r"Selected adapter: (.+)")
LOGGED = re.compile(r"(INFO|WARNING|ERROR|VERBOSE|DEBUG): |([IWEF])\d{4} ")


def open_on_gpu(path: Path, iospec: IOSpec) -> Runner:
    """Compiles a file for the GPU; whatever cannot go there is an error, as a phone's fallback to the CPU would be silent.

    Raises:
        InputError: there is no GPU, and no software device that stands in for one.
        ArtifactError: LiteRT cannot load the file, or the delegate refuses it or leaves operators to the CPU.
    """
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.gpu_options import GpuOptions
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator
    from ai_edge_litert.options import Options

    # Without benchmark mode a run returns before its work is done, and whoever times it times nothing.
    options = Options(hardware_accelerators=HardwareAccelerator.GPU, gpu_options=GpuOptions(benchmark_mode=True))
    try:
        model = CompiledModel.from_file(str(path), options=options)
    except RuntimeError as error:
        raise _refusal(path, error) from error
    if not model.is_fully_accelerated():
        why = "the GPU delegate leaves operators to the CPU"
        raise ArtifactError(str(path), why, "Export another precision, or run it on xnnpack")
    sides = model.get_input_tensor_details(SIGNATURE), model.get_output_tensor_details(SIGNATURE)
    for named, details in zip((iospec.inputs, iospec.outputs), sides, strict=True):
        check_tensors(path, named, {name: _described(item) for name, item in details.items()})
    return _Runner(model, iospec)


def _described(detail: Mapping[str, Any]) -> tuple[tuple[int, ...], str]:
    return tuple(int(side) for side in detail["shape"]), np.dtype(detail["dtype"]).name


def _refusal(path: Path, error: RuntimeError) -> InputError | ArtifactError:
    said = _said()
    if NO_DEVICE in said:
        why = f"there is no GPU here that Vulkan, Metal or Direct3D finds ({NO_DEVICE})"
        return InputError("delegate 'gpu'", why, "Use another delegate, or a software device: see docs/export.md")
    text = " ".join(" ".join(_errors(said.splitlines()) or [str(error)]).split())[:500]
    return ArtifactError(str(path), f"the GPU delegate refuses it: {text}", "Export another precision, or run it on xnnpack")


def _errors(lines: Iterable[str]) -> list[str]:
    """What a log says in its errors: their first lines and those that go on from them.

    Example:
        >>> _errors(["INFO: ready", "ERROR: not supported:", "TILE: no such op", "INFO: bye", "E0000 1 x.cc:2] broken"])
        ['ERROR: not supported:', 'TILE: no such op', 'broken']
    """
    found, inside = list[str](), False
    for line in lines:
        if (start := LOGGED.match(line)) is not None:
            inside = (start[1] or start[2]) in ("E", "ERROR")
        if inside:
            found.append(line.split("] ", 1)[-1])
    return found


def _said() -> str:
    """What this process wrote to stderr, where that is a file: the delegate gives its reasons there and nowhere else."""
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


class _Runner:
    def __init__(self, model: Any, iospec: IOSpec) -> None:
        self.placement = Placement(delegate_asked="gpu", delegate_got="gpu", adapter=_adapter())
        self._model, self._iospec = model, iospec
        self._inputs = {item.name: model.create_input_buffer_by_name(SIGNATURE, item.name) for item in iospec.inputs}
        self._outputs = {item.name: model.create_output_buffer_by_name(SIGNATURE, item.name) for item in iospec.outputs}

    def feed(self, inputs: Mapping[str, Array]) -> None:
        for name, buffer in self._inputs.items():
            buffer.write(inputs[name])

    def invoke(self) -> None:
        self._model.run_by_name(SIGNATURE, self._inputs, self._outputs)

    def read(self) -> dict[str, Array]:
        found = {}
        for item in self._iospec.outputs:
            count = int(np.prod(item.shape))
            found[item.name] = self._outputs[item.name].read(count, np.dtype(item.dtype)).reshape(item.shape)
        return found
