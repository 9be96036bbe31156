"""ExecuTorch's runtime on this machine's CPU, with XNNPACK and the portable kernels, as its Python
package has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, ArtifactError, IOSpec

from ..targets.executorch import INPUT_NAMES, OUTPUT_NAMES
from .base import Placement, PythonPackage, Runner, Tensors, check_tensors

BACKENDS = {"xnnpack": "XnnpackBackend"}
TYPES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    11: "bool",
}
"""The format's numbers of element types."""


@dataclass(frozen=True)
class ExecuTorchRuntime(PythonPackage):
    """Loads a program as an app does; the delegates were chosen when it was exported."""

    name: str = "executorch"
    suffix: str = ".pte"
    modules: tuple[str, ...] = ("executorch.extension.pybindings.portable_lib",)
    package: str = "executorch"
    extra: str = "executorch"
    delegates: tuple[str, ...] = tuple(BACKENDS)

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Loads the program and its method ``forward``.

        Raises:
            ArtifactError: it is broken, was lowered to a backend that is not there, or is not what
                its card says.
        """
        from executorch.extension.pybindings import portable_lib as package

        from ..pte import read_calls

        calls = read_calls(path)
        if strange := sorted(set(calls.delegates) - {BACKENDS[delegate]}):
            why = (
                f"it was lowered to {' and '.join(name[:200] for name in strange)}, which runs on "
                "phones alone"
            )
            raise ArtifactError(str(path), why, "Export it to the target executorch")
        package._unsafe_reset_threadpool(threads)
        try:
            program = package._load_program(
                str(path), program_verification=package.Verification.InternalConsistency
            )
            method = program.load_method("forward")
            inputs, outputs = _describe(program, method.method_meta())
        except (RuntimeError, IndexError) as error:
            raise ArtifactError(
                str(path), f"ExecuTorch cannot load it ({error})", "Export it again"
            ) from error
        check_tensors(path, iospec, inputs, outputs)
        kernels = len(calls.operators)
        placement = Placement(
            delegate_asked=delegate,
            delegate_got=delegate if calls.delegates else "none",
            left=calls.operators,
            nodes_delegated=calls.delegated,
            nodes_total=None if calls.delegated is None else calls.delegated + kernels,
            partitions=len(calls.delegates),
        )
        return _ExecuTorchRunner(program, method, iospec, placement)


def _describe(program: Any, meta: Any) -> tuple[Tensors, Tensors]:
    """Inputs and outputs as the program names them and its method needs them."""

    def side(method: str, count: int, info: Any) -> Tensors:
        names = program.load_method(method).call(())
        if len(names) != count:
            raise RuntimeError(f"{method} names {len(names)} tensors of {count}")
        metas = [info(index) for index in range(count)]
        return {
            str(name)[:200]: (tuple(meta.sizes()), TYPES.get(meta.dtype(), str(meta.dtype())))
            for name, meta in zip(names, metas, strict=True)
        }

    return (
        side(INPUT_NAMES, meta.num_inputs(), meta.input_tensor_meta),
        side(OUTPUT_NAMES, meta.num_outputs(), meta.output_tensor_meta),
    )


class _ExecuTorchRunner:
    def __init__(self, program: Any, method: Any, iospec: IOSpec, placement: Placement) -> None:
        self.placement = placement
        # the method reads the program's memory
        self._program, self._method, self._iospec = program, method, iospec
        self._inputs: list[Any] = []

    def feed(self, inputs: Mapping[str, Array]) -> None:
        import torch

        # np.array copies: torch warns about memory that it could not write to.
        self._inputs = [
            torch.from_numpy(np.array(inputs[tensor.name])) for tensor in self._iospec.inputs
        ]
        self._method.set_inputs(self._inputs)

    def invoke(self) -> None:
        self._method.execute()

    def read(self) -> dict[str, Array]:
        return {
            tensor.name: value.numpy()
            for tensor, value in zip(
                self._iospec.outputs, self._method.get_outputs(clone_outputs=True), strict=True
            )
        }


RUNTIME = ExecuTorchRuntime()
