"""A bundle as one zip file, the same bytes for the same bundle; and what differs between two bundles."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

from unplug.core import OutputError, atomic_path

from .bundle import read_manifest
from .envelope import MAX_SIGNATURE_BYTES
from .manifest import MAX_MANIFEST_BYTES, Manifest
from .refused import Refused
from .source import MANIFEST, MAX_ARCHIVE_BYTES, SIGNATURE, blocks, open_source, read_whole

_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file knows: when it was packed is nobody's business
_MODE = 0o100644 << 16


def pack_bundle(bundle: Path, out: Path) -> str:
    """Writes a bundle as a zip file, each file hashed as it is packed.

    Args:
        bundle: a folder, or a zip file, which is packed anew.
        out: the file to write.

    Returns:
        SHA-256 of the manifest, the bundle's id.

    Raises:
        Refused: ``changed``, ``missing``, ``unlisted``, ...: it is not what its manifest says.
        OutputError: it is larger than what readers take in one file.
    """
    manifest = read_manifest(bundle)
    with open_source(bundle) as source:
        raw = read_whole(source, MANIFEST, MAX_MANIFEST_BYTES)
        whole = {MANIFEST: raw}
        if SIGNATURE in source.sizes:
            whole[SIGNATURE] = read_whole(source, SIGNATURE, MAX_SIGNATURE_BYTES)
        if sum(source.sizes.values()) > MAX_ARCHIVE_BYTES:
            raise OutputError(str(out), f"it holds more than {MAX_ARCHIVE_BYTES} bytes", "Ship it as a folder")
        for name in sorted((source.sizes.keys() | {*source.odd}) ^ (manifest.files.keys() | whole.keys())):
            missing = name in manifest.files
            raise Refused("missing" if missing else "unlisted", source.label, f"{name[:200]!r} is {_WHY[missing]}")
        with atomic_path(out) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in sorted(whole.items()):
                archive.writestr(_entry(name), content, zipfile.ZIP_DEFLATED)
            for name, entry in sorted(manifest.files.items()):
                found = hashlib.sha256()
                with archive.open(_entry(name), "w") as target:
                    for block in blocks(source, name):
                        found.update(block)
                        target.write(block)
                if found.hexdigest() != entry.sha256:
                    raise Refused("changed", source.label, f"{name} was changed")
    return hashlib.sha256(raw).hexdigest()


_WHY = {True: "missing", False: "not in the manifest"}


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _LONG_AGO)
    info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, _MODE, 3
    return info


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What a reader of two releases wants to know.

    Args:
        added, removed, changed: files by path; bytes of each before and after.
        facts: every other field of the manifest that differs, ``lineage.method`` for example, before and after.
    """

    added: dict[str, int]
    removed: dict[str, int]
    changed: dict[str, tuple[int, int]]
    facts: dict[str, tuple[object, object]]


def diff_bundles(before: Manifest, after: Manifest) -> Difference:
    """Compares two manifests; gates are compared by their value, by name."""
    old, new = before.files, after.files
    left, right = _flat(before), _flat(after)
    return Difference(
        added={name: new[name].bytes for name in sorted(new.keys() - old.keys())},
        removed={name: old[name].bytes for name in sorted(old.keys() - new.keys())},
        changed={
            name: (old[name].bytes, new[name].bytes) for name in sorted(old.keys() & new.keys()) if old[name] != new[name]
        },
        facts={
            name: (left.get(name), right.get(name))
            for name in sorted(left.keys() | right.keys())
            if left.get(name) != right.get(name)
        },
    )


def _flat(manifest: Manifest) -> dict[str, object]:
    """All but the files, two levels deep."""
    value = asdict(manifest)
    gates = {gate.name: gate.value for gate in manifest.gates}
    found: dict[str, object] = {"model_type": manifest.model_type}
    for section in ("publication", "iospec", "preprocessing", "postprocessing", "lineage", "versions"):
        found |= {f"{section}.{key}": item for key, item in (value[section] or {}).items()}
    return found | {f"gates.{name}": item for name, item in gates.items()}
