"""What a base of exported files holds, by its ``pipeline.json``, and what a device fetches again of
the next one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from unplug.core import STRICT

from .manifest import FileEntry
from .refused import Refused
from .signed_json import strict_json, validated
from .source import MAX_FILES, is_safe

PIPELINE, CARD = "pipeline.json", "README.md"
MAX_PIPELINE_BYTES = 16 * 2**20
"""Stable Diffusion's vocabulary and merges take 2 MB."""
_REPORT = re.compile(r"reports/[^/]+\.json")
_LOOSE: dict[str, Any] = {**STRICT, "extra": "ignore"}


@dataclass(frozen=True, kw_only=True)
class NamedFile:
    """One file that ``pipeline.json`` names; of Core ML a folder.

    Args:
        file: its path.
        sha256: the SHA-256 of the file, or of the folder's tree.
        bytes: the size in bytes of all its files.
        target, precision: its form; of a variant's weights neither.
        word: the word of a pack; prompts that say it switch the pack on.
    """

    __pydantic_config__: ClassVar = _LOOSE

    file: str
    sha256: str
    bytes: int
    target: str = ""
    precision: str = ""
    word: str | None = None

    @property
    def form(self) -> str:
        """The form as a device asks for it."""
        return f"{self.target} {self.precision}".strip() or "variants"


@dataclass(frozen=True, kw_only=True)
class _Files:
    __pydantic_config__: ClassVar = _LOOSE

    files: tuple[NamedFile, ...]


@dataclass(frozen=True, kw_only=True)
class _Plugin:
    __pydantic_config__: ClassVar = _LOOSE

    part: _Files


@dataclass(frozen=True, kw_only=True)
class PipelineFiles:
    """The part of ``unplug-pipeline/1`` that a bundle needs; a program that draws with it reads all
    of it.
    """

    __pydantic_config__: ClassVar = _LOOSE

    schema: Literal["unplug-pipeline/1"]
    name: str
    text_encoder: _Files
    unet: _Files
    decoder: _Files
    plugins: dict[str, _Plugin]
    variants: dict[str, NamedFile] = field(default_factory=dict)

    def parts(self) -> dict[str, tuple[NamedFile, ...]]:
        """Files by part: those of the base, ``plugins.NAME``, ``variants.NAME``."""
        return {
            **{name: getattr(self, name).files for name in ("text_encoder", "unet", "decoder")},
            **{f"plugins.{name}": item.part.files for name, item in self.plugins.items()},
            **{f"variants.{name}": (item,) for name, item in self.variants.items()},
        }


def pipeline_files(raw: bytes, where: str) -> PipelineFiles:
    """What ``pipeline.json`` names.

    Raises:
        Refused: ``manifest``: it is not strict JSON, or does not follow its schema.
    """
    try:
        strict_json(raw)
        return validated(PipelineFiles, raw)
    except ValueError as error:
        raise Refused("manifest", f"{where}/{PIPELINE}", str(error)) from error


def check_parts(pipeline: PipelineFiles, files: Mapping[str, FileEntry], where: str) -> None:
    """Refuses a folder that is not what ``pipeline.json`` names, each file with its card, and
    besides it at most the bundle's card, ``reports/`` and what parity was found to be.

    Args:
        pipeline: the pipeline with the names.
        files: the folder's files, but for manifest and signature; they were hashed.
        where: the bundle.

    Raises:
        Refused: ``too-many``, ``unsafe-name``, ``manifest`` (a file named twice), ``missing``,
            ``changed`` or ``unlisted``.
    """
    known, named = {PIPELINE, CARD}, set[str]()
    if sum(map(len, pipeline.parts().values())) > MAX_FILES:
        raise Refused("too-many", where, f"{PIPELINE} names more than {MAX_FILES} files")
    for part, items in pipeline.parts().items():
        for item in items:
            if not is_safe(item.file):
                why = f"its {part} lies at {item.file[:80]!r}, an unsafe name"
                raise Refused("unsafe-name", where, why)
            if item.file in named:
                raise Refused("manifest", where, f"{PIPELINE} names {item.file} twice")
            named.add(item.file)
            held = _held(item.file, files)
            card = {f"{item.file}.json"} if item.target else set()
            if not held or not card <= files.keys():
                why = f"{item.file} of its {part}, or the card next to it, is missing"
                raise Refused("missing", where, why)
            if _digest(item.file, held) != (item.sha256, item.bytes):
                why = f"{item.file} is not the file that {PIPELINE} names as its {part}"
                raise Refused("changed", where, why)
            known |= {*held, *card, f"{item.file.rpartition('/')[0]}/parity.json"}
    for name in sorted(files.keys() - known):
        if not _REPORT.fullmatch(name):
            raise Refused("unlisted", where, f"{name[:200]!r} is not a part that {PIPELINE} names")


