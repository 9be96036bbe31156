"""Core ML: an ML Program (``.mlpackage``) by coremltools; converts on Linux, runs on Apple systems only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .base import Source


@dataclass(frozen=True)
class CoreML:
    """Tensors in and out are float32 multi-arrays with the IOSpec's names; iOS 17 and later."""

    name: str = "coreml"
    suffix: str = ".mlpackage"
    precisions: tuple[str, ...] = ("fp32", "fp16")
    modules: tuple[str, ...] = ("coremltools",)
    distributions: tuple[str, ...] = ("coremltools", "torch")
    extra: str = "coreml"
    runtime: str = "coreml"

    def prepare(self, source: Source) -> tuple[Any, Source]:
        """The exported program in core ATen operators."""
        import torch  # before coremltools: the other order can end in SIGSEGV where tensorflow is installed

        from .wrappers import Positional, examples

        program = torch.export.export(Positional(source), examples(source))
        return program.run_decompositions({}), source

    def write(self, prepared: tuple[Any, Source], precision: str, path: Path) -> None:
        """Converts with every operator in `precision`."""
        import coremltools as ct
        import numpy as np

        program, source = prepared
        inputs, outputs = source.iospec.inputs, source.iospec.outputs
        model = ct.convert(
            program,
            inputs=[ct.TensorType(name=tensor.name, shape=tensor.shape, dtype=np.dtype(tensor.dtype)) for tensor in inputs],
            outputs=[ct.TensorType(name=tensor.name, dtype=np.dtype(tensor.dtype)) for tensor in outputs],
            convert_to="mlprogram",
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=ct.precision.FLOAT16 if precision == "fp16" else ct.precision.FLOAT32,
            skip_model_load=True,
        )
        for tensor in inputs:
            model.input_description[tensor.name] = tensor.description
        for tensor in outputs:
            model.output_description[tensor.name] = tensor.description
        model.save(str(path))


TARGET = CoreML()
