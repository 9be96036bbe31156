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
"""The rank of an update, in the mean over all layers: a file is read only where a base of this size
can have use for it.
"""
MAX_CHANGE = 1e30
"""The largest change of a weight, before the sums are taken: float32 would run over in them."""
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
"""In front of layers: diffusers', and kohya's, which has _ for the dots after it; without one it
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
        slots: the slots in the order of the columns: each has the first factor's numbers, then the
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
        slots: the slots of the UNet.
        paths: ``.safetensors`` files, or folders that ``save_lora_weights`` or `unplug train
            student` wrote.
        strengths: a factor for each file; default: 1 each.

    Raises:
        CheckpointError: no such file, no safetensors, layers without a slot, or factors of another
            shape.
        InputError: ranks that together are more than the slots have, or a strength that is not a
            number.
        MissingExtraError: safetensors is not installed.
    """
    packed_RK, row = np.zeros((slots.rank, slots.width), np.float32), 0
    for path, strength in zip(paths, strengths or [1.0] * len(paths), strict=True):
        if not math.isfinite(strength):
            fix = "Use 1 for the weights as they were trained"
            raise InputError(f"strength {strength}", "not a number", fix)
        layers = _slotted(path, slots)
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
            if (update := layers.get(slot.layer)) is not None:
                rows = slice(row, row + len(update.first_rI))
                packed_RK[rows, start:middle] = update.first_rI
                # The file's UNet knows no s: it goes into the second factor.
                scale = np.float32(strength * update.scale)
                packed_RK[rows, middle:end] = scale * update.second_Or.T
            start = end
        row += rank
    return packed_RK


def _slotted(path: Path, slots: LoraSlots) -> dict[str, LowRank]:
    """Layer to its update; `CheckpointError` where a file's slots cannot take it."""
    known = {UNET: {slot.layer: (slot.fan_in, slot.fan_out) for slot in slots.slots}}
    updates = read_lora(path, known, "the exported UNet", lacks="no slot", fix=_MERGE)
    if any(update.magnitude is not None for update in updates.values()):
        why = "it is a DoRA, for which the exported UNet has no input"
        raise CheckpointError(str(path), why, _MERGE)
    return {layer: update for (_, layer), update in updates.items()}


