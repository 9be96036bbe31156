"""Named LoRA weights of a generator: one small file each, which fills the UNet's low-rank input
when a picture is drawn. A variant is chosen by its name, a pack by a word in the prompt.

Shapes: R rank of the slots, r rows that a file has, K numbers of one row.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unplug.core import ArtifactError, InputError, atomic_path, read_regular

from .lora import LoraSlots, pack_loras
from .pack_words import stand_in, words_of
from .pipeline import (
    PIPELINE,
    Pipeline,
    PipelineDefaults,
    Variant,
    check_digest,
    load_pipeline,
    place_of,
)

FOLDER, SUFFIX = "variants", ".lora"
DTYPE = "<f4"


@dataclass(frozen=True, kw_only=True)
class VariantSource:
    """What a variant is made of.

    Args:
        loras: LoRA weights, see `pack_loras`; all of them act.
        defaults: the settings that suit them; None: the base's.
        word: the word that prompts say to use them, see `Variant`.
    """

    loras: tuple[Path, ...]
    defaults: PipelineDefaults | None = None
    word: str | None = None


def pack_name(word: str) -> str:
    """What a pack is called among a generator's variants: a safe name of a file, of its folded
    words.

    Example:
        >>> pack_name("Eye patches"), pack_name("M\u00e4del")
        ('eye-patch', 'm-del-ee22e5d5')
    """
    words = "-".join(words_of(word))
    plain = re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "pack"
    # What letters were lost tells two words apart that look alike without them.
    return words if words.isascii() else f"{plain}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"


def pack_variants(
    slots: LoraSlots, sources: Mapping[str, VariantSource]
) -> dict[str, NDArray[np.float32]]:
    """Each variant's rows (r, K) of the UNet's input, without the zeros below them.

    Raises:
        CheckpointError, InputError: see `pack_loras`; or an update that changes nothing.
    """
    packed = {}
    for name, source in sources.items():
        packed[name] = used_rows(pack_loras(slots, source.loras))
        if not len(packed[name]):
            raise InputError(
                f"variant {name}",
                "its weights are all zero: it is the bare base",
                "Train it, or leave it out",
            )
    return packed


def variant_sha256(slots: LoraSlots, weights: Path) -> str | None:
    """What `Variant.sha256` is where these weights alone make a variant: how one is known again.
    None where they fit no base with these slots.

    Args:
        slots: the slots of the exported base.
        weights: a folder or a file, see `pack_loras`.
    """
    try:
        packed = pack_variants(slots, {weights.name: VariantSource(loras=(weights,))})
    except InputError:
        return None
    return hashlib.sha256(_body(packed[weights.name])).hexdigest()


def _body(rows_rK: NDArray[np.float32]) -> bytes:
    return np.ascontiguousarray(rows_rK, DTYPE).tobytes()


def used_rows(packed_RK: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows (r, K) of a low-rank input without the zeros below them."""
    used_r = np.flatnonzero(packed_RK.any(axis=1))
    return packed_RK[: int(used_r[-1]) + 1 if len(used_r) else 0]


def write_variant(
    out: Path,
    name: str,
    rows_rK: NDArray[np.float32],
    defaults: PipelineDefaults | None,
    word: str | None = None,
) -> Variant:
    """Writes the rows of a variant into a generator's folder, atomically; its record is for
    `Pipeline.variants`.
    """
    body = _body(rows_rK)
    file = f"{FOLDER}/{name}{SUFFIX}"
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    with atomic_path(out / file) as temporary:
        temporary.write_bytes(body)
    return Variant(
        file=file,
        sha256=hashlib.sha256(body).hexdigest(),
        bytes=len(body),
        defaults=defaults,
        word=word,
    )


def drop_pack(folder: Path, word: str) -> None:
    """Deletes a pack from a generator's folder, which is then, but for when it was made, what an
    export without the pack leaves: an exact way to forget what it learned.

    Args:
        folder: the folder with ``pipeline.json``, or that file itself.
        word: the word of the pack.

    Raises:
        InputError: no pack has this word.
        ReportError: ``pipeline.json`` is missing or broken.
        ArtifactError: the pack's file is a link, or lies below one.
    """
    folder = folder.parent if folder.name == PIPELINE else folder
    pipeline = load_pipeline(folder)
    name = find_pack(pipeline, word)
    left = {key: item for key, item in pipeline.variants.items() if key != name}
    # The weights first: a caller that is cut off after this can call again.
    place_of(folder, pipeline.variants[name].file).unlink(missing_ok=True)
    replace(pipeline, variants=left).save(folder)
    with contextlib.suppress(OSError):  # other variants lie there
        (folder / FOLDER).rmdir()


