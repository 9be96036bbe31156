"""The bundle, ``unplug-bundle/2``: the folder that ships. Readers treat it as hostile input."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from unplug.core import (
    InputError,
    atomic_dir,
    check_replaceable,
    sha256_file,
    temporary_folder,
    write_json,
)
from unplug.export import Artifact, write_card

from .binding import gate_problems, model_problems
from .manifest import MAX_MANIFEST_BYTES, SCHEMA, FileEntry, Lineage, Manifest, as_second
from .refused import DISTRUST, BundleCheckFailed, Refused
from .signed_json import canonical, strict_json, validated
from .signing import Signing, write_manifest
from .source import (
    MANIFEST,
    MAX_FILES,
    SIGNATURE,
    BundleSource,
    blocks,
    check_bytes,
    check_listed,
    check_names,
    holds_manifest,
    open_source,
    read_whole,
)
from .trust import Trust
from .verifier import verify

HEAD_FILE = "shared-head.safetensors"
"""The weights that the members of a family share."""
BUNDLE_ENTRIES = (
    "README.md",
    "artifacts",
    "members",
    HEAD_FILE,
    "reports",
    "test_vectors",
    SIGNATURE,
)


@dataclass(frozen=True, kw_only=True)
class Content:
    """What goes into a bundle.

    Args:
        artifacts: exported files with their cards.
        reports: file name to JSON-ready report, without anything that names a forgotten person.
        vectors: a folder of test vectors.
        card: Markdown for ``README.md``.
        facts: the rest of the manifest (iospec, lineage, summaries).
        members: the files of every member of a family but the reference.
        head: the file of the weights that they share.
    """

    artifacts: Sequence[Artifact]
    reports: dict[str, Any]
    vectors: Path
    card: str
    facts: dict[str, Any]
    members: Mapping[str, Sequence[Artifact]] = field(default_factory=dict)
    head: Path | None = None


def write_bundle(content: Content, out: Path, signing: Signing | None = None) -> Path:
    """Writes a bundle folder atomically; where it is to be signed it is there signed, or not at
    all.

    Args:
        content: the bundle's contents.
        out: the folder.
        signing: the signer and the release's place; None leaves it unsigned.

    Raises:
        OutputError: `out` is taken by something else or cannot be written.
        BundleCheckFailed: it is to be signed, and a gate does not hold or it is not about one
            model. Nothing is written.
    """
    with atomic_dir(out, owner=MANIFEST, ours=BUNDLE_ENTRIES, private=False) as folder:
        (folder / "README.md").write_text(content.card, encoding="utf-8")
        members = {f"members/{name}": files for name, files in content.members.items()}
        placed = {"artifacts": content.artifacts, **members}
        for place, artifact in ((key, item) for key, files in placed.items() for item in files):
            target = folder / place / artifact.path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if artifact.path.is_dir() else shutil.copyfile)(artifact.path, target)
            # what is signed holds no times
            write_card(target, replace(artifact.card, seconds=0.0, prepare_seconds=0.0))
        if content.head is not None:
            shutil.copyfile(content.head, folder / HEAD_FILE)
        shutil.copytree(content.vectors, folder / "test_vectors")
        for name, report in content.reports.items():
            write_json(folder / "reports" / name, report)
        _finish(folder, {**content.facts, "files": inventory(folder)}, signing)
    return out


def _finish(folder: Path, facts: dict[str, Any], signing: Signing | None) -> None:
    """The manifest of a folder and, where it is to be signed, the checks before that and the
    signature.
    """
    publication = None if signing is None else asdict(signing.publication)
    write_manifest(folder, {**facts, "schema": SCHEMA, "publication": publication})
    if signing is not None:
        _check_whole(folder, read_manifest(folder), signed=True)
        signing.seal(folder)


def inventory(folder: Path) -> dict[str, dict[str, Any]]:
    """SHA-256 and bytes of every file of a folder, by its path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {
            "sha256": sha256_file(path),
            "bytes": path.stat().st_size,
        }
        for path in files
    }


def check_free(out: Path) -> None:
    """Refuses a place for a bundle that something else has taken, before the work."""
    check_replaceable(out, MANIFEST, BUNDLE_ENTRIES)


