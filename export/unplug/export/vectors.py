"""Test vectors: how inputs and the outputs expected of them lie in a folder, for a device that
checks itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unplug.core import Array, IOSpec

SCHEMA = "unplug-vectors/1"
INDEX = "vectors.json"


def vector_name(sample: int, tensor: str) -> str:
    """File of one tensor of one sample.

    Example:
        >>> vector_name(0, "image")
        '0-image.f32'
    """
    return f"{sample}-{tensor}.f32"


def vector_bytes(array: Array) -> bytes:
    """Raw little-endian float32, row by row."""
    return np.ascontiguousarray(array, "<f4").tobytes()


def vectors_index(iospec: IOSpec, samples: int) -> dict[str, Any]:
    """What `INDEX` says: the file and the shape of every tensor of every sample.

    Args:
        iospec: the model's.
        samples: how many there are.
    """

    def side(sample: int, kind: str) -> dict[str, Any]:
        return {
            spec.name: {
                "file": vector_name(sample, spec.name),
                "shape": list(spec.shape),
                "dtype": "float32-le",
            }
            for spec in getattr(iospec, kind)
        }

    rows = [
        {kind: side(sample, kind) for kind in ("inputs", "outputs")} for sample in range(samples)
    ]
    return {"schema": SCHEMA, "samples": rows}
