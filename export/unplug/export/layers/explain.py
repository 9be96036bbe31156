"""Layer by layer, where an artifact leaves its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from unplug.core import STRICT, Array, IOSpec, Job, Reply, call_in_child, memory_for
from unplug.plugins import view_of

from ..artifact import Artifact
from ..precisions import PRECISIONS
from ..session import run_values
from ..tensors import check_inputs, relaid
from .tracers import TRACERS

SCHEMA: Literal["unplug-layers/1"] = "unplug-layers/1"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of the checkpoint and the tensor of the artifact that holds its numbers.

    Args:
        layer, layer_kind: the checkpoint's layer and its kind.
        tensor, operator: the artifact's tensor and its operator.
        psnr_db: the PSNR of the tensor against the layer, over all samples; None where they are
            equal.
        max_abs_error: the largest error over all samples.
        within: whether it reaches the tolerance of the artifact's precision.
    """

    layer: str
    layer_kind: str
    tensor: str
    operator: str
    psnr_db: float | None
    max_abs_error: float
    within: bool


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """All layers of one artifact that were found.

    Args:
        schema: always ``unplug-layers/1``.
        file, artifact_sha256, target, precision, checkpoint_sha256: the file explained, and the
            checkpoint.
        samples: the number of samples that were run.
        threshold_db: the tolerance.
        layers: the layers in the order in which the checkpoint computes them.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-layers/1"] = SCHEMA
    file: str
    artifact_sha256: str
    target: str
    precision: str
    checkpoint_sha256: str
    samples: int
    threshold_db: float
    layers: tuple[Layer, ...]

    @property
    def first(self) -> Layer | None:
        """The first layer out of tolerance."""
        return next((item for item in self.layers if not item.within), None)

    def __str__(self) -> str:
        if not self.layers:
            return f"{self.file}: no layer of the checkpoint has a tensor of its shape in it"
        if self.first is None:
            worst = min(
                self.layers, key=lambda item: np.inf if item.psnr_db is None else item.psnr_db
            )
            lowest = (
                "all exact"
                if worst.psnr_db is None
                else f"the lowest is {worst.layer} with {worst.psnr_db:.1f} dB"
            )
            return (
                f"{self.file}: all {len(self.layers)} layers stay above {self.threshold_db:g} dB; "
                f"{lowest}"
            )
        first = self.first
        where = f"operator {first.operator} ({first.tensor}), layer {first.layer}"
        return f"{self.file}: first below {self.threshold_db:g} dB: {where}, {first.psnr_db:.1f} dB"


def explain(artifact: Artifact, checkpoint: Path, inputs: Mapping[str, Array]) -> Explanation:
    """Runs an artifact and its checkpoint side by side, tensor by tensor.

    The artifact runs on reference kernels that keep every tensor, so its last digits may differ
    from those of a delegate.

    Args:
        artifact: an artifact whose target is in TRACERS.
        checkpoint: the folder.
        inputs: name to array of N samples in the artifact's layout; a handful is enough.

    Raises:
        InputError: no tracer for this target, or a wrong input.
        ArtifactError, CheckpointError: a broken file.
        ConversionError: the runtime crashed.

    Reference:
        TensorFlow's quantization debugger compares a file with its float twin in the same way; it
        runs LiteRT files only.
    """
    TRACERS.get(artifact.card.target)
    check_inputs(artifact.card.iospec, inputs)
    threshold = PRECISIONS.get(artifact.card.precision).min_psnr_db
    values = {
        **run_values(artifact),
        "checkpoint": str(Path(checkpoint).resolve()),
        "target": artifact.card.target,
        "view": view_of(artifact.card.model_type),
    }
    what = f"layers of {artifact.path.name}"
    traced = call_in_child(
        "unplug.export.layers.explain:trace_both",
        values,
        inputs,
        what=what,
        memory=memory_for(artifact.path, Path(checkpoint)),
    ).values
    return Explanation(
        file=artifact.path.name,
        artifact_sha256=artifact.card.sha256,
        target=artifact.card.target,
        precision=artifact.card.precision,
        checkpoint_sha256=traced["checkpoint_sha256"],
        samples=len(next(iter(inputs.values()))),
        threshold_db=threshold,
        layers=tuple(
            Layer(**item, within=item["psnr_db"] is None or item["psnr_db"] >= threshold)
            for item in traced["layers"]
        ),
    )


def trace_both(job: Job) -> Reply:
    """The child's side of `explain`: one sample at a time, so that its memory is that of one run."""
    import torch

    from unplug.plugins import load_checkpoint

    from .align import EXACT_DB, Nearness, align
    from .tracers import trace_checkpoint

    torch.set_num_threads(1)
    values = job.values
    checkpoint = load_checkpoint(values["checkpoint"], view=values["view"])
    shipped, model_spec = IOSpec.from_dict(values["iospec"]), checkpoint.model.iospec
    trace, tracer = (
        trace_checkpoint(checkpoint.model, model_spec),
        TRACERS.get(values["target"])(Path(values["path"])),
    )
    near = Nearness()
    layers, tensors = list[Any](), list[Any]()
    for index in range(len(next(iter(job.arrays.values())))):
        sample = {name: np.array(array[index : index + 1]) for name, array in job.arrays.items()}
        given = relaid(shipped.inputs, sample, model_spec.inputs)
        arrays = tuple(
            torch.from_numpy(np.ascontiguousarray(given[item.name])) for item in model_spec.inputs
        )
        layers, tensors = trace(arrays), list(tracer(sample))
        near.add([item.value for item in layers], [item.value for item in tensors])
    ratios = near.psnr_db()
    rows = [
        {
            "layer": layers[row].name,
            "layer_kind": layers[row].kind,
            "tensor": tensors[column].name,
            "operator": tensors[column].kind,
            "psnr_db": None
            if ratios[row, column] >= EXACT_DB
            else max(float(ratios[row, column]), -EXACT_DB),
            "max_abs_error": near.max_abs_error(row, column),
        }
        for row, column in align(ratios)
    ]
    return Reply(values={"checkpoint_sha256": checkpoint.sha256, "layers": rows})
