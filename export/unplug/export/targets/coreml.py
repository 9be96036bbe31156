"""Core ML: an ML Program (``.mlpackage``) by coremltools; converts on Linux, runs on Apple systems only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Array

from .base import Source


@dataclass(frozen=True)
class CoreML:
    """Tensors in and out are float32 multi-arrays with the IOSpec's names; for `Source.ios` and later."""

    name: str = "coreml"
    suffix: str = ".mlpackage"
    precisions: tuple[str, ...] = ("fp32", "fp16", "int8-weight", "int8-static", "palette8", "palette6")
    modules: tuple[str, ...] = ("coremltools", "sklearn")
    distributions: tuple[str, ...] = ("coremltools", "torch")
    extra: str = "coreml"
    runtime: str = "coreml"

    def prepare(self, source: Source) -> tuple[Any, Source]:
        """The exported program in core ATen operators."""
        import torch  # before coremltools: the other order can end in SIGSEGV where tensorflow is installed

        from .wrappers import Positional, examples

        program = torch.export.export(Positional(source), examples(source))
        return program.run_decompositions({}), source

    def write(self, prepared: tuple[Any, Source], precision: str, path: Path, calibration: Mapping[str, Array]) -> None:
        """Converts with every operator in `precision`; what has fewer bits computes in float16."""
        import coremltools as ct
        import numpy as np

        from ..quantize import coreml

        _write_relu6_as_such()
        program, source = prepared
        inputs, outputs = source.iospec.inputs, source.iospec.outputs
        model = ct.convert(
            program,
            inputs=[ct.TensorType(name=tensor.name, shape=tensor.shape, dtype=np.dtype(tensor.dtype)) for tensor in inputs],
            outputs=[ct.TensorType(name=tensor.name, dtype=np.dtype(tensor.dtype)) for tensor in outputs],
            convert_to="mlprogram",
            minimum_deployment_target=getattr(ct.target, f"iOS{source.ios}"),
            compute_precision=ct.precision.FLOAT32 if precision == "fp32" else ct.precision.FLOAT16,
            skip_model_load=True,
        )
        if precision == "int8-weight":
            model = coreml.weight_only(model)
        elif precision == "int8-static":
            model = coreml.static(model, calibration)
        elif precision.startswith("palette"):
            model = coreml.palette(model, int(precision.removeprefix("palette")))
        model.short_description = source.description
        for tensor in inputs:
            model.input_description[tensor.name] = tensor.description
        for tensor in outputs:
            model.output_description[tensor.name] = tensor.description
        model.save(str(path))


def _write_relu6_as_such() -> None:
    """For this process: coremltools writes ReLU6 as a clip, which it does not count among a convolution's activations.

    Static int8 then rounds what stands in front of the activation, in steps of its far wider range: 6 dB of every layer.
    """
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.frontend.torch import ops
    from coremltools.converters.mil.frontend.torch.torch_op_registry import register_torch_op

    theirs = ops.hardtanh

    def hardtanh(context: Any, node: Any) -> None:
        x, low, high = ops._get_inputs(context, node, expected=3)
        if (low.val, high.val) == (0.0, 6.0):
            context.add(Builder.relu6(x=x, name=node.name))
        else:
            theirs(context, node)

    register_torch_op(hardtanh, override=True)


TARGET = CoreML()
