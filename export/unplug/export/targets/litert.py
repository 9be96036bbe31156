"""LiteRT: ``.tflite`` by litert-torch, without TensorFlow; fewer bits by ai-edge-quantizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Array

from .base import Source

SIGNATURE = "serving_default"
"""The converter's name of a file's one signature."""


@dataclass(frozen=True)
class LiteRT:
    """The file's `SIGNATURE` has the names, shapes and layouts of the IOSpec."""

    name: str = "litert"
    suffix: str = ".tflite"
    precisions: tuple[str, ...] = ("fp32", "fp16", "int8-weight", "int8-static", "int8-dynamic")
    modules: tuple[str, ...] = ("litert_torch", "ai_edge_litert", "ai_edge_quantizer")
    distributions: tuple[str, ...] = ("litert-torch", "litert-converter", "ai-edge-litert", "ai-edge-quantizer", "torch")
    extra: str = "litert"
    runtime: str = "litert"

    def prepare(self, source: Source) -> tuple[bytes, Source]:
        """The fp32 flatbuffer, from which every other precision is made."""
        import litert_torch

        from .wrappers import ByName, examples

        names = (tensor.name for tensor in source.iospec.inputs)
        keywords = dict(zip(names, examples(source), strict=True))
        edge: Any = litert_torch.convert(ByName(source), sample_kwargs=keywords)
        return bytes(edge.model_content()), source

    def write(self, prepared: tuple[bytes, Source], precision: str, path: Path, calibration: Mapping[str, Array]) -> None:
        """Writes the flatbuffer, quantized, with short names and metadata."""
        from ..quantize import litert
        from ..quantize.flatbuffer import compact
        from .litert_metadata import described

        fp32, source = prepared
        made = {
            "fp32": lambda: fp32,
            "fp16": lambda: litert.half(fp32),
            "int8-weight": lambda: litert.weight_only(fp32),
            "int8-static": lambda: litert.static(fp32, calibration),
            "int8-dynamic": lambda: litert.dynamic(fp32),
        }
        small = compact(made[precision]())
        path.write_bytes(described(small, source.iospec, source.model_type, source.description))


TARGET = LiteRT()
