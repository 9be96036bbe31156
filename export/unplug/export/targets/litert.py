"""LiteRT: ``.tflite`` by litert-torch, without TensorFlow; float16 weights by ai-edge-quantizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .base import Source


@dataclass(frozen=True)
class LiteRT:
    """Signature ``serving_default`` whose input and output names are the IOSpec's; inputs keep the NCHW layout."""

    name: str = "litert"
    suffix: str = ".tflite"
    precisions: tuple[str, ...] = ("fp32", "fp16")
    modules: tuple[str, ...] = ("litert_torch", "ai_edge_litert", "ai_edge_quantizer")
    distributions: tuple[str, ...] = ("litert-torch", "litert-converter", "ai-edge-litert", "ai-edge-quantizer", "torch")
    extra: str = "litert"
    runtime: str = "litert"

    def prepare(self, source: Source) -> bytes:
        """The fp32 flatbuffer, from which every other precision is made."""
        import litert_torch

        from .wrappers import ByName, examples

        names = (tensor.name for tensor in source.iospec.inputs)
        keywords = dict(zip(names, examples(source), strict=True))
        edge: Any = litert_torch.convert(ByName(source), sample_kwargs=keywords)
        return bytes(edge.model_content())

    def write(self, prepared: bytes, precision: str, path: Path) -> None:
        """Writes the flatbuffer, with its weights cast for fp16."""
        path.write_bytes(prepared if precision == "fp32" else cast_weights(prepared))


def cast_weights(flatbuffer: bytes) -> bytes:
    """Stores convolution and matrix weights as float16 behind dequantize operators.

    XNNPACK unpacks them once, when it loads the file: half the bytes, the arithmetic of fp32 or of the device's fp16.
    """
    from ai_edge_quantizer import qtyping, quantizer
    from ai_edge_quantizer.algorithm_manager import AlgorithmName

    worker = quantizer.Quantizer(bytearray(flatbuffer))
    worker.update_quantization_recipe(
        regex=".*",
        operation_name=qtyping.TFLOperationName.ALL_SUPPORTED,
        algorithm_key=AlgorithmName.FLOAT_CASTING,
        op_config=qtyping.OpQuantizationConfig(
            weight_tensor_config=qtyping.TensorQuantizationConfig(num_bits=16, dtype=qtyping.TensorDataType.FLOAT),
            compute_precision=qtyping.ComputePrecision.FLOAT,
            explicit_dequantize=True,
        ),
    )
    return bytes(worker.quantize().quantized_model)


TARGET = LiteRT()
