"""Packs in exported bases, known by the bytes that their weights are there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from unplug.core import InputError
from unplug.sdk.drawing.device import LoraSlots, load_pipeline, variant_sha256
from unplug.trust.certificates import TracedPlace

from .person import unknown

KIND = "exported file"
ELSEWHERE = "made from a pack that is not where was searched"


def exported_packs(path: Path, packs: Mapping[Path, bool]) -> Iterator[TracedPlace]:
    """The variants of an exported base that were made from a pack that remembers her, and its packs
    of which that cannot be told.

    A variant's bytes follow from the pack's weights and the base's slots, so they are made again
    and compared. One that was chosen by name and is not a pack that was found is not a place: it is
    ordinary LoRA weights.

    Args:
        path: the base's ``pipeline.json``.
        packs: the folders that a search found, and whether each remembers her.
    """
    try:
        pipeline = load_pipeline(path)
    except InputError as error:
        yield unknown(path, KIND, error)
        return
    remembering, known = _sha256s(pipeline.lora, packs)
    for _, variant in sorted(pipeline.variants.items()):
        place = str(path.parent / variant.file)
        if variant.sha256 in remembering:
            words = shlex.quote(variant.word or "")
            by = f"unplug forget {shlex.quote(str(path.parent))} --pack {words}, and deliver the rest"
            if variant.word is None:
                by = "export the base again without this variant"
            yield TracedPlace(path=place, kind=KIND, standing="derived", goes_by=by)
        elif variant.sha256 not in known and variant.word is not None:
            yield unknown(place, KIND, ELSEWHERE)


def _sha256s(
    slots: LoraSlots | None, packs: Mapping[Path, bool]
) -> tuple[frozenset[str], frozenset[str]]:
    """The hashes of the variants that packs make: of those that remember her, and of all."""
    assert slots is not None, "no record has variants without slots"
    made = [(variant_sha256(slots, folder), remembers) for folder, remembers in packs.items()]
    return (
        frozenset(sha256 for sha256, remembers in made if sha256 and remembers),
        frozenset(sha256 for sha256, _ in made if sha256),
    )
