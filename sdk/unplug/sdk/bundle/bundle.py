"""The bundle, ``unplug-bundle/1``: the folder that ships. Readers treat it as hostile input.

The signature comes with the ledger; until then ``manifest.json`` says ``"signature": null``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import (
    STRICT,
    CheckFailed,
    IOSpec,
    ReportError,
    atomic_dir,
    check_replaceable,
    read_dataclass,
    sha256_file,
    write_json,
)
from unplug.export import Artifact

from .binding import gate_problems, model_problems

SCHEMA: Literal["unplug-bundle/1"] = "unplug-bundle/1"
MANIFEST = "manifest.json"
BUNDLE_ENTRIES = ("README.md", "artifacts", "reports", "test_vectors")
MAX_FILES = 4096
MAX_MANIFEST_BYTES = 8 * 2**20
DISTRUST = "Do not use it; fetch or make it again"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}")


class BundleCheckFailed(CheckFailed):
    """A bundle's content is not what its manifest says."""


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One file of a bundle."""

    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One condition of a release; a null value was not measured.

    Args:
        inconclusive: it does not hold, but only because too little is known: more people, or another design, may show it.
    """

    name: str
    value: float | None
    limit: float
    comparison: Literal["<=", ">="]
    passed: bool
    unit: str
    detail: str
    inconclusive: bool = False

    def explain(self) -> str:
        """One clause: by how much it holds or fails, or why nobody can tell."""
        if self.value is None:
            return f"{self.name}: nothing measured ({self.detail}), must be {self.comparison} {self.limit:g}{self.unit}"
        return f"{self.name}: {self.value:.4g}{self.unit}, must be {self.comparison} {self.limit:g}{self.unit}"


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """Where a bundle's model comes from, in hashes: nothing here names a person, a sample or a place."""

    original_sha256: str
    checkpoint_sha256: str
    data_digest: str
    forget_samples: int
    method: str
    compute_fraction: float
    ledger_head: str | None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """``unplug-bundle/1``: ``manifest.json``.

    Args:
        schema: always ``unplug-bundle/1``.
        signature: null, until bundles are signed: a text that nobody can check is refused, for it is no signature.
        model_type: key of `unplug.plugins.checkpoint.MODELS`.
        iospec: the named tensors of every artifact.
        preprocessing, postprocessing: what an app does around the model.
        lineage: where the model comes from.
        gates: what held when the bundle was written.
        versions: of Python, unplug and the packages that decide numbers.
        files: every other file of the folder, by its path with forward slashes.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-bundle/1"] = SCHEMA
    signature: None
    model_type: str
    iospec: IOSpec
    preprocessing: dict[str, Any]
    postprocessing: dict[str, Any]
    lineage: Lineage
    gates: tuple[Gate, ...]
    versions: dict[str, str | None]
    files: dict[str, FileEntry]


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
    with atomic_dir(out, owner=MANIFEST, ours=BUNDLE_ENTRIES) as folder:
        (folder / "README.md").write_text(content.card, encoding="utf-8")
        (folder / "artifacts").mkdir()
        for artifact in content.artifacts:
            target = folder / "artifacts" / artifact.path.name
            (shutil.copytree if artifact.path.is_dir() else shutil.copyfile)(artifact.path, target)
            card = artifact.path.with_name(artifact.path.name + ".json")
            shutil.copyfile(card, target.with_name(card.name))
        shutil.copytree(content.vectors, folder / "test_vectors")
        for item in folder.rglob("*"):
            # Converters write some files for their owner only; a web server of another user must read them all.
            item.chmod(0o755 if item.is_dir() else 0o644)
        for name, report in content.reports.items():
            write_json(folder / "reports" / name, report)
        manifest = {"schema": SCHEMA, "signature": None, **content.facts, "files": _inventory(folder)}
        write_json(folder / MANIFEST, manifest)
    return out


def _inventory(folder: Path) -> dict[str, dict[str, Any]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): {"sha256": sha256_file(path), "bytes": path.stat().st_size} for path in files}


def check_free(out: Path) -> None:
    """Refuses a place for a bundle that something else has taken, before the work."""
    check_replaceable(out, MANIFEST, BUNDLE_ENTRIES)


def read_manifest(bundle: Path) -> Manifest:
    """The manifest of a bundle folder.

    Raises:
        ReportError: no bundle.
        BundleCheckFailed: a manifest that is too large, not of this schema, or names a file that leads out of the folder.
    """
    if not (bundle / MANIFEST).is_file():
        raise ReportError(str(bundle), "no manifest.json in it", "Give a bundle folder that `unplug release` wrote")
    try:
        manifest = read_dataclass(Manifest, bundle / MANIFEST, ReportError, max_bytes=MAX_MANIFEST_BYTES)
    except ReportError as error:
        raise BundleCheckFailed(error.what, error.why, DISTRUST) from error
    if len(manifest.files) > MAX_FILES:
        raise BundleCheckFailed(str(bundle), f"its manifest names more than {MAX_FILES} files", DISTRUST)
    for name in manifest.files:
        if not all(_SAFE.fullmatch(part) for part in name.split("/")):
            raise BundleCheckFailed(str(bundle), f"its manifest.json names an unsafe file {name[:80]!r}", DISTRUST)
    return manifest


def verify_bundle(bundle: Path) -> Manifest:
    """Checks every file of a bundle against its manifest, its gates, and that all of it is about one model.

    Returns:
        The manifest.

    Raises:
        ReportError, BundleCheckFailed: see `read_manifest`.
        BundleCheckFailed: a file is missing, changed, a link, or not in the manifest; a gate failed or is missing; a card,
            the audit and the lineage name different weights.
    """
    manifest = read_manifest(bundle)
    # All that is no plain folder: pipes and devices have no place in a bundle either.
    items = [path for path in islice(bundle.rglob("*"), 2 * MAX_FILES) if path.is_symlink() or not path.is_dir()]
    present = {path.relative_to(bundle).as_posix() for path in items}
    listed = set(manifest.files) | {MANIFEST}
    for name in sorted(present ^ listed):
        why = f"{name} is missing" if name in listed else f"{name[:200]!r} is not in the manifest"
        raise BundleCheckFailed(str(bundle), why, DISTRUST)
    for item in sorted(items):
        if item.is_symlink() or not item.is_file():
            raise BundleCheckFailed(str(bundle), f"{item.relative_to(bundle)} is a link or no plain file", DISTRUST)
    for name, entry in manifest.files.items():
        path = bundle / name
        if path.stat().st_size != entry.bytes or sha256_file(path) != entry.sha256:
            raise BundleCheckFailed(str(bundle), f"{name} was changed", DISTRUST)
    for problem in (*gate_problems(manifest.gates), *model_problems(bundle, manifest)):
        raise BundleCheckFailed(str(bundle), problem, DISTRUST)
    return manifest
