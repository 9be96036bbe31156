"""LoRA weights as an input of an exported UNet: read without torch, laid out as the file's slots
are.

Shapes: R rank of the slots, K numbers of one rank-one update of all layers together.
"""

from __future__ import annotations

import functools
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
MAX_PATTERNS = 1024
MAX_RANK = 1024
"""Of an update, in the mean over all layers: a file is read only where a base of this size can have
use for it.
"""
MAX_CHANGE = 1e30
"""Of a weight, before the sums are taken: float32 would run over in them."""
UNET, TEXT_ENCODER = "unet", "text_encoder"
Pieces = dict[str, NDArray[np.float32]]
Layers = Mapping[str, Mapping[str, tuple[int, int]]]
"""Part to layer to the numbers of a rank-one update's two factors; a text encoder's layers without
"text_model.".
"""
_FIX = "Give four-steps, two-steps, or LoRA weights of this base's UNet, as diffusers saves them"
_MERGE = "Make it part of the base that it was trained on: `unplug export BASE --lora FILE`"
_PIECE = re.compile(
    r"(?P<layer>.+?)(?:[._]lora(?:_linear_layer)?[._](?P<side>A|B|down|up)\.weight"
    r"|\.(?P<other>alpha|dora_scale|lora_magnitude_vector(?:\.weight)?))"
)
_SIDES = {"A": "first", "down": "first", "B": "second", "up": "second", "alpha": "alpha"}
_PREFIXES = {
    "unet.": UNET,
    "text_encoder.": TEXT_ENCODER,
    "lora_unet_": UNET,
    "lora_te_": TEXT_ENCODER,
}
"""In front of layers: diffusers', and kohya's, which has _ for the dots behind it; without one it
is the UNet.
"""
_OLDER = {"to_q": "q_proj", "to_k": "k_proj", "to_v": "v_proj", "to_out": "out_proj"}
"""A text encoder's layers, as diffusers named them at first."""
_KINDS = {
    r"hada_": "LoHa (LyCORIS)",
    r"lokr_": "LoKr (LyCORIS)",
    r"lora_mid\.": "LoCon with a core (LyCORIS)",
    r"\.b?oft_": "OFT",
    r"on_input|ia3_": "IA3",
    r"\.diff(_b)?$": "differences of whole weights",
    r"lora_(B|up)\.bias$": "a LoRA with biases",
    r"lora_embedding_": "a LoRA of an embedding",
    r"^transformer\.|double_blocks|single_blocks": "a LoRA of a transformer, not of a UNet",
    r"^lora_te[12]_|^text_encoder_2\.": "a LoRA of Stable Diffusion XL",
    r"(input|middle|output)_blocks?_": "a LoRA in the names of the original Stable Diffusion",
    r"^base_model\.model\.": "a LoRA in peft's own names",
    r"^emb_params$|^<.*>$|^string_to_": "a learned word (textual inversion)",
}
"""What other weights' names have in them, and what those are."""
_UNCHANGED = (None, True, False, "gaussian", "orthogonal", "eva")
"""Ways in which peft starts a LoRA that leave the base as it is."""
_PATTERN = re.compile(r"(?!(.*[*+]){4})\^?([\w-]|\\?\.|\.\*|\\d\+){1,200}\$?")
"""Layers in a rank or alpha pattern: any text, but no expression that takes forever."""


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
        slots: in the order of the columns: of each the first factor's numbers, and behind them the
            second factor's.
    """

    rank: int
    slots: tuple[Slot, ...]

    @property
    def width(self) -> int:
        """K: how many numbers one rank-one update of all slots together has."""
        return sum(slot.fan_in + slot.fan_out for slot in self.slots)


def pack_loras(
    slots: LoraSlots, paths: Sequence[Path], strengths: Sequence[float] = ()
) -> NDArray[np.float32]:
    """The input (R, K) of some LoRA files: their rank-one updates in rows below each other.

    W' = W + sum over files of strength s B A, with s as `read_lora` finds it. A layer that a file
    leaves alone has zeros.

    Args:
        slots: of the UNet.
        paths: ``.safetensors`` files, or folders that ``save_lora_weights`` or `unplug train
            student` wrote.
        strengths: a factor for each file; default: 1 each.

    Raises:
        CheckpointError: no such file, no safetensors, layers without a slot, or factors of another
            shape.
        InputError: ranks that together are more than the slots have, or a strength that is no
            number.
        MissingExtraError: safetensors is not installed.
    """
    found_RK, row = np.zeros((slots.rank, slots.width), np.float32), 0
    known = {UNET: {slot.layer: (slot.fan_in, slot.fan_out) for slot in slots.slots}}
    factors = strengths or [1.0] * len(paths)
    for path, strength in zip(paths, factors, strict=True):
        if not math.isfinite(strength):
            raise InputError(
                f"strength {strength}", "not a number", "Use 1 for the weights as they were trained"
            )
        layers = _slotted(path, known)
        rank = max(len(update.first_rI) for update in layers.values())
        if row + rank > slots.rank:
            why = (
                f"they have {row + rank} ranks together, and the exported UNet has slots for "
                f"{slots.rank}"
            )
            raise InputError("LoRA weights", why, "Give fewer or smaller ones")
        start = 0
        for slot in slots.slots:
            middle, end = start + slot.fan_in, start + slot.fan_in + slot.fan_out
            if slot.layer in layers:
                update = layers[slot.layer]
                rows = slice(row, row + len(update.first_rI))
                found_RK[rows, start:middle] = update.first_rI
                found_RK[rows, middle:end] = (
                    np.float32(strength * update.scale) * update.second_Or.T
                )
            start = end
        row += rank
    return found_RK


def _slotted(path: Path, known: Layers) -> dict[str, LowRank]:
    """Layer to its update; `CheckpointError` where a file's slots cannot take it."""
    updates = read_lora(path, known, "the exported UNet", lacks="no slot", fix=_MERGE)
    if any(update.magnitude is not None for update in updates.values()):
        raise CheckpointError(
            str(path), "it is a DoRA, for which the exported UNet has no input", _MERGE
        )
    return {layer: update for (_, layer), update in updates.items()}


