"""Results of a leaderboard are bound to weights: each names those that it was measured on, and
those that it was made from.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from unplug.core import InputError
from unplug.sdk.evidence.fleet import Result

WEIGHT = "weight/"
"""Begins the names of the tensors in a result that are a model's weights: originals keep theirs."""
AGAIN = "Remove it and run again"
SHA256 = re.compile("[0-9a-f]{64}")


def arrays_of(model: nn.Module) -> dict[str, NDArray[Any]]:
    """The weights and buffers of a network by name, on the CPU."""
    return {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}


def weights_of(result: Result) -> dict[str, NDArray[Any]]:
    """The weights that a result keeps, by their names in the network; empty where it keeps none."""
    return {
        name.removeprefix(WEIGHT): value
        for name, value in result.tensors.items()
        if name.startswith(WEIGHT)
    }


def weights_sha256(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over names, types, shapes and numbers of a network's tensors, sorted by name.

    Example:
        >>> one = {"a": np.zeros(2, np.float32), "b": np.ones(1, np.float32)}
        >>> weights_sha256(one) == weights_sha256(dict(reversed(one.items()))) != weights_sha256({"a": one["a"]})
        True
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}\0{value.dtype.str}\0{arrays[name].shape}\0".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def bound_sha256(result: Result, name: str, original_sha256: str | None = None) -> str:
    """SHA-256 of the weights that a result describes, as it says itself.

    Args:
        result: of a training or of an unlearning run.
        name: of its job, for messages.
        original_sha256: of the original that it must have been made from; None asks for none.

    Raises:
        InputError: it names no weights, keeps others than it names, or was made from another
            original.
    """
    claimed = result.facts.get("weights_sha256")
    if not isinstance(claimed, str) or not SHA256.fullmatch(claimed):
        raise InputError(f"result {name}", "it does not say which weights it describes", AGAIN)
    kept = weights_of(result)
    if kept and (digest := weights_sha256(kept)) != claimed:
        raise InputError(
            f"result {name}",
            f"it describes other weights ({claimed:.12}) than it keeps ({digest:.12})",
            AGAIN,
        )
    if original_sha256 is not None and result.facts.get("original_sha256") != original_sha256:
        raise InputError(
            f"result {name}", "it was made from another original than the one in this folder", AGAIN
        )
    return claimed
