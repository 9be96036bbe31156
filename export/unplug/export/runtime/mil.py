"""Core ML's programs by our own evaluator: on any machine, for numbers only. Its times say nothing
of a phone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Array, IOSpec

from .base import Placement, PythonPackage, Runner, check_tensors


@dataclass(frozen=True)
class MIL(PythonPackage):
    """`unplug.export.mil`: reads the package, computes each operator with torch in the stored
    precision.
    """

    name: str = "mil"
    suffix: str = ".mlpackage"
    modules: tuple[str, ...] = ("torch", "coremltools")
    package: str = "torch"
    extra: str = "coreml"
    delegates: tuple[str, ...] = ("torch",)

    def unavailable(self) -> str | None:
        """It runs wherever torch does."""
        return None

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Reads the program; every operator is known before the first one runs."""
        import torch

        from ..mil.evaluate import Evaluator
        from ..mil.program import read_program

        torch.set_num_threads(threads)
        program = read_program(path)
        inputs = {name: (item.shape, item.dtype) for name, item in program.inputs.items()}
        declared = {
            name: item for operation in program.operations for name, item in operation.outputs
        }
        outputs = {
            name: (declared[name].shape, declared[name].dtype)
            for name in program.outputs
            if name in declared
        }
        check_tensors(path, iospec.inputs, inputs)
        check_tensors(path, iospec.outputs, outputs)
        return _MilRunner(
            Evaluator(program), Placement(delegate_asked=delegate, delegate_got=delegate)
        )


class _MilRunner:
    def __init__(self, evaluator: Any, placement: Placement) -> None:
        self.placement = placement
        self._evaluator = evaluator
        self._inputs: dict[str, Array] = {}
        self._outputs: dict[str, Array] = {}

    def feed(self, inputs: Mapping[str, Array]) -> None:
        self._inputs = dict(inputs)

    def invoke(self) -> None:
        self._outputs = self._evaluator(self._inputs)

    def read(self) -> dict[str, Array]:
        return dict(self._outputs)


RUNTIME = MIL()
