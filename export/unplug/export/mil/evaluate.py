"""Evaluates an ML Program with torch.

Every operator computes in float32 from operands in the precision that the program stores, and its
result is rounded to the precision that the program declares for it. Apple's hardware may add up in
another order, and in half precision in half precision: what is checked here is what the file says,
not what a chip makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unplug.core import Array, ArtifactError, UnknownOperatorError

from .ops import OPS, Unknown
from .package import AGAIN
from .program import Argument, Name, Operation, Program, TensorType, last_uses

HALF, FLOAT = torch.float16, torch.float32
BROKEN = (
    RuntimeError,
    TypeError,
    ValueError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    NotImplementedError,
)
"""What torch raises where an operator's arguments do not fit."""
ELSEWHERE = "Run it on macOS, or export a model without it"
Watch = Callable[[Operation, str, Tensor], None]
"""Called with an operator, the name of one of its outputs, and its value."""


class Evaluator:
    """One program, ready to run.

    Args:
        program: a program from `read_program`.

    Raises:
        UnknownOperatorError: an operator that is not known here; names all of them.

    Example:
        >>> from pathlib import Path
        >>> two, x = TensorType(dtype="float32", shape=(2,)), (Name("x"),)
        >>> double = Operation(kind="add", name="double", arguments={"x": x, "y": x}, outputs=(("y", two),))
        >>> program = Program(path=Path("x"), inputs={"x": two}, outputs=("y",), constants={}, operations=(double,))
        >>> Evaluator(program)({"x": np.ones(2, np.float32)})["y"].tolist()
        [2.0, 2.0]
    """

    def __init__(self, program: Program) -> None:
        unknown = sorted({operation.kind for operation in program.operations} - OPS.keys())
        if unknown:
            first = next(operation for operation in program.operations if operation.kind in unknown)
            why = f"operator {', '.join(unknown)} cannot be evaluated here (first: {first})"
            raise UnknownOperatorError(str(program.path), why, ELSEWHERE)
        self.program = program
        self._constants = {
            name: value if isinstance(value, str) else tensor_of(value)
            for name, value in program.constants.items()
        }
        self._drop: dict[int, list[str]] = {}
        for index, name in last_uses(program):
            self._drop.setdefault(index, []).append(name)

    @torch.inference_mode()
    def __call__(self, inputs: Mapping[str, Array], watch: Watch | None = None) -> dict[str, Array]:
        """Runs it.

        Args:
            inputs: name to array, of the declared types and shapes.
            watch: told of every value as it is computed.

        Raises:
            UnknownOperatorError: an operator whose arguments are not known here.
            ArtifactError: an operator that does not compute, or gives another type or shape than
                the program declares.
        """
        values: dict[str, Any] = dict(self._constants)
        for name, declared in self.program.inputs.items():
            if (
                name not in inputs
                or TensorType(dtype=inputs[name].dtype.name, shape=inputs[name].shape) != declared
            ):
                raise ArtifactError(
                    str(self.program.path), f"its input {name!r} is a {declared}", "Give that"
                )
            values[name] = torch.from_numpy(np.array(inputs[name]))
        for index, operation in enumerate(self.program.operations):
            for (name, declared), value in zip(
                operation.outputs, self._compute(operation, values), strict=True
            ):
                values[name] = self._declared(operation, declared, value)
                if watch is not None:
                    watch(operation, name, values[name])
            for name in self._drop.get(index, ()):
                values.pop(name, None)
        return {name: values[name].numpy() for name in self.program.outputs}

    def _compute(self, operation: Operation, found: Mapping[str, Any]) -> tuple[Tensor, ...]:
        try:
            arguments = {
                key: self._given(given, found) for key, given in operation.arguments.items()
            }
            result = OPS[operation.kind](**arguments)
        except Unknown as error:
            why = f"{operation} cannot be evaluated here ({error})"
            raise UnknownOperatorError(str(self.program.path), why, ELSEWHERE) from error
        except BROKEN as error:
            text = (
                f"cannot find {error}"
                if isinstance(error, KeyError)
                else " ".join(str(error).split())[:300]
            )
            raise ArtifactError(
                str(self.program.path), f"{operation} does not compute ({text})", AGAIN
            ) from error
        values = result if isinstance(result, tuple) else (result,)
        if len(values) != len(operation.outputs):
            why = (
                f"{operation} gives {len(values)} tensors where {len(operation.outputs)} are "
                "declared"
            )
            raise ArtifactError(str(self.program.path), why, AGAIN)
        return values

    def _given(self, given: tuple[Argument, ...], found: Mapping[str, Any]) -> Any:
        values = [self._value(item, found) for item in given]
        return values[0] if len(values) == 1 else values

    def _value(self, item: Argument, found: Mapping[str, Any]) -> Any:
        value = found[item.name] if isinstance(item, Name) else item
        if isinstance(value, np.ndarray):
            value = tensor_of(value)
        return value.float() if isinstance(value, Tensor) and value.dtype == HALF else value

    def _declared(self, operation: Operation, declared: TensorType, value: Tensor) -> Tensor:
        if declared.dtype == "float16" and value.dtype == FLOAT:
            value = value.half()
        got = TensorType(dtype=str(value.dtype).removeprefix("torch."), shape=tuple(value.shape))
        if got != declared:
            raise ArtifactError(
                str(self.program.path),
                f"{operation} gives {got} where {declared} is declared",
                AGAIN,
            )
        return value


def tensor_of(value: Array) -> Tensor:
    """A constant as a tensor of its own memory: a weight file's bytes cannot be written to, and
    torch warns of that.
    """
    return torch.from_numpy(np.array(value))
