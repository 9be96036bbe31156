"""``unplug bundle`` of a base of exported files: what verify, inspect and diff say."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from unplug.core import counted, plain

from .base import Outcome

if TYPE_CHECKING:
    from unplug.trust.bundle import GeneratorManifest, Publication, Trust


def verified(path: Path, trust: Trust | None) -> Outcome:
    """Checks a generator's bundle, and says what holds."""
    from unplug.trust.bundle import bundle_id, verify_generator

    manifest = verify_generator(path, trust)
    publication = manifest.publication if trust is not None else None
    lines = [
        f"{path}: the files match the manifest, and pipeline.json names all parts",
        *told_of(manifest),
        "It is not signed: this shows integrity, not origin."
        if publication is None
        else f"It is signed: {published(publication)}.",
    ]
    value = {
        "bundle": str(path),
        "files": len(manifest.files),
        "gates": len(manifest.gates),
        **{name: asdict(manifest)[name] for name in ("erasure", "packs", "dropped")},
        "signed": publication is not None,
        "id": bundle_id(path),
        "publication": None if publication is None else asdict(publication),
    }
    return Outcome(value=value, text="\n".join(lines))


def inspected(path: Path) -> Outcome:
    """What a generator's bundle says of itself."""
    from unplug.trust.bundle import bundle_id, read_generator

    manifest = read_generator(path)
    publication = manifest.publication
    lines = [
        f"{path}: a base of exported files, not verified",
        f"id {bundle_id(path)}",
        "never published" if publication is None else published(publication),
        *told_of(manifest),
        *(f"{entry.bytes:>12,}  {name}" for name, entry in sorted(manifest.files.items())),
    ]
    return Outcome(value=asdict(manifest), text="\n".join(lines))


def told_of(manifest: GeneratorManifest) -> list[str]:
    """What a generator's bundle holds, was erased from, and has let go."""
    erasure, dropped = manifest.erasure, manifest.dropped
    lines = [counted(len(manifest.files), "file")]
    if erasure is not None:
        words = ", ".join(plain(item, 40) for item in erasure.concepts)
        held = f"its gates hold, claimed against {erasure.against}"
        lines.append(f"erased by {erasure.method}: {words}; {held}")
    if manifest.packs:
        lines.append(f"packs: {', '.join(plain(pack.word, 64) for pack in manifest.packs)}")
    if dropped is not None:
        lines.append(
            f"{counted(len(dropped.packs), 'pack')} left since the bundle {dropped.before[:16]}, "
            "all else is equal; exact: weights"
        )
    return lines


def compared(before: Path, after: Path) -> Outcome:
    """Which parts changed, and what a device fetches again."""
    from unplug.trust.bundle import diff_generators

    found = diff_generators(before, after)
    lines = [
        f"~ {part} {form} ({_bytes(old)} -> {_bytes(new)})"
        for part, forms in found.changed.items()
        for form, (old, new) in forms.items()
    ]
    lines += [f"= {part}" for part in found.same]
    lines += [f"  {name}: {str(a)[:100]} -> {str(b)[:100]}" for name, (a, b) in found.facts.items()]
    lines += [
        f"fetched again, {form}: {again:,} of {every:,} bytes"
        for form, (again, every) in found.fetched.items()
    ]
    if found.pipeline_bytes:
        lines.append(f"fetched again, pipeline.json: {found.pipeline_bytes:,} bytes")
    if found.edit_bytes is not None:
        lines.append(f"the edit itself is {found.edit_bytes:,} bytes, by its record")
    return Outcome(value=asdict(found), text="\n".join(lines))


def _bytes(count: int | None) -> str:
    return "none" if count is None else f"{count:,} bytes"


def published(said: Publication) -> str:
    """A release in one line."""
    parts = [f"release {said.release} of {said.name}", f"expires {said.expires or 'never'}"]
    for word, items in (
        ("supersedes", said.supersedes),
        ("revokes", said.revokes),
        ("answers", said.requests),
    ):
        if items:
            parts.append(
                f"{word} "
                f"{', '.join(item[:16] for item in items[:8])}{' ...' if len(items) > 8 else ''}"
            )
    return "; ".join(parts)
