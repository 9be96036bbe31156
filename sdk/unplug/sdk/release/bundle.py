"""The bundle, ``unplug-bundle/1``: the folder that ships. Readers treat it as hostile input.

The signature comes with the ledger; until then ``manifest.json`` says ``"signature": null``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.export import Artifact
from unplug.plugins.errors import CheckFailed, ReportError
from unplug.plugins.files import atomic_dir, read_json, sha256_file, write_json

SCHEMA = "unplug-bundle/1"
MANIFEST = "manifest.json"
MAX_FILES = 4096
MAX_MANIFEST_BYTES = 8 * 2**20
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}")


class BundleCheckFailed(CheckFailed):
    """A bundle's content is not what its manifest says."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """What goes into a bundle.

    Args:
        artifacts: exported files with their cards.
        reports: file name to JSON-ready report, without anything that names a forgotten person.
        vectors: a folder of test vectors.
        card: Markdown for ``README.md``.
        facts: the rest of the manifest (iospec, lineage, summaries).
    """

    artifacts: Sequence[Artifact]
    reports: dict[str, Any]
    vectors: Path
    card: str
    facts: dict[str, Any]


def write_bundle(content: Content, out: Path) -> Path:
    """Writes a bundle folder atomically.

    Raises:
        OutputError: `out` is taken by something else or cannot be written.
    """
    with atomic_dir(out, owner=MANIFEST) as folder:
        (folder / "README.md").write_text(content.card, encoding="utf-8")
        (folder / "artifacts").mkdir()
        for artifact in content.artifacts:
            target = folder / "artifacts" / artifact.path.name
            (shutil.copytree if artifact.path.is_dir() else shutil.copyfile)(artifact.path, target)
            card = artifact.path.with_name(artifact.path.name + ".json")
            shutil.copyfile(card, target.with_name(card.name))
        shutil.copytree(content.vectors, folder / "test_vectors")
        for name, report in content.reports.items():
            write_json(folder / "reports" / name, report)
        manifest = {"schema": SCHEMA, "signature": None, **content.facts, "files": _inventory(folder)}
        write_json(folder / MANIFEST, manifest)
    return out


def _inventory(folder: Path) -> dict[str, dict[str, Any]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): {"sha256": sha256_file(path), "bytes": path.stat().st_size} for path in files}


def read_manifest(bundle: Path) -> dict[str, Any]:
    """The manifest of a bundle folder.

    Raises:
        ReportError: no bundle, another schema, or a file name that leads out of the folder.
    """
    if not (bundle / MANIFEST).is_file():
        raise ReportError(str(bundle), "no manifest.json in it", "Give a bundle folder that `unplug release` wrote")
    manifest = read_json(bundle / MANIFEST, max_bytes=MAX_MANIFEST_BYTES)
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA or not isinstance(manifest.get("files"), dict):
        raise ReportError(str(bundle), f"its manifest is not {SCHEMA}", "Make the bundle again with `unplug release`")
    for name, entry in manifest["files"].items():
        parts = name.split("/")
        if (
            len(manifest["files"]) > MAX_FILES
            or not all(_SAFE.fullmatch(part) for part in parts)
            or not isinstance(entry, dict)
        ):
            raise ReportError(str(bundle), f"its manifest names an unsafe file {name[:80]!r}", "Do not use this bundle")
    return manifest


def verify_bundle(bundle: Path) -> dict[str, Any]:
    """Checks every file of a bundle against its manifest; returns the manifest.

    Raises:
        ReportError: see `read_manifest`.
        BundleCheckFailed: a file is missing, changed, or not in the manifest.
    """
    manifest = read_manifest(bundle)
    present = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file() or path.is_symlink()}
    listed = set(manifest["files"]) | {MANIFEST}
    for name in sorted(present ^ listed):
        why = f"{name} is missing" if name in listed else f"{name} is not in the manifest"
        raise BundleCheckFailed(str(bundle), why, "Do not use it; fetch or make it again")
    for name, entry in manifest["files"].items():
        path = bundle / name
        if path.is_symlink() or not path.resolve().is_relative_to(bundle.resolve()):
            raise BundleCheckFailed(str(bundle), f"{name} is a link", "Do not use it; fetch or make it again")
        if path.stat().st_size != entry.get("bytes") or sha256_file(path) != entry.get("sha256"):
            raise BundleCheckFailed(str(bundle), f"{name} was changed", "Do not use it; fetch or make it again")
    return manifest
