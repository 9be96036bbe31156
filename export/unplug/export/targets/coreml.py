"""Core ML: an ML Program (``.mlpackage``) by coremltools; converts on Linux, runs on Apple systems
only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Array, ConversionError, UnknownOperatorError, temporary_folder

from .base import TargetSource


@dataclass(frozen=True)
class CoreML:
    """Tensors in and out are float32 multi-arrays with the IOSpec's names; for `TargetSource.ios`
    and later.
    """

    name: str = "coreml"
    suffix: str = ".mlpackage"
    precisions: tuple[str, ...] = (
        "fp32",
        "fp16",
        "int8-weight",
        "int8-static",
        "palette8",
        "palette6",
    )
    modules: tuple[str, ...] = ("coremltools", "sklearn")
    distributions: tuple[str, ...] = ("coremltools", "torch")
    extra: str = "coreml"
    runtime: str = "coreml"

    def prepare(self, source: TargetSource) -> tuple[Any, TargetSource]:
        """The exported program in core ATen operators."""
        # before coremltools: the other order can end in SIGSEGV where tensorflow is installed
        import torch

        from ..lowering import lowered
        from .wrappers import Positional, examples

        program = torch.export.export(Positional(source), examples(source))
        from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY

        return lowered(program, lambda name: _TORCH_OPS_REGISTRY.get_func(name) is not None), source

    def write(
        self,
        prepared: tuple[Any, TargetSource],
        precision: str,
        path: Path,
        calibration: Mapping[str, Array],
    ) -> None:
        """Converts with every operator in `precision`; what has fewer bits computes in float16."""
        import coremltools as ct
        import numpy as np

        from ..lowering import converted

        _write_relu6_as_such()
        program, source = prepared
        inputs, outputs = source.iospec.inputs, source.iospec.outputs

        def convert(graph: Any) -> Any:
            return ct.convert(
                graph,
                inputs=[
                    ct.TensorType(
                        name=tensor.name, shape=tensor.shape, dtype=np.dtype(tensor.dtype)
                    )
                    for tensor in inputs
                ],
                outputs=[
                    ct.TensorType(name=tensor.name, dtype=np.dtype(tensor.dtype))
                    for tensor in outputs
                ],
                convert_to="mlprogram",
                minimum_deployment_target=getattr(ct.target, f"iOS{source.ios}"),
                compute_precision=ct.precision.FLOAT32
                if precision == "fp32"
                else ct.precision.FLOAT16,
                skip_model_load=True,
            )

        model = converted(convert, program, f"export to {self.name} {precision}")
        if precision == "int8-weight":
            model = weight_only(model)
        elif precision == "int8-static":
            model = static(model, calibration)
        elif precision.startswith("palette"):
            model = palette(model, int(precision.removeprefix("palette")))
        model.short_description = source.description
        model.user_defined_metadata.update(source.facts)
        for tensor in inputs:
            model.input_description[tensor.name] = tensor.description
        for tensor in outputs:
            model.output_description[tensor.name] = tensor.description
        model.save(str(path))


def _write_relu6_as_such() -> None:
    """For this process: coremltools writes ReLU6 as a clip, which it does not count among a
    convolution's activations.

    Static int8 then rounds what stands in front of the activation, in steps of its far wider range:
    6 dB of every layer.
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


INTEGER = ("conv", "add")
"""Operators between whose int8 tensors a chip may fuse; the head stays in half precision, as in
LiteRT.
"""


def weight_only(model: Any) -> Any:
    """Stores each kernel and matrix as int8, one scale an output channel."""
    import coremltools.optimize.coreml as cto

    config = cto.OpLinearQuantizerConfig(
        mode="linear_symmetric", dtype="int8", granularity="per_channel", weight_threshold=0
    )
    return cto.linear_quantize_weights(model, cto.OptimizationConfig(global_config=config))


def palette(model: Any, bits: int) -> Any:
    """Stores each kernel and matrix as indices into a table of 2^bits values, found by k-means."""
    import coremltools.optimize.coreml as cto

    config = cto.OpPalettizerConfig(mode="kmeans", nbits=bits, weight_threshold=0)
    return cto.palettize_weights(model, cto.OptimizationConfig(global_config=config))


def static(model: Any, calibration: Mapping[str, Array]) -> Any:
    """int8 kernels, and int8 activations between `INTEGER` operators.

    coremltools' own function runs the model to find the ranges, which works on macOS alone (and
    keeps those of the last sample only). Here our evaluator finds them, and coremltools' passes
    take them.

    Args:
        model: an `MLModel`.
        calibration: input name to N samples; they give each activation its range.
    """
    import coremltools.optimize.coreml as cto
    from coremltools.optimize.coreml import _post_training_quantization as theirs

    try:
        ranges = _ranges(model, calibration)
    except UnknownOperatorError as error:
        why = f"activations get their ranges from our evaluator, and {error.why}"
        raise ConversionError(
            "export to coreml int8-static", why, "Use int8-weight, or another target"
        ) from error
    kept = theirs._get_activation_calibration_stats
    config = cto.OpLinearQuantizerConfig(mode="linear", weight_threshold=0)
    kinds = cto.OptimizationConfig(op_type_configs=dict.fromkeys(INTEGER, config))
    theirs._get_activation_calibration_stats = lambda *_: ranges
    try:
        model = cto.experimental.linear_quantize_activations(model, kinds, [])
    finally:
        theirs._get_activation_calibration_stats = kept
    return weight_only(model)


def _ranges(model: Any, calibration: Mapping[str, Array]) -> dict[str, dict[str, float]]:
    """Smallest and largest value of every tensor over all samples."""
    from ..mil.evaluate import Evaluator
    from ..mil.program import read_program

    ranges: dict[str, dict[str, float]] = {}

    def see(name: str, low: float, high: float) -> None:
        row = ranges.setdefault(name, {"rmin": low, "rmax": high})
        row["rmin"], row["rmax"] = min(row["rmin"], low), max(row["rmax"], high)

    with temporary_folder("unplug-coreml-") as folder:
        path = folder / "model.mlpackage"
        model.save(str(path))
        evaluator = Evaluator(read_program(path))
    for index in range(len(next(iter(calibration.values())))):
        sample = {name: array[index : index + 1] for name, array in calibration.items()}
        for name, array in sample.items():
            see(name, float(array.min()), float(array.max()))
        evaluator(
            sample,
            lambda _operation, name, value: see(name, float(value.min()), float(value.max())),
        )
    return ranges


TARGET = CoreML()
