"""LoRA weights as an input of an exported UNet: read without torch, laid out as the file's slots are.

Shapes: R rank of the slots, K numbers of one rank-one update of all layers together.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import CheckpointError, InputError, check_content, require_modules

WEIGHTS_NAME = "pytorch_lora_weights.safetensors"
MAX_BYTES = 2**30
_FACTOR = re.compile(r"(?P<layer>.+)\.lora(?:_linear_layer)?[._](?P<side>A|B|down|up)\.weight")
_FIRST = ("A", "down")
_FIX = "Give four-steps, two-steps, or LoRA weights of this base's UNet, as diffusers saves them"


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One layer of the UNet that an update can change: see `unplug.plugins.lora_slots`.

    Args:
        layer: its name in diffusers' UNet.
        fan_in, fan_out: numbers of the two factors of a rank-one update.
    """

    layer: str
    fan_in: int
    fan_out: int


@dataclass(frozen=True, kw_only=True)
class LoraSlots:
    """The low-rank input of a UNet.

    Args:
        rank: R, rows of the input.
        slots: in the order of the columns: of each the first factor's numbers, and behind them the second factor's.
    """

    rank: int
    slots: tuple[Slot, ...]

    @property
    def width(self) -> int:
        """K: how many numbers one rank-one update of all slots together has."""
        return sum(slot.fan_in + slot.fan_out for slot in self.slots)


def pack_loras(slots: LoraSlots, paths: Sequence[Path], strengths: Sequence[float] = ()) -> NDArray[np.float32]:
    """The input (R, K) of some LoRA files: their rank-one updates in rows below each other.

    W' = W + sum over files of strength (alpha / r) B A. A layer that a file leaves alone has zeros.

    Args:
        slots: of the UNet.
        paths: ``.safetensors`` files, or folders that ``save_lora_weights`` or `unplug train student` wrote.
        strengths: a factor for each file; default: 1 each.

    Raises:
        CheckpointError: no such file, no safetensors, layers without a slot, or factors of another shape.
        InputError: ranks that together are more than the slots have, or a strength that is no number.
        MissingExtraError: safetensors is not installed.
    """
    found_RK, row = np.zeros((slots.rank, slots.width), np.float32), 0
    factors = strengths or [1.0] * len(paths)
    for path, strength in zip(paths, factors, strict=True):
        if not math.isfinite(strength):
            raise InputError(f"strength {strength}", "not a number", "Use 1 for the weights as they were trained")
        layers = _read(path, slots)
        rank = max(first.shape[0] for first, _ in layers.values())
        if row + rank > slots.rank:
            why = f"they have {row + rank} ranks together, and the exported UNet has slots for {slots.rank}"
            raise InputError("LoRA weights", why, "Give fewer or smaller ones")
        start = 0
        for slot in slots.slots:
            middle, end = start + slot.fan_in, start + slot.fan_in + slot.fan_out
            if slot.layer in layers:
                first_rI, second_Or = layers[slot.layer]
                rows = slice(row, row + len(first_rI))
                found_RK[rows, start:middle], found_RK[rows, middle:end] = first_rI, np.float32(strength) * second_Or.T
            start = end
        row += rank
    return found_RK


def _read(path: Path, slots: LoraSlots) -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Layer to its factors (r, in) and (out, r), the second times alpha / r."""
    require_modules(("safetensors",), "train")
    from safetensors import SafetensorError, safe_open

    file = path / WEIGHTS_NAME if path.is_dir() else path
    check_content(file, CheckpointError)
    if not file.is_file() or file.suffix != ".safetensors" or file.stat().st_size > MAX_BYTES:
        why = "no such file" if not file.is_file() else "no safetensors file of a LoRA's size"
        raise CheckpointError(str(file), why, _FIX)
    try:
        with safe_open(file, framework="np") as handle:
            tensors = {name: np.asarray(handle.get_tensor(name), np.float32) for name in handle.keys()}  # noqa: SIM118
            metadata = handle.metadata() or {}
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise CheckpointError(str(file), f"it cannot be read ({' '.join(str(error).split())[:150]})", _FIX) from error
    sides: dict[str, dict[str, NDArray[np.float32]]] = {}
    alphas: dict[str, float] = {}
    for name, value in tensors.items():
        if name.endswith(".alpha") and value.size == 1:
            alphas[name.removesuffix(".alpha").removeprefix("unet.")] = float(value.reshape(()))
            continue
        match = _FACTOR.fullmatch(name)
        if match is None:
            raise CheckpointError(str(file), f"{name[:100]!r} is no factor of a low-rank update", _FIX)
        kind = "first" if match["side"] in _FIRST else "second"
        sides.setdefault(match["layer"].removeprefix("unet."), {})[kind] = value
    if not sides:
        raise CheckpointError(str(file), "there is no low-rank update in it", _FIX)
    known = {slot.layer: slot for slot in slots.slots}
    scale = _scale(metadata)
    return {layer: _factors(file, known.get(layer), layer, own, alphas.get(layer), scale) for layer, own in sides.items()}


def _factors(
    file: Path, slot: Slot | None, layer: str, sides: Mapping[str, NDArray[np.float32]], alpha: float | None, scale: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if slot is None:
        raise CheckpointError(str(file), f"it changes {layer[:100]}, for which the exported UNet has no slot", _FIX)
    if sides.keys() != {"first", "second"}:
        raise CheckpointError(str(file), f"of {layer[:100]} it has one factor only", _FIX)
    first, second = sides["first"], sides["second"]
    first_rI, second_Or = first.reshape(len(first), -1), second.reshape(len(second), -1)
    right = first_rI.shape[1] == slot.fan_in and second_Or.shape == (slot.fan_out, len(first_rI)) and len(first_rI) > 0
    if not right or not (np.isfinite(first_rI).all() and np.isfinite(second_Or).all()):
        why = f"its update of {layer[:100]} is {list(first.shape)} and {list(second.shape)}, or not finite"
        raise CheckpointError(str(file), why, _FIX)
    factor = scale if alpha is None else alpha / len(first_rI)
    return first_rI, second_Or * np.float32(factor)


def _scale(metadata: Mapping[str, str]) -> float:
    """alpha / r as newer versions of diffusers write it into the file's header; 1 where nothing is said."""
    try:
        told: Any = json.loads(metadata.get("lora_adapter_metadata", "{}"))
        alpha, rank = told.get("unet.lora_alpha"), told.get("unet.r")
    except (ValueError, AttributeError):
        return 1.0
    numbers = all(isinstance(value, int | float) and value > 0 for value in (alpha, rank))
    return float(alpha) / float(rank) if numbers else 1.0
