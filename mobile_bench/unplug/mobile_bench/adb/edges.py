"""Order and inner names of a LiteRT file's inputs and outputs: the benchmark tool knows no
signatures.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Job, Reply, call_in_child, memory_for, require_modules, seconds_for


@dataclass(frozen=True)
class Edge:
    """One input or output: its name in the IOSpec, its tensor's in the file, shape and numpy type."""

    name: str
    tensor: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Edges:
    """All of them, in the interpreter's order."""

    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]


def read_edges(path: Path) -> Edges:
    """Reads a file in a child process.

    Raises:
        MissingExtraError: LiteRT is not installed.
        ConversionError: reading the file ended the child process.
    """
    require_modules(("ai_edge_litert.interpreter",), "run")
    told = call_in_child(
        "unplug.mobile_bench.adb.edges:describe",
        {"path": str(path)},
        what=f"reading {path.name}",
        timeout=seconds_for(1),
        memory=memory_for(path),
    ).values
    sides = [
        [Edge(name, tensor, tuple(shape), dtype) for name, tensor, shape, dtype in told[side]]
        for side in told
    ]
    return Edges(inputs=tuple(sides[0]), outputs=tuple(sides[1]))


def describe(job: Job) -> Reply:
    """What the child process answers: the names and shapes at the edges of a model."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(job.values["path"])
    interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner()

    def listed(
        details: list[dict[str, Any]], signature: dict[str, Any]
    ) -> list[tuple[str, str, list[int], str]]:
        names = {int(item["index"]): name for name, item in signature.items()}
        return [
            (
                names[int(item["index"])],
                item["name"],
                [int(side) for side in item["shape"]],
                np.dtype(item["dtype"]).name,
            )
            for item in details
        ]

    return Reply(
        values={
            "inputs": listed(interpreter.get_input_details(), runner.get_input_details()),
            "outputs": listed(interpreter.get_output_details(), runner.get_output_details()),
        }
    )