def _held(named: str, files: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    """A file, or the files of a folder of that name."""
    if named in files:
        return {named: files[named]}
    return {name: entry for name, entry in files.items() if name.startswith(f"{named}/")}


def _digest(named: str, held: Mapping[str, FileEntry]) -> tuple[str, int]:
    """SHA-256 and bytes as `unplug.core.sha256_tree` has them, of files that were hashed already."""
    if named in held:
        return held[named].sha256, held[named].bytes
    tree = hashlib.sha256()
    for name in sorted(held, key=lambda name: name.split("/")):
        tree.update(f"{name.removeprefix(f'{named}/')}\0{held[name].sha256}\n".encode())
    return tree.hexdigest(), sum(entry.bytes for entry in held.values())


@dataclass(frozen=True, kw_only=True)
class PartsDifference:
    """What a device that has one base of exported files fetches again of the next one.

    Args:
        changed: part to form (``onnx fp16``) to its bytes before and after, None where it is not
            there; parts whose files are all the same are left out.
        same: those parts.
        fetched: form to the bytes of files that are new or another, and of all files.
        pipeline_bytes: the size of ``pipeline.json`` if it changed, else 0.
        edit_bytes: the size of the erasure itself, as its record says; None where it says none.
        facts: the bundles' other statements, before and after.
    """

    changed: dict[str, dict[str, tuple[int | None, int | None]]]
    same: tuple[str, ...]
    fetched: dict[str, tuple[int, int]]
    pipeline_bytes: int
    edit_bytes: int | None
    facts: dict[str, tuple[object, object]]


def changed_parts(
    before: PipelineFiles, after: PipelineFiles
) -> dict[str, dict[str, tuple[int | None, int | None]]]:
    """The forms of every part whose file changed, see `PartsDifference`."""
    old, new = (_by_form(pipeline) for pipeline in (before, after))
    changed: dict[str, dict[str, tuple[int | None, int | None]]] = {}
    for part in dict.fromkeys((*new, *old)):
        left, right = old.get(part, {}), new.get(part, {})
        changed[part] = {
            form: (
                left[form].bytes if form in left else None,
                right[form].bytes if form in right else None,
            )
            for form in dict.fromkeys((*right, *left))
            if form not in left or form not in right or left[form].sha256 != right[form].sha256
        }
    return changed


def fetched_bytes(
    changed: Mapping[str, Mapping[str, tuple[int | None, int | None]]], after: PipelineFiles
) -> dict[str, tuple[int, int]]:
    """Form to bytes that are fetched again, and bytes of all its files."""
    fetched: dict[str, tuple[int, int]] = {}
    for part, forms in _by_form(after).items():
        for form, item in forms.items():
            again, every = fetched.get(form, (0, 0))
            again += item.bytes if form in changed[part] else 0
            fetched[form] = again, every + item.bytes
    return fetched


def _by_form(pipeline: PipelineFiles) -> dict[str, dict[str, NamedFile]]:
    return {part: {item.form: item for item in items} for part, items in pipeline.parts().items()}
