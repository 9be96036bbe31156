"""Test vectors: inputs and expected outputs with which a device checks itself before use.

Inputs are procedural faces, never pictures of people, so that a bundle carries nobody's photograph.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.export import reference_outputs
from unplug.plugins.checkpoint import Checkpoint
from unplug.plugins.files import write_json
from unplug.sdk.data import load_dataset

SCHEMA = "unplug-vectors/1"
COUNT = 4


def synthetic_inputs(image_size: int, count: int, seed: int = 20231) -> dict[str, NDArray[np.float32]]:
    """Procedural faces as the model's ``image`` input: (count, 3, H, W) in [0, 1]."""
    dataset = load_dataset(f"synth:n={count},subjects={count},seed={seed}", image_size, show=False)
    pixels = dataset.pixels(range(count)).astype(np.float32) / np.float32(255.0)
    return {"image": np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))}


def write_vectors(checkpoint: Checkpoint, folder: Path) -> None:
    """Writes ``vectors.json`` and one raw little-endian float32 file per tensor and sample.

    Args:
        checkpoint: its outputs are the expected ones.
        folder: an existing folder.
    """
    iospec = checkpoint.model.iospec
    inputs = synthetic_inputs(checkpoint.model.image_size, COUNT)
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
