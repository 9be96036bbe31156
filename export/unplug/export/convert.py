"""The child's side of an export: loads the checkpoint, prepares once, writes every precision of one
target.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from unplug.core import Array, InputError, Job, Reply

from .precisions import looks_at_samples
from .targets import TARGETS
from .targets.base import TargetSource
from .tensors import check_inputs, relaid

SAMPLES = 32
"""Samples that correct biases, in one pass. More were measured to give no better ones: 32 and 512
faces of UTKFace left 0.01 of the 0.08 years that rounding had added to the error of a "small" age
predictor.
"""


def convert_checkpoint(job: Job) -> Reply:
    """Converts ``values["checkpoint"]`` to one target; the files land in the folder
    ``values["staging"]``.
    """
    started = time.perf_counter()
    from unplug.plugins import load_checkpoint

    from .bias_correction import LEVELS, plain
    from .file_facts import file_facts
    from .lowering import in_words, prepared
    from .targets.wrappers import channels_last

    checkpoint = load_checkpoint(job.values["checkpoint"], view=job.values["view"])
    layout = job.values["layout"]
    shipped = checkpoint.model.iospec.images_in(layout)
    source = TargetSource(
        model=plain(checkpoint.model),
        iospec=checkpoint.model.iospec,
        model_type=checkpoint.model_type,
        description=(inspect.getdoc(type(checkpoint.model)) or "").partition("\n")[0],
        facts=file_facts(checkpoint, shipped),
        ios=job.values["ios"],
    )
    if job.arrays:
        check_inputs(source.iospec, job.arrays)
    target = TARGETS.get(job.values["target"])
    precisions = job.values["precisions"]
    job.progress(0, len(precisions), f"{target.name}: converting")
    flops, parameters = count_work(source)
    calibration = relaid(source.iospec.inputs, job.arrays, shipped.inputs)
    ready: dict[bool, Any] = {}
    correction: dict[str, Any] = {}
    prepare_seconds, written = 0.0, list[dict[str, Any]]()
    for index, precision in enumerate(precisions):
        rounds = bool(job.arrays) and looks_at_samples([precision])
        began = time.perf_counter()
        with in_words(f"export to {target.name} {precision}"):
            if rounds not in ready:
                made = source
                if rounds:
                    made, correction = corrected_source(
                        source, job.arrays, getattr(target, "kernel_levels", LEVELS)
                    )
                ready[rounds] = prepared(target, channels_last(made) if layout == "NHWC" else made)
                prepare_seconds += time.perf_counter() - (began if written else started)
                began = time.perf_counter()
            file = f"{source.model_type}.{precision}{target.suffix}"
            target.write(ready[rounds], precision, Path(job.values["staging"]) / file, calibration)
        seconds = time.perf_counter() - began
        written.append({"precision": precision, "file": file, "seconds": seconds})
        job.progress(index + 1, len(precisions), f"{target.name} {precision}")
    values = {
        "model_type": checkpoint.model_type,
        "checkpoint_sha256": checkpoint.sha256,
        "iospec": shipped.to_dict(),
        "flops": flops,
        "parameters": parameters,
        "correction": correction,
        "prepare_seconds": prepare_seconds,
        "written": written,
    }
    return Reply(values=values)


def corrected_source(
    source: TargetSource, calibration: Mapping[str, Array], levels: int
) -> tuple[TargetSource, dict[str, Any]]:
    """The model with biases that make up for int8 kernels of `levels`, and what `Calibrated` says
    of them.
    """
    import numpy as np
    import torch

    from .bias_correction import corrected

    inputs = [
        torch.from_numpy(np.array(calibration[tensor.name][:SAMPLES]))
        for tensor in source.iospec.inputs
    ]
    made = corrected(source.model, inputs, levels)
    told = {"corrected": len(made.layers), "uncorrected": made.left}
    return replace(source, model=made.model), told


def count_work(source: TargetSource) -> tuple[int, int]:
    """Floating-point operations of one forward pass, and the parameters that take part in it.

    PyTorch counts the former in convolutions and matrix products. A decoder's checkpoint holds an
    encoder too.

    Raises:
        InputError: outputs of other shapes than the IOSpec says; those that depend on numbers would
            go through some converters.
    """
    import torch

    from .flops import flop_counter
    from .targets.wrappers import examples

    counter, used = flop_counter(), dict[int, int]()

    def note(module: torch.nn.Module, _given: Any, _output: Any) -> None:
        used.update({id(tensor): tensor.numel() for tensor in module.parameters(recurse=False)})

    handles = [module.register_forward_hook(note) for module in source.model.modules()]
    try:
        with torch.inference_mode(), counter:
            made = source.iospec.name_outputs(source.model(*examples(source)))
    finally:
        for handle in handles:
            handle.remove()
    for tensor in source.iospec.outputs:
        if (shape := tuple(made[tensor.name].shape)) != tensor.shape:
            why = (
                f"its output {tensor.name} came out as {list(shape)}, and its IOSpec says "
                f"{list(tensor.shape)}"
            )
            raise InputError(
                f"model of type {source.model_type}",
                why,
                "Only models of static shapes can be exported",
            )
    return int(counter.get_total_flops()), sum(used.values())