@dataclass(frozen=True, kw_only=True)
class LowRank:
    """The update of one layer: W' = W + s B A; of a DoRA that, each row scaled to the length that
    `magnitude` says.

    Args:
        first_rI: A, flat behind its first axis.
        second_Or: B.
        scale: s, which is alpha / r, or of rsLoRA alpha / sqrt(r).
        magnitude: O lengths, or None.

    Reference:
        Hu et al., LoRA, 2021; Kalajdzievski, rsLoRA, 2023; Liu et al., DoRA, 2024, equation 5.
    """

    first_rI: NDArray[np.float32]
    second_Or: NDArray[np.float32]
    scale: float
    magnitude: NDArray[np.float32] | None = None


def lora_file(weights: Path) -> Path:
    """The file of LoRA weights: of a folder the one that diffusers names."""
    return weights / WEIGHTS_NAME if weights.is_dir() else weights


def read_lora(
    path: Path, layers: Layers, of: str, *, lacks: str = "no layer", fix: str = _FIX
) -> dict[tuple[str, str], LowRank]:
    """Part and layer to update, as diffusers reads them: its own names, older ones, and kohya's.

    s is alpha / r, with alpha as the file's header (with its patterns, and rsLoRA) or its tensors
    say; else 1.

    Args:
        path: a ``.safetensors`` file, or a folder that ``save_lora_weights`` wrote.
        layers: that can be changed.
        of: what has them, for messages.
        lacks: what it lacks where a layer is none of them.
        fix: what to do then.

    Raises:
        CheckpointError: no such file, no safetensors, another kind of weights, or some that do not
            fit the layers.
        MissingExtraError: safetensors is not installed.
    """
    file = lora_file(path)
    numbers = MAX_RANK * sum(sum(sizes) for part in layers.values() for sizes in part.values())
    tensors, metadata = _tensors(file, numbers)
    pieces = _pieces(file, tensors, layers)
    unknown = sorted(layer for part, layer in pieces if layer not in layers.get(part, {}))
    if unknown:
        why = f"{len(pieces) - len(unknown)} of its {len(pieces)} low-rank updates fit {of}"
        raise CheckpointError(
            str(file), f"{why}: it changes {unknown[0][:100]}, for which there is {lacks}", fix
        )
    scales = _scales(file, metadata, pieces)
    return {
        (part, layer): _update(file, layer, own, layers[part][layer], scales[part, layer])
        for (part, layer), own in pieces.items()
    }


