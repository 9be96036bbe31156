"""A release as the difference from the last one, ``unplug-patches/1``: a patch beside each file, and the new bundle from them.

Nobody signs patches, and nobody has to: what they lead to is verified as the bundle that it is, or refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

from unplug.core import STRICT, ReportError, atomic_dir, check_replaceable, require_modules

from .bundle import BUNDLE_ENTRIES, bundle_id, check_free, read_manifest, verify_bundle
from .deltas import MAX_DELTA_BYTES, PACKAGES, PatchBroken, apply_delta, smallest_delta
from .envelope import MAX_SIGNATURE_BYTES, SHA256
from .manifest import MAX_MANIFEST_BYTES
from .refused import Refused
from .signed_json import canonical, strict_json
from .source import MANIFEST, MAX_ARCHIVE_BYTES, MAX_FILES, SIGNATURE, BundleSource, check_names, open_source, read_whole
from .trust import Trust

INDEX, FOLDER = "patches.json", "files"
SCHEMA: Literal["unplug-patches/1"] = "unplug-patches/1"
COPY: Literal["copy"] = "copy"
WHOLE: Literal["whole"] = "whole"


@dataclass(frozen=True, kw_only=True)
class PatchEntry:
    """One file of the new bundle.

    Args:
        how: ``copy``, as it is in the old bundle; else a way of `unplug.sdk.bundle.WAYS`.
        sha256, bytes: of the new file.
        patch_bytes: that ship for it.
    """

    how: Literal["copy", "bsdiff", "zstd", "whole"]
    sha256: str
    bytes: int
    patch_bytes: int


@dataclass(frozen=True, kw_only=True)
class Patches:
    """``unplug-patches/1``: ``patches.json``.

    Args:
        schema: always ``unplug-patches/1``.
        base, target: the bundles that it leads from and to, by the SHA-256 of their manifests.
        method: what made the new model forget, as its lineage says.
        files: every file of the new bundle, the manifest and the signature among them, by its path.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-patches/1"] = SCHEMA
    base: str
    target: str
    method: str
    files: dict[str, PatchEntry]

    @property
    def bytes_to_ship(self) -> int:
        """Of all patches; `patches.json` comes on top."""
        return sum(entry.patch_bytes for entry in self.files.values())

    @property
    def bytes_whole(self) -> int:
        """Of all files of the new bundle."""
        return sum(entry.bytes for entry in self.files.values())

    def counted(self) -> dict[str, int]:
        """How many files go which way."""
        return dict(Counter(entry.how for entry in self.files.values()))


def write_patches(before: Path, after: Path, out: Path) -> Patches:
    """Writes what makes the new bundle out of the old one, each file in the way that ships the fewest bytes.

    Args:
        before, after: two bundles, folders or zip files, which are what their manifests say; signatures are not looked at.
        out: folder to write, with `INDEX` and one file a patch.

    Raises:
        Refused: one is not what its manifest says.
        OutputError: the place is taken, or cannot be written.
    """
    require_modules(PACKAGES, "patches")
    check_replaceable(out, INDEX, (FOLDER,))
    base, target, manifest = bundle_id(before), bundle_id(after), read_manifest(after)
    old_sizes, files = read_manifest(before).files, {}
    with open_source(before) as old, open_source(after) as new, atomic_dir(out, owner=INDEX, ours=(FOLDER,)) as folder:
        surplus = sorted(new.sizes.keys() - manifest.files.keys() - {MANIFEST, SIGNATURE}) + list(new.odd)
        if surplus:
            raise Refused("unlisted", new.label, f"{surplus[0][:200]!r} is not in the manifest")
        for name in sorted({*manifest.files, MANIFEST, *({SIGNATURE} & new.sizes.keys())}):
            listed = manifest.files.get(name)
            content = _listed(new, name, None if listed is None else listed.sha256)
            sha256 = hashlib.sha256(content).hexdigest()
            if name in old_sizes and old_sizes[name].sha256 == sha256:
                _listed(old, name, sha256)
                files[name] = PatchEntry(how=COPY, sha256=sha256, bytes=len(content), patch_bytes=0)
                continue
            known = _listed(old, name, old_sizes[name].sha256 if name in old_sizes else None) if name in old.sizes else None
            how, patch = smallest_delta(known, content)
            if apply_delta(how, known or b"", patch, len(content), name) != content:
                raise PatchBroken(name, "its patch does not give it back", "This is a bug; please report it")
            place = folder / FOLDER / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(patch)
            files[name] = PatchEntry(how=how, sha256=sha256, bytes=len(content), patch_bytes=len(patch))
        made = Patches(base=base, target=target, method=manifest.lineage.method, files=files)
        (folder / INDEX).write_bytes(canonical(asdict(made)))
    return made


