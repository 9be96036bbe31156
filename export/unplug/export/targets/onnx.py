"""ONNX: by PyTorch's own exporter, static batch of one; float16 inside with float32 at the edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Array

from .base import Source

OPSET = 18  # the exporter's own; newer ones are converted from it, older runtimes lose nothing


@dataclass(frozen=True)
class Onnx:
    """Graph inputs and outputs have the IOSpec's names; one file, no external data."""

    name: str = "onnx"
    suffix: str = ".onnx"
    precisions: tuple[str, ...] = ("fp32", "fp16", "int8-static")
    modules: tuple[str, ...] = ("onnx", "onnxscript", "onnxruntime")
    distributions: tuple[str, ...] = ("onnx", "onnxscript", "onnxruntime", "torch")
    extra: str = "onnx"
    runtime: str = "onnx"

    def prepare(self, source: Source) -> Any:
        """The fp32 graph."""
        import torch

        from .wrappers import Positional, examples

        program = torch.onnx.export(
            Positional(source),
            examples(source),
            dynamo=True,
            opset_version=OPSET,
            input_names=[tensor.name for tensor in source.iospec.inputs],
            output_names=[tensor.name for tensor in source.iospec.outputs],
            verbose=False,
        )
        if program is None:
            raise TypeError("torch.onnx.export returned no program")
        proto = clean(program.model_proto)
        proto.graph.doc_string = source.description
        sides = (proto.graph.input, source.iospec.inputs), (proto.graph.output, source.iospec.outputs)
        for item, tensor in (pair for side in sides for pair in zip(*side, strict=True)):
            item.doc_string = tensor.description
        return proto

    def write(self, prepared: Any, precision: str, path: Path, calibration: Mapping[str, Array]) -> None:
        """Writes the graph, and checks it."""
        import onnx

        from ..quantize import onnx as quantize

        made = {
            "fp32": lambda: prepared,
            "fp16": lambda: quantize.half(prepared),
            "int8-static": lambda: quantize.static(prepared, calibration),
        }
        graph = made[precision]()
        onnx.checker.check_model(graph, full_check=True)
        onnx.save(graph, str(path))


def clean(proto: Any) -> Any:
    """Drops the exporter's notes: they hold source paths of the machine that exported, and change from run to run."""
    del proto.metadata_props[:]
    del proto.graph.metadata_props[:]
    for item in (*proto.graph.node, *proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        del item.metadata_props[:]
        item.doc_string = ""
    return proto


TARGET = Onnx()
