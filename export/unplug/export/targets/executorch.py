"""ExecuTorch: a program (``.pte``) for PyTorch's own runtime on phones, its operators in XNNPACK;
int8 by torchao's PT2E.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array

from .base import TargetSource

INPUT_NAMES, OUTPUT_NAMES = "input_names", "output_names"
"""Methods of the program that return the names of its tensors in order: the format itself keeps
none.
"""

SMALLEST_SCALE = 2**-12
"""The smallest scale of an activation, as the quantizer's own configuration has it: XNNPACK refuses
smaller ones.
"""


@dataclass(frozen=True)
class ExecuTorch:
    """The method ``forward`` takes and returns float32 tensors in IOSpec order; `INPUT_NAMES` and
    `OUTPUT_NAMES` name them.

    There is no fp16: the delegate stores the weights of convolutions as float32 whatever the model
    has, so a program of half precision is not smaller and loses accuracy for nothing. It computes
    8-bit weights with 8-bit activations only.
    """

    name: str = "executorch"
    suffix: str = ".pte"
    precisions: tuple[str, ...] = ("fp32", "int8-static")
    modules: tuple[str, ...] = ("executorch", "torchao")
    distributions: tuple[str, ...] = ("executorch", "torchao", "torch")
    extra: str = "executorch"
    runtime: str = "executorch"

    def prepare(self, source: TargetSource) -> tuple[Any, TargetSource]:
        """The exported graph, from which both precisions are lowered."""
        import torch

        from .wrappers import Positional, examples

        return torch.export.export(Positional(source), examples(source)), source

    def write(
        self,
        prepared: tuple[Any, TargetSource],
        precision: str,
        path: Path,
        calibration: Mapping[str, Array],
    ) -> None:
        """Lowers the graph to XNNPACK and writes the program."""
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        exported, source = prepared
        graph = static(exported, source, calibration) if precision == "int8-static" else exported
        path.write_bytes(lowered(graph, source, XnnpackPartitioner()).to_executorch().buffer)


def lowered(exported: Any, source: TargetSource, partitioner: Any) -> Any:
    """The program in ExecuTorch's operators, those that the partitioner's delegate takes in its own
    form.

    Args:
        exported: a program from `torch.export.export`.
        source: the source; the program will name its tensors.
        partitioner: the partitioner of a delegate; the portable kernels run what it leaves.
    """
    from executorch.exir import to_edge_transform_and_lower

    names = {
        INPUT_NAMES: [tensor.name for tensor in source.iospec.inputs],
        OUTPUT_NAMES: [tensor.name for tensor in source.iospec.outputs],
    }
    return to_edge_transform_and_lower(exported, partitioner=[partitioner], constant_methods=names)


def static(exported: Any, source: TargetSource, calibration: Mapping[str, Array]) -> Any:
    """The graph with int8 kernels, one scale an output channel, and int8 activations between
    convolutions and sums.

    The head after the trunk stays float, as in the other targets.

    Args:
        exported: fp32.
        source: its inputs name the samples.
        calibration: input name to N samples; they give each activation its range.
    """
    import torch
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from .wrappers import examples

    quantizer = XNNPACKQuantizer()
    for operator in (torch.ops.aten.conv2d.default, torch.ops.aten.add.Tensor):
        quantizer.set_operator_type(operator, _symmetric())
    with _relu6_as_relu():
        observed = prepare_pt2e(exported.module(), quantizer)
    arrays = [calibration[tensor.name] for tensor in source.iospec.inputs]
    with torch.inference_mode():
        for index in range(len(arrays[0])):
            observed(*(torch.from_numpy(np.array(array[index : index + 1])) for array in arrays))
    return torch.export.export(convert_pt2e(observed), examples(source))


def _symmetric() -> Any:
    """Smallest and largest value of each activation over all samples; the quantizer's own
    histograms clip the rare ones.
    """
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e import MinMaxObserver

    config = get_symmetric_quantization_config(is_per_channel=True)
    ranged = replace(
        config.input_activation,
        observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=SMALLEST_SCALE),
    )
    return replace(config, input_activation=ranged, output_activation=ranged)


@contextmanager
def _relu6_as_relu() -> Iterator[None]:
    """The delegate fuses ReLU6 into a convolution as it does ReLU; its quantizer knows the latter
    alone.

    It would round what stands in front of the activation, in steps of its far wider range.
    """
    import torch
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils as theirs

    known, clamps = (
        theirs.is_relu_node,
        (torch.ops.aten.hardtanh.default, torch.ops.aten.hardtanh_.default),
    )
    theirs.is_relu_node = lambda node: known(node) or node.target in clamps
    try:
        yield
    finally:
        theirs.is_relu_node = known


TARGET = ExecuTorch()