def _check_descent(new: Lineage, old: Lineage, path: Path) -> None:
    """Two models of one original forgot other people each; which is for `unplug release` to look
    at, which has the data.
    """
    if (
        new.original_sha256 == old.original_sha256
        and new.checkpoint_sha256 != old.checkpoint_sha256
    ):
        why = (
            f"it was made from the original of {path} and not from its model, so whom that one "
            "forgot may come back"
        )
        start = (
            f"Release it from that model (SHA-256 {old.checkpoint_sha256}) with `unplug release "
            f"... --supersedes {path}`"
        )
        raise InputError("the bundle", why, start)


def read_manifest(bundle: Path) -> Manifest:
    """The manifest of a bundle, a folder or a zip file of one, of either version. Nothing is
    verified.

    Raises:
        ReportError: no bundle.
        BundleCheckFailed: a manifest that is too large, not of a known schema, or names a file that
            leads out of the folder.
    """
    with open_source(bundle) as source:
        return _manifest(source)


def bundle_id(bundle: Path) -> str:
    """What a bundle is called where others name it: the SHA-256 of its manifest, which nobody has
    verified here.
    """
    with open_source(bundle) as source:
        holds_manifest(source)
        return hashlib.sha256(read_whole(source, MANIFEST, MAX_MANIFEST_BYTES)).hexdigest()


def _manifest(source: BundleSource) -> Manifest:
    holds_manifest(source)
    return manifest_of(
        read_whole(source, MANIFEST, MAX_MANIFEST_BYTES), f"{source.label}/{MANIFEST}"
    )


def manifest_of(raw: bytes, where: str) -> Manifest:
    """A manifest out of its bytes; see `read_manifest`."""
    try:
        value = canonical(as_second(strict_json(raw)))
    except ValueError as error:
        why = f"it does not follow its schema (the file: {error})"
        raise Refused("manifest", where, why) from error
    try:
        manifest = validated(Manifest, value)
    except ValueError as error:
        raise Refused("manifest", where, str(error)) from error
    if len(manifest.files) > MAX_FILES:
        raise Refused("too-many", where, f"it names more than {MAX_FILES} files")
    check_names(sorted(manifest.files), where)
    return manifest


def verify_bundle(
    bundle: Path, trust: Trust | None = None, *, now: datetime | None = None
) -> Manifest:
    """Checks a bundle: its signature where it has one, every file, its gates, and that all of it is
    about one model.

    Args:
        bundle: a folder, or a zip file of one.
        trust: the keys that may have signed it, and what is known already; None takes an unsigned
            bundle, and no signed one.
        now: the time, UTC; None takes the clock's.

    Returns:
        The manifest.

    Raises:
        ReportError, BundleCheckFailed: see `read_manifest`.
        Refused: it is not signed by whom is trusted, or must not be used any more; see `verify`.
        BundleCheckFailed: a file is missing, changed, a link, or not in the manifest; a gate failed
            or is missing, or was overridden and nobody signed that; a card, the audit and the
            lineage name different weights.
    """
    with open_source(bundle) as source:
        manifest = _manifest(source)
        signed = trust is not None or SIGNATURE in source.sizes
        if signed:
            verified = verify(source, trust or Trust(), now=now)
            manifest = manifest_of(verified.manifest, source.label)
        else:
            check_files(source, manifest.files)
        with _as_folder(source, bundle, manifest) as folder:
            _check_whole(folder, manifest, signed=signed, label=str(bundle))
    return manifest


def _check_whole(
    folder: Path, manifest: Manifest, *, signed: bool, label: str | None = None
) -> None:
    """Checks that every gate holds or its override is signed, and all parts are about one model."""
    for problem in (
        *gate_problems(manifest.gates, signed=signed),
        *model_problems(folder, manifest),
    ):
        raise BundleCheckFailed(label or str(folder), problem, DISTRUST)


def check_files(
    source: BundleSource, files: Mapping[str, FileEntry], *, has_manifest: bool = True
) -> None:
    """Checks that an unsigned bundle holds what its own manifest says.

    Args:
        source: the source of the files.
        files: the files that the manifest lists.
        has_manifest: whether it is among them.

    Raises:
        Refused: ``link``, or see `check_listed` and `check_bytes`.
    """
    if links := sorted(files.keys() & {*source.odd}):
        raise Refused("link", source.label, f"{links[0]} is a link, or not a plain file")
    check_listed(source, files.keys() | ({MANIFEST} if has_manifest else set()))
    sizes = {name: entry.bytes for name, entry in files.items()}
    check_bytes(source, sizes, {name: entry.sha256 for name, entry in files.items()})


