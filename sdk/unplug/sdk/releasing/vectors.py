"""Test vectors: inputs and expected outputs with which a device checks itself before use.

Inputs are procedural faces, never pictures of people, so that a bundle carries nobody's photograph.
"""

from __future__ import annotations

from pathlib import Path

from unplug.core import write_json
from unplug.export import INDEX, reference_outputs, vector_bytes, vector_name, vectors_index
from unplug.plugins import Checkpoint
from unplug.sdk.conditions import example_inputs

COUNT = 4


def write_vectors(checkpoint: Checkpoint, folder: Path) -> None:
    """Writes the index and one file a tensor and sample.

    Args:
        checkpoint: its outputs are the expected ones.
        folder: an existing folder.
    """
    iospec = checkpoint.model.iospec
    inputs = example_inputs(checkpoint.model_type, iospec, COUNT)
    outputs = reference_outputs(checkpoint.path, iospec, inputs).outputs
    for name, array in {**inputs, **outputs}.items():
        for number in range(COUNT):
            (folder / vector_name(number, name)).write_bytes(vector_bytes(array[number]))
    write_json(folder / INDEX, vectors_index(iospec, COUNT))
