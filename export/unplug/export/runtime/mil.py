"""Core ML's programs by our own evaluator: on any machine, for numbers only. Its times say nothing
of a phone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unplug.core import IOSpec

from .base import FunctionRunner, Placement, PythonPackage, Runner, check_tensors


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

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Reads the program; every operator is known before the first one runs."""
        import torch

        from ..mil.evaluate import Evaluator
        from ..mil.program import read_program

        torch.set_num_threads(threads)
        program = read_program(path)
        inputs = {name: (item.shape, item.dtype) for name, item in program.inputs.items()}
        outputs = {
            name: (declared.shape, declared.dtype)
            for operation in program.operations
            for name, declared in operation.outputs
            if name in program.outputs
        }
        check_tensors(path, iospec, inputs, outputs)
        placement = Placement(delegate_asked=delegate, delegate_got=delegate)
        return FunctionRunner(Evaluator(program), placement)


RUNTIME = MIL()