def _listed(source: BundleSource, name: str, sha256: str | None) -> bytes:
    """A file's bytes, which are those that a manifest lists; the manifest itself and the signature are listed nowhere."""
    if name not in source.sizes:
        raise Refused("missing", source.label, f"{name[:200]} is missing")
    content = read_whole(source, name, MAX_SIGNATURE_BYTES if sha256 is None else MAX_ARCHIVE_BYTES)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise Refused("changed", source.label, f"{name[:200]} was changed")
    return content


def read_patches(path: Path) -> Patches:
    """What patches say of themselves, a folder or a zip file of one.

    Raises:
        ReportError: no patches.
        PatchBroken: `INDEX` does not follow its schema, names unsafe or too many files, or promises too many bytes.
    """
    with open_source(path) as source:
        return _read_index(source)


def _read_index(source: BundleSource) -> Patches:
    from pydantic import TypeAdapter, ValidationError

    if INDEX not in source.sizes:
        raise ReportError(source.label, f"no {INDEX} in it", "Give what `unplug bundle diff --patches` wrote")
    try:
        found = TypeAdapter(Patches).validate_json(canonical(strict_json(read_whole(source, INDEX, MAX_MANIFEST_BYTES))))
    except (ValidationError, ValueError) as error:
        raise _broken(source, f"{INDEX} does not follow its schema ({type(error).__name__})") from error
    check_names(sorted(found.files), source.label)
    texts = (found.base, found.target, *(entry.sha256 for entry in found.files.values()))
    if not all(SHA256.fullmatch(text) for text in texts) or len(found.files) > MAX_FILES + 2:
        raise _broken(source, f"{INDEX} holds what is no SHA-256, or too many files")
    sizes = [size for entry in found.files.values() for size in (entry.bytes, entry.patch_bytes)]
    if min(sizes, default=0) < 0 or found.bytes_whole > MAX_ARCHIVE_BYTES or found.bytes_to_ship > MAX_ARCHIVE_BYTES:
        raise _broken(source, f"it leads to more than {MAX_ARCHIVE_BYTES} bytes")
    return found


def _broken(source: BundleSource, why: str) -> PatchBroken:
    return PatchBroken(source.label, why, "Fetch or make the patches again")


def patch_bundle(before: Path, patches: Path, out: Path, trust: Trust | None = None) -> str:
    """Writes the new bundle out of the old one and patches, bit for bit; it is verified before it is there.

    Args:
        before: the bundle that they were made from, a folder or zip file.
        patches: of `write_patches`, a folder or zip file; from anybody.
        out: the bundle folder to write.
        trust: who may have signed the new bundle; see `verify_bundle`.

    Returns:
        The id of the new bundle.

    Raises:
        PatchBroken: patches of another bundle, or that do not lead where they say. Nothing is written.
        Refused, BundleCheckFailed: see `verify_bundle`. Nothing is written.
    """
    require_modules(PACKAGES, "patches")
    check_free(out)
    with open_source(patches) as source, open_source(before) as old:
        plan = _read_index(source)
        if (base := bundle_id(before)) != plan.base:
            why = f"they lead from the bundle {plan.base[:16]}, and this is {base[:16]}"
            raise PatchBroken(source.label, why, "Give the bundle that they were made from")
        expected = {INDEX, *(f"{FOLDER}/{name}" for name, entry in plan.files.items() if entry.how != COPY)}
        odd = sorted({*source.sizes, *source.odd} ^ expected)
        if odd or source.odd:
            raise _broken(source, f"{(odd or source.odd)[0][:200]!r} is missing, or not in {INDEX}")
        with atomic_dir(out, owner=MANIFEST, ours=BUNDLE_ENTRIES) as folder:
            for name, entry in sorted(plan.files.items()):
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(_restored(old, source, name, entry))
            if bundle_id(folder) != plan.target:
                raise _broken(source, f"they lead to another bundle than {plan.target[:16]}")
            verify_bundle(folder, trust)
    return plan.target


def _restored(old: BundleSource, source: BundleSource, name: str, entry: PatchEntry) -> bytes:
    """One file of the new bundle."""
    where = f"{source.label}/{FOLDER}/{name}"
    if entry.how == WHOLE:
        known = b""
    elif name not in old.sizes:
        raise PatchBroken(where, "the old bundle has no such file", "Give the bundle that they were made from")
    else:
        known = read_whole(old, name, MAX_ARCHIVE_BYTES if entry.how == COPY else MAX_DELTA_BYTES)
    if entry.how == COPY:
        found = known
    else:
        if entry.how != WHOLE and entry.bytes > MAX_DELTA_BYTES:
            raise _broken(source, f"{name} is larger than {MAX_DELTA_BYTES} bytes, and such files ship whole")
        found = apply_delta(entry.how, known, read_whole(source, f"{FOLDER}/{name}", entry.patch_bytes), entry.bytes, where)
    if hashlib.sha256(found).hexdigest() != entry.sha256 or len(found) != entry.bytes:
        raise PatchBroken(where, "it leads to another file than it says", "Fetch or make the patches again")
    return found