def _pieces(
    file: Path, tensors: Mapping[str, NDArray[np.float32]], layers: Layers
) -> dict[tuple[str, str], Pieces]:
    """Part and layer to first and second factor, alpha and magnitude, of those that it has."""
    pieces: dict[tuple[str, str], Pieces] = {}
    for name, value in tensors.items():
        kind = next((kind for words, kind in _KINDS.items() if re.search(words, name)), None)
        if kind is not None:
            raise CheckpointError(str(file), f"it is {kind}, which is not read here", _FIX)
        match = _PIECE.fullmatch(name)
        if match is None or not value.size:
            raise CheckpointError(
                str(file), f"{name[:100]!r} is no factor of a low-rank update", _FIX
            )
        piece = _SIDES.get(match["side"] or match["other"], "magnitude")
        pieces.setdefault(_place(match["layer"], layers), {})[piece] = np.atleast_1d(value)
    if not pieces:
        raise CheckpointError(str(file), "there is no low-rank update in it", _FIX)
    return pieces


def _tensors(file: Path, most: int) -> tuple[dict[str, NDArray[np.float32]], dict[str, str]]:
    """All tensors of a file in float32, bfloat16 among them, which NumPy does not know; and its
    header's words.

    A file of more than `most` numbers is refused by its header.
    """
    require_modules(("safetensors",), "train")
    from safetensors import SafetensorError, deserialize, safe_open

    check_content(file, CheckpointError)
    if not file.is_file() or file.suffix != ".safetensors" or file.stat().st_size > MAX_BYTES:
        why = "no such file" if not file.is_file() else "no safetensors file of a LoRA's size"
        raise CheckpointError(
            str(file),
            why,
            f"Only safetensors are read: a pickle can run code. {_FIX}" if file.is_file() else _FIX,
        )
    types = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}
    tensors = {}
    try:
        with safe_open(file, framework="np") as handle:
            metadata = handle.metadata() or {}
            count = sum(math.prod(handle.get_slice(name).get_shape()) for name in handle.keys())  # noqa: SIM118 (no mapping)
        if count > most:
            why = (
                f"it has {count:,} numbers, and updates of rank {MAX_RANK} of all layers have "
                f"{most:,}"
            )
            raise CheckpointError(str(file), why, _FIX)
        for name, stored in deserialize(file.read_bytes()):  # type: ignore[no-untyped-call]
            if stored["dtype"] == "BF16":
                values = (np.frombuffer(stored["data"], "<u2").astype(np.uint32) << 16).view(
                    np.float32
                )
            else:
                with np.errstate(over="ignore"):  # infinities are told with their layer
                    values = np.frombuffer(stored["data"], types[stored["dtype"]]).astype(
                        np.float32
                    )
            tensors[name] = values.reshape(stored["shape"])
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            str(file), f"it cannot be read ({' '.join(str(error).split())[:150]})", _FIX
        ) from error
    return tensors, metadata


def _place(name: str, layers: Layers) -> tuple[str, str]:
    """Part and layer that a name in a file means."""
    prefix, part = next(
        ((start, part) for start, part in _PREFIXES.items() if name.startswith(start)), ("", UNET)
    )
    layer = name.removeprefix(prefix).replace(".processor.", ".")
    layer = re.sub(r"\.to_out$", ".to_out.0", layer)
    if part == TEXT_ENCODER:
        layer = re.sub(r"^text_model[._]", "", layer)
        head, _, last = layer.removesuffix(".0").rpartition(".")
        layer = f"{head}.{_OLDER[last]}" if last in _OLDER else layer
    if prefix.endswith(
        "_"
    ):  # kohya's: dots are lost, and found again among the layers that there are
        flat = {known.replace(".", "_"): known for known in layers.get(part, {})}
        layer = flat.get(layer, layer)
    return part, layer


def _update(file: Path, layer: str, own: Pieces, sizes: tuple[int, int], scale: float) -> LowRank:
    if not {"first", "second"} <= own.keys():
        raise CheckpointError(str(file), f"of {layer[:100]} it has one factor only", _FIX)
    first, second = own["first"], own["second"]
    first_rI, second_Or = first.reshape(len(first), -1), second.reshape(len(second), -1)
    fits = (
        first_rI.shape[1] == sizes[0]
        and second_Or.shape == (sizes[1], len(first_rI))
        and len(first_rI) > 0
    )
    if not fits or not all(np.isfinite(value).all() for value in own.values()):
        why = (
            f"its update of {layer[:100]} is {list(first.shape)} and {list(second.shape)}, or not "
            "finite"
        )
        raise CheckpointError(str(file), why, _FIX)
    peak = float(abs(first_rI).max()) * float(abs(second_Or).max()) * abs(scale) * len(first_rI)
    if not max(peak, float(abs(second_Or).max()) * abs(scale)) < MAX_CHANGE:
        raise CheckpointError(
            str(file), f"its update of {layer[:100]} runs over what a weight can be", _FIX
        )
    magnitude = own.get("magnitude")
    if magnitude is not None and magnitude.shape not in (
        (sizes[1],),
        (sizes[1], 1),
        (sizes[1], 1, 1, 1),
        (1, sizes[1], 1, 1),
    ):
        why = f"the DoRA of {layer[:100]} scales other axes than a row ({list(magnitude.shape)})"
        raise CheckpointError(str(file), why, _FIX)
    return LowRank(
        first_rI=first_rI,
        second_Or=second_Or,
        scale=scale,
        magnitude=None if magnitude is None else magnitude.ravel(),
    )


