"""Exported files timed in turn, in a process that holds their runtime alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

WARM = 3


def race(
    files: Mapping[str, str], target: str, threads: int, shape: tuple[int, ...], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each file's runs, which take turns.

    Args:
        files: name to path, of one target.
        target: litert or onnx.
        threads: the runtime's CPU threads.
        shape: the dimensions of the one input, whose numbers are drawn.
        rounds: runs of each that count.
    """
    opened = {
        name: (_litert if target == "litert" else _onnx)(path, threads)
        for name, path in files.items()
    }
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    seconds: dict[str, list[float]] = {name: [] for name in files}
    for turn in range(rounds + WARM):
        for name, run in opened.items():
            started = time.perf_counter()
            run(x)
            if turn >= WARM:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def _litert(path: str, threads: int) -> Callable[[Any], Any]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(path, num_threads=threads)
    interpreter.allocate_tensors()
    (into,), (out,) = interpreter.get_input_details(), interpreter.get_output_details()

    def run(x: Any) -> Any:
        interpreter.set_tensor(into["index"], x)
        interpreter.invoke()
        return interpreter.get_tensor(out["index"])

    return run


def _onnx(path: str, threads: int) -> Callable[[Any], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (into,) = session.get_inputs()
    return lambda x: session.run(None, {into.name: x})