@dataclass(frozen=True, kw_only=True)
class LowRank:
    """The update of one layer: W' = W + s B A; of a DoRA that, each row scaled to the length that
    `magnitude` says.

    Args:
        first_rI: A, flat after its first axis.
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
        layers: the layers that can be changed.
        of: the owner of the layers, for messages.
        lacks: the thing that the owner lacks where a name fits no layer.
        fix: advice for that case.

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
        # Told apart by names alone: each of these formats is a file of tensors like this one.
        kind = next((kind for words, kind in _KINDS.items() if re.search(words, name)), None)
        if kind is not None:
            raise CheckpointError(str(file), f"it is {kind}, which is not read here", _FIX)
        match = _PIECE.fullmatch(name)
        if match is None or not value.size:
            raise CheckpointError(
                str(file), f"{name[:100]!r} is not a factor of a low-rank update", _FIX
            )
        piece = _SIDES.get(match["side"] or match["other"], "magnitude")
        pieces.setdefault(_place(match["layer"], layers), {})[piece] = np.atleast_1d(value)
    if not pieces:
        raise CheckpointError(str(file), "there is no low-rank update in it", _FIX)
    return pieces


def _tensors(file: Path, most: int) -> tuple[dict[str, NDArray[np.float32]], dict[str, str]]:
    """All tensors of a file in float32, and its header's words.

    A file of more than `most` numbers is refused by its header.
    """
    require_modules(("safetensors",), "train")
    from safetensors import SafetensorError, deserialize, safe_open

    check_content(file, CheckpointError)
    if not file.is_file():
        raise CheckpointError(str(file), "no such file", _FIX)
    if file.suffix != ".safetensors" or file.stat().st_size > MAX_BYTES:
        fix = f"Only safetensors are read: a pickle can run code. {_FIX}"
        raise CheckpointError(str(file), "no safetensors file of a LoRA's size", fix)
    try:
        with safe_open(file, framework="np") as handle:
            metadata = handle.metadata() or {}
            count = sum(math.prod(handle.get_slice(name).get_shape()) for name in handle.keys())  # noqa: SIM118 (no mapping)
        if count > most:
            most_of = f"updates of rank {MAX_RANK} of all layers have {most:,}"
            why = f"it has {count:,} numbers, and {most_of}"
            raise CheckpointError(str(file), why, _FIX)
        stored = deserialize(file.read_bytes())  # type: ignore[no-untyped-call]
        return {
            name: _numbers(one["dtype"], one["data"], one["shape"]) for name, one in stored
        }, metadata
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        why = f"it cannot be read ({' '.join(str(error).split())[:150]})"
        raise CheckpointError(str(file), why, _FIX) from error


_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}


def _numbers(kind: str, raw: bytes, shape: Sequence[int]) -> NDArray[np.float32]:
    if kind == "BF16":  # which NumPy does not know: the upper half of a float32
        values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        with np.errstate(over="ignore"):  # infinities are told with their layer
            values = np.frombuffer(raw, _TYPES[kind]).astype(np.float32)
    return values.reshape(shape)


def _place(name: str, layers: Layers) -> tuple[str, str]:
    """Part and layer that a name in a file means."""
    prefix, part = next(
        ((start, part) for start, part in _PREFIXES.items() if name.startswith(start)), ("", UNET)
    )
    layer = name.removeprefix(prefix).replace(".processor.", ".")
    # diffusers' attention has its output layer in a list with a dropout.
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


def _update(
    file: Path, layer: str, pieces: Pieces, sizes: tuple[int, int], scale: float
) -> LowRank:
    def refused(why: str) -> CheckpointError:
        return CheckpointError(str(file), why, _FIX)

    if not {"first", "second"} <= pieces.keys():
        raise refused(f"of {layer[:100]} it has one factor only")
    first, second, magnitude = pieces["first"], pieces["second"], pieces.get("magnitude")
    first_rI, second_Or = first.reshape(len(first), -1), second.reshape(len(second), -1)
    rank, (fan_in, fan_out) = len(first_rI), sizes
    fits = first_rI.shape[1] == fan_in and second_Or.shape == (fan_out, rank) and rank > 0
    if not fits or not all(np.isfinite(value).all() for value in pieces.values()):
        shapes = f"{list(first.shape)} and {list(second.shape)}"
        raise refused(f"its update of {layer[:100]} is {shapes}, or not finite")
    # A product of two float32 that are fine each can run over, and so can a sum of r of them.
    largest = float(abs(second_Or).max()) * abs(scale)
    if not max(float(abs(first_rI).max()) * largest * rank, largest) < MAX_CHANGE:
        raise refused(f"its update of {layer[:100]} runs over what a weight can be")
    row_by_row = ((fan_out,), (fan_out, 1), (fan_out, 1, 1, 1), (1, fan_out, 1, 1))
    if magnitude is not None and magnitude.shape not in row_by_row:
        shape = list(magnitude.shape)
        raise refused(f"the DoRA of {layer[:100]} scales other axes than a row ({shape})")
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
        why = "its header and its tensors both say alpha"
        raise CheckpointError(str(file), why, "Save it again, with one of the two")
    scales = {}
    for (part, layer), factors in pieces.items():
        if told[part].get("use_dora") and "magnitude" not in factors:
            why = "its header says that it is a DoRA, and it has no magnitudes"
            raise CheckpointError(str(file), why, "Save it again")
        rank = max(1, len(factors.get("first", ())))
        told_scale = _told_scale(file, told[part], layer, rank)
        scales[part, layer] = (
            float(factors["alpha"].flat[0]) / rank if "alpha" in factors else told_scale
        )
    return scales


def _told(file: Path, metadata: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Part to what the header says of its LoRA; `CheckpointError` where that is more than an update
    of weights.
    """
    configs: dict[str, dict[str, Any]] = {UNET: {}, TEXT_ENCODER: {}}
    try:
        for key, value in json.loads(metadata.get("lora_adapter_metadata", "{}")).items():
            part, _, name = key.partition(".")
            configs.setdefault(part, {})[name] = value
    except (ValueError, AttributeError) as error:
        why = "its header's lora_adapter_metadata is broken"
        raise CheckpointError(str(file), why, _FIX) from error
    for config in configs.values():
        start, biased = config.get("init_lora_weights"), config.get("lora_bias")
        changed = f"it starts as {str(start)[:40]!r}, which changes the base as well"
        if biased or start not in _UNCHANGED:
            why = f"its header says that {'it has biases' if biased else changed}"
            raise CheckpointError(str(file), why, _FIX)
    return configs


def _told_scale(file: Path, config: Mapping[str, Any], layer: str, rank: int) -> float:
    """alpha / r, or alpha / sqrt(r), as peft has it; patterns name layers by their last parts."""
    if not config:
        return 1.0
    told_rank = _of_layer(file, config, "rank_pattern", layer, config.get("r", 8))
    alpha = _of_layer(file, config, "alpha_pattern", layer, config.get("lora_alpha", 8))
    if told_rank != rank:
        why = f"its header says that {layer[:100]} has rank {told_rank}, and it has {rank}"
        raise CheckpointError(str(file), why, _FIX)
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


@functools.lru_cache(MAX_PATTERNS)
def _compiled(key: str) -> re.Pattern[str]:
    return re.compile(rf"(.*\.)?({key})$")


def _of_layer(file: Path, config: Mapping[str, Any], name: str, layer: str, usual: Any) -> float:
    patterns = config.get(name) or {}
    known = isinstance(patterns, dict) and len(patterns) <= MAX_PATTERNS
    if not known or not all(len(key) <= 200 and _PATTERN.fullmatch(key) for key in patterns):
        why = f"its header's {name} names layers in a way that is not known here"
        raise CheckpointError(str(file), why, _FIX)
    # As peft looks: the first that fits, at the end of the layer's name.
    fitting = (value for key, value in patterns.items() if _compiled(key).match(layer))
    value = next(fitting, usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        why = f"its header says {str(value)[:40]!r} of {layer[:100]}"
        raise CheckpointError(str(file), why, _FIX)
    return float(value)
