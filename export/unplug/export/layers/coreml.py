"""Tensors of an ML Program, by our evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unplug.core import Array

from .base import Traced, Tracer


def open_tracer(path: Path) -> Tracer:
    """Reads the program; see `unplug.export.mil`."""
    from ..mil.evaluate import Evaluator
    from ..mil.program import read_program

    evaluator = Evaluator(read_program(path))

    def trace(inputs: Mapping[str, Array]) -> list[Traced]:
        found: list[Traced] = []

        def watch(operation: Any, name: str, value: Any) -> None:
            if value.is_floating_point():
                found.append(Traced(name=name, kind=operation.kind, value=value.float().numpy()))

        evaluator(inputs, watch)
        return found

    return trace
