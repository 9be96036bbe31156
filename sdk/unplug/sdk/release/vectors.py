"""Test vectors: inputs and expected outputs with which a device checks itself before use.

Inputs are procedural faces, never pictures of people, so that a bundle carries nobody's photograph.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unplug.export import reference_outputs
from unplug.plugins.checkpoint import Checkpoint
from unplug.plugins.files import write_json
from unplug.sdk.inputs import example_inputs

SCHEMA = "unplug-vectors/1"
COUNT = 4


def write_vectors(checkpoint: Checkpoint, folder: Path) -> None:
    """Writes ``vectors.json`` and one raw little-endian float32 file per tensor and sample.

    Args:
        checkpoint: its outputs are the expected ones.
        folder: an existing folder.
    """
    iospec = checkpoint.model.iospec
    inputs = example_inputs(checkpoint.model_type, iospec, COUNT)
    outputs = reference_outputs(checkpoint.path, iospec, inputs).outputs
    samples = []
    for number in range(COUNT):
        tensors: dict[str, Any] = {}
        for kind, specs, arrays in (("inputs", iospec.inputs, inputs), ("outputs", iospec.outputs, outputs)):
            tensors[kind] = {}
            for spec in specs:
                name = f"{number}-{spec.name}.f32"
                (folder / name).write_bytes(arrays[spec.name][number].astype("<f4").tobytes())
                tensors[kind][spec.name] = {"file": name, "shape": list(spec.shape), "dtype": "float32-le"}
        samples.append(tensors)
    write_json(folder / "vectors.json", {"schema": SCHEMA, "samples": samples})
