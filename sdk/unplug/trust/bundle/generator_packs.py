"""Packs in a base of exported files: which it carries, and what shows that one has left it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unplug.core import CheckFailed, plain

from .binding import EXACT
from .generator_parts import (
    MAX_PIPELINE_BYTES,
    PIPELINE,
    NamedFile,
    PipelineFiles,
    pipeline_files,
)
from .manifest import Gate
from .source import BundleSource, read_whole

MAX_PACK_BYTES = 2**30
MADE_BY = ("versions", "git_revision")
"""What ``pipeline.json`` says of its making, and not of what is drawn."""


@dataclass(frozen=True, kw_only=True)
class CarriedPack:
    """A pack next to a base's files.

    Args:
        word: the word that switches it on in prompts.
        sha256: the SHA-256 of its file of rows, which identifies it.
        weights_sha256: the hash of the weights in the folder that it was exported from; None where
            nobody said it.
    """

    word: str
    sha256: str
    weights_sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class DroppedPack:
    """A pack that has left. Its word stays out: it may be a person's name.

    Args:
        sha256: the SHA-256 of its file of rows.
        again: the SHA-256 of the pack in its place, trained again without somebody; None: deleted.
    """

    sha256: str
    again: str | None = None


@dataclass(frozen=True, kw_only=True)
class DroppedPacks:
    """What has left since the bundle before.

    Args:
        before: the id of that bundle, the SHA-256 of its manifest.
        packs: the packs that are gone.
    """

    before: str
    packs: tuple[DroppedPack, ...]


def carried_packs(
    pipeline: PipelineFiles, weights: Mapping[str, str] | None = None
) -> tuple[CarriedPack, ...]:
    """The packs that ``pipeline.json`` names, in the order of their names.

    Args:
        pipeline: see `pipeline_files`.
        weights: the weights' SHA-256 for some packs, by that of their rows.
    """
    return tuple(
        CarriedPack(
            word=item.word, sha256=item.sha256, weights_sha256=(weights or {}).get(item.sha256)
        )
        for _, item in sorted(pipeline.variants.items())
        if item.word is not None
    )


def compare_packs(
    before: BundleSource, after: BundleSource
) -> tuple[tuple[DroppedPack, ...], Gate] | None:
    """Which packs of a base are not in the next one, and whether all the rest is equal.

    ``pipeline.json`` names every part by its SHA-256, so equality of what it says, but for what has
    left and by which versions it was made, is that of the parts.

    Args:
        before, after: bundles with hashed files.

    Returns:
        The packs that are gone, and the gate `EXACT`; None where all are still there.

    Raises:
        CheckFailed: the rows of one that is gone are still in a variant.
        Refused: a broken ``pipeline.json``, or a pack of more than `MAX_PACK_BYTES`.
    """
    (old, old_raw), (new, new_raw) = map(_read, (before, after))
    gone = {
        name: item
        for name, item in old.variants.items()
        if item.word is not None and _sha256(new, name) != item.sha256
    }
    if not gone:
        return None
    for item in gone.values():
        for holder in _holders(before, item, after, new):
            what = f"the pack {item.sha256[:16]} of {plain(item.word or '', 60)!r}"
            fix = "Delete it there, or leave out `supersedes`"
            raise CheckFailed(what, f"it shall have left, and {holder} still holds it", fix)
    left = {
        name
        for item in gone.values()
        for name in _holders(before, item, before, old)
        if name not in new.variants
    }
    sides = (_rest(raw, left | gone.keys()) for raw in (old_raw, new_raw))
    packs = [
        DroppedPack(sha256=item.sha256, again=_sha256(new, name)) for name, item in gone.items()
    ]
    return tuple(sorted(packs, key=lambda pack: pack.sha256)), _equal(*sides)


def _read(source: BundleSource) -> tuple[PipelineFiles, bytes]:
    raw = read_whole(source, PIPELINE, MAX_PIPELINE_BYTES)
    return pipeline_files(raw, source.label), raw


def _sha256(pipeline: PipelineFiles, name: str) -> str | None:
    item = pipeline.variants.get(name)
    return None if item is None else item.sha256


def _holders(
    before: BundleSource, pack: NamedFile, source: BundleSource, pipeline: PipelineFiles
) -> Iterator[str]:
    """Names of the variants that hold all rows of a pack, be it among others."""
    rows = read_whole(before, pack.file, MAX_PACK_BYTES)
    for name, item in pipeline.variants.items():
        if rows in read_whole(source, item.file, MAX_PACK_BYTES):
            yield name


def _rest(raw: bytes, gone: set[str]) -> dict[str, str]:
    told: dict[str, Any] = json.loads(raw)
    variants = told.get("variants", {})
    told["variants"] = {name: item for name, item in variants.items() if name not in gone}
    return {
        name: json.dumps(value, sort_keys=True)
        for name, value in told.items()
        if name not in MADE_BY
    }


def _equal(old: Mapping[str, str], new: Mapping[str, str]) -> Gate:
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return Gate(
        name=EXACT,
        value=float(len(changed)),
        limit=0.0,
        comparison="<=",
        passed=not changed,
        unit=" parts that differ",
        detail=", ".join(changed)[:200]
        or "but for packs, all parts are those of the bundle before",
    )