def find_pack(pipeline: Pipeline, word: str) -> str:
    """The name of the variant that a word switches on; `InputError` where no pack has it."""
    wanted = words_of(word)
    name = next((key for key, own in pipeline.packs().items() if words_of(own) == wanted), None)
    if name is None:
        known = ", ".join(pipeline.packs().values()) or "none"
        why = f"{pipeline.name} has no pack of this word"
        raise InputError(f"`word` {word[:100]!r}", why, f"Its packs: {known}")
    return name


def variants_for(pipeline: Pipeline, prompt: str, variant: str | None = None) -> tuple[str, ...]:
    """What fills the UNet's slots: the variant that was chosen, then the packs that the prompt asks
    for, in the order of their names.

    Args:
        pipeline: a pipeline from `load_pipeline`.
        prompt: the text to draw, not the text to steer away from.
        variant: chosen by name.

    Raises:
        InputError: the pipeline has no such variant, or it is a pack whose word is not said.
    """
    read = words_of(prompt)
    asked = tuple(name for name, word in pipeline.packs().items() if stand_in(words_of(word), read))
    if variant is None:
        return asked
    word = _variant(pipeline, variant).word
    if word is not None and variant not in asked:
        why = f"it is a pack, which the prompt switches on by saying {word!r}"
        raise InputError(
            f"variant {variant}", why, "Say it in the prompt, or leave the variant out"
        )
    return tuple(dict.fromkeys((variant, *asked)))


def stack_rows(
    slots: LoraSlots, rows: Mapping[str, NDArray[np.float32]]
) -> NDArray[np.float32] | None:
    """The UNet's low-rank input (R, K): rows (r, K) by what they are of, below each other, and zeros
    below them all; None for no rows.

    Raises:
        InputError: more rows than slots.
    """
    if not rows:
        return None
    found_RK, row = np.zeros((slots.rank, slots.width), np.float32), sum(map(len, rows.values()))
    if row > slots.rank:
        why = f"they have {row} ranks together, and the base has slots for {slots.rank}"
        raise InputError(" and ".join(map(repr, rows)), why, "Ask for fewer of them in one prompt")
    found_RK[:row] = np.concatenate(list(rows.values()))
    return found_RK


def _variant(pipeline: Pipeline, name: str) -> Variant:
    if name not in pipeline.variants:
        known = (
            f"It has {', '.join(pipeline.variants)}"
            if pipeline.variants
            else "Export it with `unplug export --variant NAME=WEIGHTS`"
        )
        raise InputError(f"variant {name[:100]}", f"{pipeline.name} was exported without it", known)
    return pipeline.variants[name]


def read_variant(pipeline: Pipeline, folder: Path, name: str) -> NDArray[np.float32]:
    """The rows (r, K) of a variant or pack, of the UNet's low-rank input; see `stack_rows`.

    Args:
        pipeline: a pipeline from `load_pipeline`.
        folder: the pipeline's folder.
        name: the name of the variant.

    Raises:
        InputError: the pipeline has no such variant.
        ArtifactError: its file is missing, was swapped or edited, is a link, or holds what is not a
            number.
    """
    variant = _variant(pipeline, name)
    assert pipeline.lora is not None, "no record has variants without slots"
    path = place_of(folder, variant.file)
    body = read_regular(path, max_bytes=variant.bytes, error=ArtifactError)
    check_digest(path, hashlib.sha256(body).hexdigest(), variant.sha256)
    rows_rK = (
        np.frombuffer(body, DTYPE).reshape(-1, pipeline.lora.width)
        if len(body) == variant.bytes
        else None
    )
    if rows_rK is None or not np.isfinite(rows_rK).all():
        raise ArtifactError(
            str(path),
            "it is of another size than the record says, or holds something other than numbers",
            "Export again",
        )
    return rows_rK
