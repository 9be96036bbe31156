"""ML Programs in fewer bits, by coremltools.optimize."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unplug.core import Array

INTEGER = ("conv", "add")
"""Operators between whose int8 tensors a chip may fuse; the head stays in half precision, as in LiteRT."""


def weight_only(model: Any) -> Any:
    """Stores each kernel and matrix as int8, one scale an output channel."""
    import coremltools.optimize.coreml as cto

    config = cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8", granularity="per_channel", weight_threshold=0)
    return cto.linear_quantize_weights(model, cto.OptimizationConfig(global_config=config))


def palette(model: Any, bits: int) -> Any:
    """Stores each kernel and matrix as indices into a table of 2^bits values, found by k-means."""
    import coremltools.optimize.coreml as cto

    config = cto.OpPalettizerConfig(mode="kmeans", nbits=bits, weight_threshold=0)
    return cto.palettize_weights(model, cto.OptimizationConfig(global_config=config))


def static(model: Any, calibration: Mapping[str, Array]) -> Any:
    """int8 kernels, and int8 activations between `INTEGER` operators.

    coremltools' own function runs the model to find the ranges, which works on macOS alone (and keeps those of the last sample
    only). Here our evaluator finds them, and coremltools' passes take them.

    Args:
        model: an `MLModel`.
        calibration: input name to N samples; they give each activation its range.
    """
    import coremltools.optimize.coreml as cto
    from coremltools.optimize.coreml import _post_training_quantization as theirs

    found, own = _ranges(model, calibration), theirs._get_activation_calibration_stats
    config = cto.OpLinearQuantizerConfig(mode="linear", weight_threshold=0)
    kinds = cto.OptimizationConfig(op_type_configs=dict.fromkeys(INTEGER, config))
    theirs._get_activation_calibration_stats = lambda *_: found
    try:
        model = cto.experimental.linear_quantize_activations(model, kinds, [])
    finally:
        theirs._get_activation_calibration_stats = own
    return weight_only(model)


def _ranges(model: Any, calibration: Mapping[str, Array]) -> dict[str, dict[str, float]]:
    """Smallest and largest value of every tensor over all samples."""
    from ..mil.evaluate import Evaluator
    from ..mil.program import read_program

    found: dict[str, dict[str, float]] = {}

    def see(name: str, low: float, high: float) -> None:
        row = found.setdefault(name, {"rmin": low, "rmax": high})
        row["rmin"], row["rmax"] = min(row["rmin"], low), max(row["rmax"], high)

    with tempfile.TemporaryDirectory(prefix="unplug-coreml-") as folder:
        path = Path(folder) / "model.mlpackage"
        model.save(str(path))
        evaluator = Evaluator(read_program(path))
    for index in range(len(next(iter(calibration.values())))):
        sample = {name: array[index : index + 1] for name, array in calibration.items()}
        for name, array in sample.items():
            see(name, float(array.min()), float(array.max()))
        evaluator(sample, lambda _operation, name, value: see(name, float(value.min()), float(value.max())))
    return found
