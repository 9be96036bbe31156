"""An erased base for export: its map goes into the text encoder's own file, so that a phone fetches
that small file again and keeps the UNet that it has.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from unplug.core import read_json, write_json
from unplug.sdk.drawing.diffusion import write_pipeline

from .run_erasure import MAP, original_of
from .text_map import load_map


def write_mapped(base: Path, folder: Path) -> None:
    """Writes the base before its erasure with I + B A after the text encoder, for our exporter
    alone: transformers would leave the map out.

    Args:
        base: an erased base whose edit is a map.
        folder: an empty one.

    Raises:
        CheckpointError: see `original_of` and `load_map`.
    """
    original, _ = original_of(str(base), torch.device("cpu"))
    edit = load_map(base / MAP, original.text_encoder)
    write_pipeline(original, folder, half=False)
    place = folder / "text_encoder"
    config = read_json(place / "config.json")
    write_json(place / "config.json", config | {"text_map_rank": len(edit.first_rD)})
    tensors = load_file(place / "model.safetensors")
    tensors["text_map.first.weight"] = edit.first_rD.float()
    tensors["text_map.second.weight"] = edit.second_Dr.float()
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
