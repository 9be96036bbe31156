"""LiteRT: ``.tflite`` by litert-torch, without TensorFlow; fewer bits by ai-edge-quantizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Array

from .base import TargetSource
from .flatbuffer import float_outputs

SIGNATURE = "serving_default"
"""The converter's name of a file's one signature."""


@dataclass(frozen=True)
class LiteRT:
    """The file's `SIGNATURE` has the names, shapes and layouts of the IOSpec."""

    name: str = "litert"
    suffix: str = ".tflite"
    precisions: tuple[str, ...] = ("fp32", "fp16", "int8-weight", "int8-static", "int8-dynamic")
    modules: tuple[str, ...] = ("litert_torch", "ai_edge_litert", "ai_edge_quantizer")
    distributions: tuple[str, ...] = (
        "litert-torch",
        "litert-converter",
        "ai-edge-litert",
        "ai-edge-quantizer",
        "torch",
    )
    extra: str = "litert"
    runtime: str = "litert"

    def prepare(self, source: TargetSource) -> tuple[bytes, TargetSource]:
        """The fp32 flatbuffer, from which every other precision is made."""
        import litert_torch

        from .wrappers import ByName, examples

        names = (tensor.name for tensor in source.iospec.inputs)
        keywords = dict(zip(names, examples(source), strict=True))
        edge: Any = litert_torch.convert(ByName(source), sample_kwargs=keywords)
        return bytes(edge.model_content()), source

    def write(
        self,
        prepared: tuple[bytes, TargetSource],
        precision: str,
        path: Path,
        calibration: Mapping[str, Array],
    ) -> None:
        """Writes the flatbuffer, quantized, with short names and metadata."""
        from .flatbuffer import compact
        from .litert_metadata import described

        fp32, source = prepared
        made = {
            "fp32": lambda: fp32,
            "fp16": lambda: half(fp32),
            "int8-weight": lambda: weight_only(fp32),
            "int8-static": lambda: static(fp32, calibration),
            "int8-dynamic": lambda: dynamic(fp32),
        }
        small = compact(made[precision]())
        path.write_bytes(described(small, source))


KERNELS = ("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D_TRANSPOSE")
"""Operators whose weights `weight_only` stores as int8."""
INTEGER = ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "PAD")
"""Operators that compute in int8 after `static`: the trunk. What follows it (pooling, the
classifier, the softmax and the mean over ages) is a thousandth of the arithmetic and was measured
to cost 10 dB of the logits and 30 dB of the age in int8.
"""


def half(flatbuffer: bytes) -> bytes:
    """Stores kernels and matrices as float16 after dequantize operators.

    XNNPACK unpacks them once, when it loads the file: half the bytes, the arithmetic of fp32 or of
    the device's fp16.
    """
    from ai_edge_quantizer import qtyping, quantizer
    from ai_edge_quantizer.algorithm_manager import AlgorithmName

    worker = quantizer.Quantizer(bytearray(flatbuffer))
    worker.update_quantization_recipe(
        regex=".*",
        operation_name=qtyping.TFLOperationName.ALL_SUPPORTED,
        algorithm_key=AlgorithmName.FLOAT_CASTING,
        op_config=qtyping.OpQuantizationConfig(
            weight_tensor_config=qtyping.TensorQuantizationConfig(
                num_bits=16, dtype=qtyping.TensorDataType.FLOAT
            ),
            compute_precision=qtyping.ComputePrecision.FLOAT,
            explicit_dequantize=True,
        ),
    )
    return bytes(worker.quantize(enable_progress_report=False).quantized_model)


def weight_only(flatbuffer: bytes) -> bytes:
    """Stores kernels as int8, one scale an output channel; arithmetic in fp32.

    Matrices stay as they are: the GPU delegate refuses one with a scale for each output (2.3.0:
    "Shape mismatch").
    """
    return _quantized(flatbuffer, _recipe("add_weight_only_config", KERNELS, num_bits=8))


def dynamic(flatbuffer: bytes) -> bytes:
    """int8 kernels and matrices; activations are measured and rounded to int8 at each run."""
    from ai_edge_quantizer import recipe

    return _quantized(flatbuffer, recipe.dynamic_wi8_afp32())


def static(flatbuffer: bytes, calibration: Mapping[str, Array]) -> bytes:
    """int8 kernels and activations in `INTEGER` operators; inputs and outputs of the file stay
    float32.

    Args:
        flatbuffer: fp32.
        calibration: input name to N samples; they give each activation its range.
    """
    recipe = _recipe("add_static_config", INTEGER, activation_num_bits=8, weight_num_bits=8)
    return float_outputs(_quantized(flatbuffer, recipe, calibration))


def _recipe(add: str, operators: Sequence[str], **bits: int) -> Any:
    from ai_edge_quantizer import qtyping, recipe_manager
    from ai_edge_quantizer.algorithm_manager import AlgorithmName

    manager = recipe_manager.RecipeManager()
    for name in operators:
        getattr(manager, add)(
            regex=".*",
            operation_name=qtyping.TFLOperationName(name),
            algorithm_key=AlgorithmName.MIN_MAX_UNIFORM_QUANT,
            **bits,
        )
    return manager.get_quantization_recipe()


def _quantized(
    flatbuffer: bytes, recipe: Any, calibration: Mapping[str, Array] | None = None
) -> bytes:
    from ai_edge_quantizer import quantizer

    worker = quantizer.Quantizer(bytearray(flatbuffer), recipe)
    ranges = None if calibration is None else _ranges(flatbuffer, recipe, calibration)
    return bytes(worker.quantize(ranges, enable_progress_report=False).quantized_model)


def _ranges(flatbuffer: bytes, recipe: Any, calibration: Mapping[str, Array]) -> Any:
    """Smallest and largest value of each activation over all samples.

    Not the quantizer's own moving average: it forgets the first samples and clips the others, and
    was measured to cost up to 10 dB, the more the fewer samples there are.
    """
    from ai_edge_quantizer import calibrator, recipe_manager
    from ai_edge_quantizer.utils import qsv_utils

    manager = recipe_manager.RecipeManager()
    manager.load_quantization_recipe(recipe)
    count = len(next(iter(calibration.values())))
    samples = [
        {name: array[n : n + 1] for name, array in calibration.items()} for n in range(count)
    ]
    worker = calibrator.Calibrator(
        bytearray(flatbuffer), num_threads=1, qsv_update_func=qsv_utils.min_max_update
    )
    worker.calibrate({SIGNATURE: samples}, manager)
    return worker.get_model_qsvs()


TARGET = LiteRT()
