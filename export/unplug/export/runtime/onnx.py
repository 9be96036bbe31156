"""ONNX Runtime on the CPU or an NVIDIA GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Array, ArtifactError, InputError, IOSpec

from .base import FunctionRunner, Placement, PythonPackage, Runner, check_tensors

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
NUMPY_NAMES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


@dataclass(frozen=True)
class OnnxRuntime(PythonPackage):
    """`onnxruntime` with its CPU or CUDA execution provider; `onnxruntime-gpu` has the latter."""

    name: str = "onnx"
    suffix: str = ".onnx"
    modules: tuple[str, ...] = ("onnxruntime",)
    package: str = "onnxruntime"
    extra: str = "run"
    delegates: tuple[str, ...] = tuple(PROVIDERS)

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Loads and optimizes the graph; what CUDA does not take is an error, never left to the CPU
        in silence.

        Raises:
            InputError: this build of ONNX Runtime has no such provider.
            ArtifactError: the file is broken, or the provider does not take all of it.
        """
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        provider = PROVIDERS[delegate]
        if provider not in onnxruntime.get_available_providers():
            raise InputError(
                f"delegate {delegate!r}",
                f"this ONNX Runtime has no {provider}",
                "Install onnxruntime-gpu",
            )
        options = onnxruntime.SessionOptions()
        if delegate != "cpu":
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        broken = (
            state.Fail,
            state.InvalidArgument,
            state.InvalidGraph,
            state.InvalidProtobuf,
            state.NotImplemented,
            state.RuntimeException,
            UnicodeDecodeError,  # a name, or a message that quotes one
        )
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=[provider])
            inputs, outputs = _describe(session.get_inputs()), _describe(session.get_outputs())
        except broken as error:
            raise ArtifactError(
                str(path), f"ONNX Runtime cannot load it ({error})", "Export it again"
            ) from error
        check_tensors(path, iospec, inputs, outputs)
        got = ",".join(
            provider.removesuffix("ExecutionProvider").lower()
            for provider in session.get_providers()
        )
        if got.split(",")[0] != delegate:
            raise ArtifactError(
                str(path),
                f"ONNX Runtime runs it on {got}, not on {delegate}",
                "See what its log says",
            )
        names = [tensor.name for tensor in iospec.outputs]

        def compute(given: dict[str, Array]) -> dict[str, Array]:
            # It returns when the outputs are in numpy arrays.
            return dict(zip(names, session.run(names, given), strict=True))

        return FunctionRunner(compute, Placement(delegate_asked=delegate, delegate_got=got))


def _describe(tensors: list[Any]) -> dict[str, tuple[tuple[int, ...], str]]:
    return {
        tensor.name: (
            tuple(n if isinstance(n, int) else -1 for n in tensor.shape),
            NUMPY_NAMES.get(tensor.type, tensor.type),
        )
        for tensor in tensors
    }


RUNTIME = OnnxRuntime()
