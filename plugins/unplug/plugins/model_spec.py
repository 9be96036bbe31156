"""What the header of a weight file says of it, to any reader of safetensors: Stability AI's
ModelSpec.

Only what follows from the network and its weights: a file of weights that are equal stays equal, so
no date, data or run is among it.

Reference: Stability-AI/ModelSpec 1.0.0.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

WORD = 8
"""Bytes of the header's length; safetensors wants the tensors at a multiple of it."""


def describe_weights(weights: Path, *, architecture: str, title: str, **more: str) -> None:
    """Writes the keys into the header of a safetensors file; its tensors stay where they are.

    Args:
        weights: a file that was just written.
        architecture: name shared by all networks that the same code runs.
        title: one line.
        more: other keys of the specification, say ``resolution``, without their prefix.
    """
    raw = weights.read_bytes()
    start = WORD + int.from_bytes(raw[:WORD], "little")
    header, tensors = json.loads(raw[WORD:start]), memoryview(raw)[start:]
    told = {
        "sai_model_spec": "1.0.0",
        "architecture": architecture,
        "implementation": "unplug-sdk",
        "title": title,
        "hash_sha256": f"0x{hashlib.sha256(tensors).hexdigest()}",
        **more,
    }
    kept = header.pop("__metadata__", {}) | {f"modelspec.{key}": told[key] for key in told}
    words = json.dumps({"__metadata__": dict(sorted(kept.items())), **header}).encode()
    words += b" " * (-len(words) % WORD)
    with weights.open("wb") as file:
        file.writelines((len(words).to_bytes(WORD, "little"), words, tensors))
