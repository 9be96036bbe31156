"""Which decoder a base is drawn with: a quick one where there is one, and never one of other
latents.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import CheckpointError, read_regular
from unplug.plugins import LATENTS, read_config, weights_files

QUICK = "quick_decoder"
"""Its model type."""
OWN = "decoder"
"""The folder of a base's quick decoder."""
AUTOENCODER = "vae"
"""The folder of its autoencoder, which has a decoder as well."""
ASKED_OWN = "autoencoder"
"""What a user says for the autoencoder's decoder."""
READS = ("encoder.", "quant_conv.")
"""Tensors of an autoencoder that decide what a latent means."""
MAX_WEIGHTS = 2**32
FLOATS = {"F32": np.float32, "F16": np.float16, "F64": np.float64}


def decoder_folder(base: Path, asked: str | None = None) -> Path | None:
    """The folder of the quick decoder that a base is drawn with; None is the autoencoder's decoder.

    Args:
        base: a diffusers folder.
        asked: the folder of a quick decoder, `ASKED_OWN`, or None for the quick decoder in the base,
            if it has one.

    Raises:
        CheckpointError: no quick decoder, or one that was trained on the latents of another base.
    """
    folder = base / OWN if asked is None else Path(asked)
    if asked == ASKED_OWN or (asked is None and not folder.is_dir()):
        return None
    reads = read_config(folder, expect=QUICK)[1].get(LATENTS)
    if reads != (own := latents_sha256(base)):
        why = f"it reads other latents ({reads!s:.12}) than this base has ({own:.12})"
        raise CheckpointError(str(folder), why, "Train one for it: `unplug train decoder`")
    return folder


def latents_sha256(base: Path) -> str:
    """What decides the meaning of a base's latents: SHA-256 over the encoder's tensors, as float16, so
    that a copy stored in half is the same base.

    Args:
        base: a diffusers folder.

    Raises:
        CheckpointError: weights that are missing or broken.
    """
    from safetensors import SafetensorError, deserialize

    digest, named = hashlib.sha256(), dict[str, dict[str, Any]]()
    for file in weights_files(base / AUTOENCODER):
        raw = read_regular(file, max_bytes=MAX_WEIGHTS, error=CheckpointError)
        try:
            tensors = deserialize(raw)  # type: ignore[no-untyped-call]
        except (SafetensorError, ValueError) as error:
            fix = "Copy the base again"
            raise CheckpointError(
                str(file), f"not a whole safetensors file: {error}", fix
            ) from error
        named |= {name: value for name, value in tensors if name.startswith(READS)}
    for name, tensor in sorted(named.items()):
        digest.update(name.encode() + str(list(tensor["shape"])).encode())
        digest.update(_halved(tensor).tobytes())
    return digest.hexdigest()


def _halved(tensor: dict[str, Any]) -> NDArray[Any]:
    kind, data = str(tensor["dtype"]), bytes(tensor["data"])
    with np.errstate(over="ignore"):  # beyond float16 it is infinite in every copy
        if kind == "BF16":  # the first half of a float32
            wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
            return wide.view(np.float32).astype(np.float16)
        if kind in FLOATS:
            return np.frombuffer(data, FLOATS[kind]).astype(np.float16)
    return np.frombuffer(data, np.uint8)
