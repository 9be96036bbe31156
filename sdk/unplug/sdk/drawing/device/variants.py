"""Named LoRA weights of a generator: one small file each, which fills the UNet's low-rank input
when a picture is drawn.

Shapes: R rank of the slots, r rows that a file has, K numbers of one row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unplug.core import ArtifactError, InputError, atomic_path, read_regular

from .lora import LoraSlots, pack_loras
from .pipeline import Pipeline, PipelineDefaults, Variant, check_digest, place_of

FOLDER, SUFFIX = "variants", ".lora"
DTYPE = "<f4"


@dataclass(frozen=True, kw_only=True)
class VariantSource:
    """What a variant is made of.

    Args:
        loras: LoRA weights, see `pack_loras`; all of them act.
        defaults: that suit them; None: the base's.
    """

    loras: tuple[Path, ...]
    defaults: PipelineDefaults | None = None


def pack_variants(
    slots: LoraSlots, sources: Mapping[str, VariantSource]
) -> dict[str, NDArray[np.float32]]:
    """Of each variant its rows (r, K) of the UNet's input, without the zeros below them.

    Raises:
        CheckpointError, InputError: see `pack_loras`; or an update that changes nothing.
    """
    packed = {}
    for name, source in sources.items():
        packed_RK = pack_loras(slots, source.loras)
        used_r = np.flatnonzero(packed_RK.any(axis=1))
        if not len(used_r):
            raise InputError(
                f"variant {name}",
                "its weights are all zero: it is the bare base",
                "Train it, or leave it out",
            )
        packed[name] = packed_RK[: int(used_r[-1]) + 1]
    return packed


def write_variant(
    out: Path, name: str, rows_rK: NDArray[np.float32], defaults: PipelineDefaults | None
) -> Variant:
    """Writes the rows of a variant into a generator's folder, atomically; its record is for
    `Pipeline.variants`.
    """
    body = np.ascontiguousarray(rows_rK, DTYPE).tobytes()
    file = f"{FOLDER}/{name}{SUFFIX}"
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    with atomic_path(out / file) as temporary:
        temporary.write_bytes(body)
    return Variant(
        file=file, sha256=hashlib.sha256(body).hexdigest(), bytes=len(body), defaults=defaults
    )


def read_variant(pipeline: Pipeline, folder: Path, name: str) -> NDArray[np.float32]:
    """The UNet's low-rank input (R, K) of a variant: its rows, and zeros below them.

    Args:
        pipeline: from `load_pipeline`.
        folder: where it lies.
        name: of the variant.

    Raises:
        InputError: the pipeline has no such variant.
        ArtifactError: its file is missing, was swapped or edited, is a link, or holds what is no
            number.
    """
    if name not in pipeline.variants or pipeline.lora is None:
        known = (
            f"It has {', '.join(pipeline.variants)}"
            if pipeline.variants
            else "Export it with `unplug export --variant NAME=WEIGHTS`"
        )
        raise InputError(f"variant {name[:100]}", f"{pipeline.name} was exported without it", known)
    variant = pipeline.variants[name]
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
            "it is of another size than the record says, or holds what is no number",
            "Export again",
        )
    found_RK = np.zeros((pipeline.lora.rank, pipeline.lora.width), np.float32)
    found_RK[: len(rows_rK)] = rows_rK
    return found_RK