@contextmanager
def _as_folder(source: BundleSource, bundle: Path, manifest: Manifest) -> Iterator[Path]:
    """A folder with the files of a bundle that was checked; of an archive a temporary one."""
    if bundle.is_dir():
        yield bundle
        return
    with temporary_folder(".bundle.", None) as folder:
        unpack(source, manifest, folder)
        yield folder


def unpack(source: BundleSource, manifest: Manifest, folder: Path) -> None:
    """Copies a bundle's files but the signature into an empty folder, each hashed as it is copied.

    Raises:
        Refused: ``changed``: a file is not the one that was checked.
    """
    for name, entry in sorted(manifest.files.items()):
        target, hashed = folder / name, hashlib.sha256()
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            for block in blocks(source, name):
                hashed.update(block)
                out.write(block)
        if hashed.hexdigest() != entry.sha256:
            raise Refused("changed", source.label, f"{name} was changed while it was read")


def sign_bundle(bundle: Path, signing: Signing, out: Path) -> str:
    """Publishes a bundle: verifies it, then writes it with the signer's word and signature, in one
    step.

    Args:
        bundle: a folder or zip file, signed before or not; an older signature is replaced.
        signing: the signer and the release's place.
        out: the folder to write; it may be `bundle` itself.

    Returns:
        The id of the signed bundle: SHA-256 of its manifest.

    Raises:
        BundleCheckFailed: a file was changed, a gate does not hold, it is not about one model.
            Nothing is signed then.
        InputError: it was made from the same original as one that it takes the place of, and
            nothing shows that whom that one forgot stay forgotten.
    """
    check_free(out)
    for path in signing.earlier:
        _check_descent(read_manifest(bundle).lineage, read_manifest(path).lineage, path)
    with (
        open_source(bundle) as source,
        atomic_dir(out, owner=MANIFEST, ours=BUNDLE_ENTRIES) as folder,
    ):
        manifest = _manifest(source)
        check_listed(source, manifest.files.keys() | {MANIFEST})
        unpack(source, manifest, folder)
        facts = as_second(strict_json(read_whole(source, MANIFEST, MAX_MANIFEST_BYTES)))
        _finish(folder, facts, signing)
        return sha256_file(folder / MANIFEST)


def artifact_paths(
    subjects: Sequence[Path], trust: Trust | None = None, *, members: bool = False
) -> list[Path]:
    """Exported files that are named, and those that named bundles hold.

    Args:
        subjects: files, and folders of bundles.
        trust: the keys that may have signed the bundles, see `verify_bundle`.
        members: those of the members of a family as well.

    Raises:
        InputError: a subject that is neither.
        BundleCheckFailed: a bundle that is not what its manifest says.
    """
    paths: list[Path] = []
    for subject in subjects:
        if not subject.exists():
            raise InputError(
                str(subject), "no such checkpoint, exported file or bundle", "Check the path"
            )
        if (subject / "manifest.json").is_file():
            manifest = verify_bundle(subject, trust)
            names = all_exported_files(manifest) if members else exported_files(manifest)
            paths += [subject / name for name in names]
        else:
            paths.append(subject)
    return paths


def all_exported_files(manifest: Manifest) -> list[str]:
    """`exported_files` of the model, then of the members of its family."""
    places = {"/".join(name.split("/")[:2]) for name in manifest.files}
    members = sorted(place for place in places if place.startswith("members/"))
    return [name for place in ("artifacts", *members) for name in exported_files(manifest, place)]


def exported_files(manifest: Manifest, place: str = "artifacts") -> list[str]:
    """The exported files in a folder of a bundle, by their paths in it: those with a card.

    Args:
        manifest: the bundle's, verified.
        place: ``members/NAME`` for those of a member of a family.
    """
    cards = (name for name in manifest.files if name.startswith(f"{place}/"))
    depth = place.count("/") + 1
    return sorted(
        name.removesuffix(".json")
        for name in cards
        if name.count("/") == depth and name.endswith(".json")
    )