def _scales(
    file: Path, metadata: Mapping[str, str], pieces: Mapping[tuple[str, str], Pieces]
) -> dict[tuple[str, str], float]:
    """s of every layer: by the header that diffusers writes, or by tensors named alpha, as kohya
    does: 1 without one.
    """
    told = _told(file, metadata)
    if any(told.values()) and any("alpha" in factors for factors in pieces.values()):
        raise CheckpointError(
            str(file),
            "its header and its tensors both say alpha",
            "Save it again, with one of the two",
        )
    if any(
        told[part].get("use_dora") and "magnitude" not in factors
        for (part, _), factors in pieces.items()
    ):
        raise CheckpointError(
            str(file),
            "its header says that it is a DoRA, and it has no magnitudes",
            "Save it again",
        )
    scales = {}
    for place, factors in pieces.items():
        rank = max(1, len(factors.get("first", ())))
        alpha = factors.get("alpha", np.zeros(0)).ravel()
        told_scale = _told_scale(file, told[place[0]], place[1], rank)
        scales[place] = float(alpha[0]) / rank if alpha.size else told_scale
    return scales


def _told(file: Path, metadata: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Part to what the header says of its LoRA; `CheckpointError` where that is more than an update
    of weights.
    """
    try:
        flat: Any = json.loads(metadata.get("lora_adapter_metadata", "{}"))
        facts = [
            (part, name, value)
            for key, value in flat.items()
            for part, _, name in [key.partition(".")]
        ]
    except (ValueError, AttributeError) as error:
        raise CheckpointError(
            str(file), "its header's lora_adapter_metadata is broken", _FIX
        ) from error
    configs: dict[str, dict[str, Any]] = {UNET: {}, TEXT_ENCODER: {}}
    for part, name, value in facts:
        configs.setdefault(part, {})[name] = value
    for config in configs.values():
        start = config.get("init_lora_weights")
        if start not in _UNCHANGED or config.get("lora_bias"):
            why = (
                "it has biases"
                if config.get("lora_bias")
                else f"it starts as {str(start)[:40]!r}, which changes the base as well"
            )
            raise CheckpointError(str(file), f"its header says that {why}", _FIX)
    return configs


def _told_scale(file: Path, config: Mapping[str, Any], layer: str, rank: int) -> float:
    """alpha / r, or alpha / sqrt(r), as peft computes it; patterns name layers by their last parts."""
    if not config:
        return 1.0
    said_rank = _of_layer(file, config, "rank_pattern", layer, config.get("r", 8))
    alpha = _of_layer(file, config, "alpha_pattern", layer, config.get("lora_alpha", 8))
    if said_rank != rank:
        raise CheckpointError(
            str(file),
            f"its header says that {layer[:100]} has rank {said_rank}, and it has {rank}",
            _FIX,
        )
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


@functools.lru_cache(MAX_PATTERNS)
def _compiled(key: str) -> re.Pattern[str]:
    return re.compile(rf"(.*\.)?({key})$")


def _of_layer(file: Path, config: Mapping[str, Any], name: str, layer: str, usual: Any) -> float:
    patterns = config.get(name) or {}
    known = isinstance(patterns, dict) and len(patterns) <= MAX_PATTERNS
    if not known or not all(len(key) <= 200 and _PATTERN.fullmatch(key) for key in patterns):
        raise CheckpointError(
            str(file), f"its header's {name} names layers in a way that is not known here", _FIX
        )
    # As peft looks: the first that fits, at the end of the layer's name.
    value = next((own for key, own in patterns.items() if _compiled(key).match(layer)), usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CheckpointError(
            str(file), f"its header says {str(value)[:40]!r} of {layer[:100]}", _FIX
        )
    return float(value)
