"""A base of exported files as a bundle, ``unplug-generator-bundle/1``: the folder that
``unplug export`` wrote, as devices draw with it, with a manifest, reports and a signature added.

Its signature is that of every bundle; readers of age models give it the verdict ``wrong-version``.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from unplug.core import STRICT, InputError, ReportError, atomic_dir, sha256_file

from .binding import EXACT, MAX_REPORT_BYTES, failed_gates
from .bundle import check_files, inventory
from .generator_packs import CarriedPack, DroppedPacks, carried_packs, compare_packs
from .generator_parts import (
    CARD,
    MAX_PIPELINE_BYTES,
    PIPELINE,
    PartsDifference,
    PipelineFiles,
    changed_parts,
    check_parts,
    fetched_bytes,
    pipeline_files,
)
from .manifest import MAX_MANIFEST_BYTES, FileEntry, Gate, Publication
from .refused import DISTRUST, BundleCheckFailed, Refused
from .signed_json import strict_json, validated
from .signing import Signing, write_manifest
from .source import (
    MANIFEST,
    MAX_FILES,
    SIGNATURE,
    BundleSource,
    blocks,
    check_names,
    check_plain,
    holds_manifest,
    is_safe,
    open_source,
    read_whole,
)
from .trust import Trust
from .verifier import verify

GENERATOR_SCHEMA: Literal["unplug-generator-bundle/1"] = "unplug-generator-bundle/1"
Attacker = Literal["prompts", "control images", "text states", "weights"]
ATTACKERS: tuple[Attacker, ...] = get_args(Attacker)
"""What an erasure may be claimed against, the least first."""
ERASED_GATES = ("audit of this base", "concepts audited", "claim", "retained pictures")
AUDIT, RECORD = "reports/audit.json", "reports/erasure.json"


@dataclass(frozen=True, kw_only=True)
class ErasureClaim:
    """What was erased from a base, and what its publisher says of that.

    Args:
        base_sha256: digest of the erased base; original_sha256: of the one before any erasure.
        concepts: words that prompts no longer reach.
        method: the method of the erasure.
        edit_bytes: the size of the map of text states that is the whole edit; None: the edit is in
            the weights.
        against: the most that an attacker may hold, with all who hold less, without getting a
            concept back.
    """

    base_sha256: str
    original_sha256: str
    concepts: tuple[str, ...]
    method: str
    edit_bytes: int | None
    against: Attacker


@dataclass(frozen=True, kw_only=True)
class GeneratorManifest:
    """``unplug-generator-bundle/1``: ``manifest.json``, in the canonical spelling of RFC 8785.

    Args:
        schema: always ``unplug-generator-bundle/1``.
        publication: the signer's statement; null in an unsigned bundle.
        erasure: null where nothing was erased, or nothing is claimed.
        packs: the packs that prompts' words switch on.
        dropped: packs that left with this release; null where none did.
        gates: the gates of the erasure, and of the packs that left.
        files: every other file of the folder but the signature.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-generator-bundle/1"] = GENERATOR_SCHEMA
    publication: Publication | None = None
    erasure: ErasureClaim | None = None
    packs: tuple[CarriedPack, ...] = ()
    dropped: DroppedPacks | None = None
    gates: tuple[Gate, ...] = ()
    files: dict[str, FileEntry] = field(default_factory=dict)


def holds_generator(path: Path) -> bool:
    """Whether a folder or zip file is a base of exported files, signed or not.

    Raises:
        ReportError, Refused: see `open_source`.
    """
    with open_source(path) as source:
        return PIPELINE in source.sizes


def read_generator(bundle: Path) -> GeneratorManifest:
    """The manifest of a generator's bundle, a folder or a zip file; nothing is verified.

    Raises:
        ReportError: no manifest.
        BundleCheckFailed: one that is too large, not of its schema, or names unsafe files.
    """
    with open_source(bundle) as source:
        return _manifest(source)


def _manifest(source: BundleSource) -> GeneratorManifest:
    if MANIFEST not in source.sizes and PIPELINE in source.sizes:
        why = f"it is what `unplug export` wrote: no {MANIFEST} is in it"
        raise ReportError(source.label, why, "Make it a bundle with `unplug bundle sign`")
    holds_manifest(source)
    return _parsed(read_whole(source, MANIFEST, MAX_MANIFEST_BYTES), source.label)


def _parsed(raw: bytes, where: str) -> GeneratorManifest:
    try:
        strict_json(raw)
        manifest = validated(GeneratorManifest, raw)
    except ValueError as error:
        raise Refused("manifest", f"{where}/{MANIFEST}", str(error)) from error
    if len(manifest.files) > MAX_FILES:
        raise Refused("too-many", where, f"it names more than {MAX_FILES} files")
    check_names(sorted(manifest.files), where)
    return manifest


def verify_generator(
    bundle: Path, trust: Trust | None = None, *, now: datetime | None = None
) -> GeneratorManifest:
    """Checks a generator's bundle: its signature where it has one, every file, that
    ``pipeline.json`` names all parts and no other lies there, that its erasure's reports say what
    it claims, and that no pack is there of which it says that it left.

    Args:
        bundle, trust, now: see `verify_bundle`.

    Raises:
        ReportError, BundleCheckFailed: see `read_generator`.
        Refused: not signed by whom is trusted, a file was changed, is missing or too many; see
            `verify` and `check_parts`.
        BundleCheckFailed: a gate does not hold, or the reports are about something else.
    """
    with open_source(bundle) as source:
        manifest = _manifest(source)
        if trust is not None or SIGNATURE in source.sizes:
            found = verify(source, trust or Trust(), now=now, schema=GENERATOR_SCHEMA)
            manifest = _parsed(found.manifest, source.label)
        else:
            check_plain(source)
            check_files(source, manifest.files)
        _check_whole(source, manifest)
    return manifest


def verify_dropped(
    bundle: Path, before: Path, trust: Trust | None = None, *, now: datetime | None = None
) -> GeneratorManifest:
    """Checks that packs left a base, from the bundle before and the one after alone: their rows are
    nowhere in it, and all the rest is equal.

    Args:
        bundle, trust, now: see `verify_generator`.
        before: the bundle that had the packs; the other one names it by its SHA-256.

    Raises:
        Refused, BundleCheckFailed: see `verify_generator`; or no pack is said to have left, another
            bundle is named, or something else differs.
        CheckFailed: see `compare_packs`.
    """
    manifest = verify_generator(bundle, trust, now=now)
    left = packs_left(before, bundle)
    if left is None or left[0] != manifest.dropped or not left[1].passed:
        why = f"it is not {before} without the packs that left"
        raise BundleCheckFailed(str(bundle), why, DISTRUST)
    return manifest


def packs_left(before: Path, after: Path) -> tuple[DroppedPacks, Gate] | None:
    """Which packs of a bundle are not in the next one, and whether all the rest is equal; None
    where all are there.

    Args:
        before: a bundle, by whomever it is signed; every file must be as its manifest says.
        after: a bundle that was verified.

    Raises:
        ReportError, Refused, BundleCheckFailed: `before` is not a bundle of a base, or not whole.
        CheckFailed: see `compare_packs`.
    """
    with open_source(before) as old, open_source(after) as new:
        manifest = _manifest(old)
        check_plain(old)
        check_files(old, manifest.files)
        _check_whole(old, manifest)
        found = compare_packs(old, new)
        if found is None:
            return None
        sha256 = hashlib.sha256(read_whole(old, MANIFEST, MAX_MANIFEST_BYTES)).hexdigest()
    packs, gate = found
    return DroppedPacks(before=sha256, packs=packs), gate


def _check_whole(source: BundleSource, manifest: GeneratorManifest) -> None:
    """Checks that all files, which were hashed before, belong together."""
    raw = _read(source, manifest, PIPELINE, MAX_PIPELINE_BYTES)
    pipeline = pipeline_files(raw, source.label)
    check_parts(pipeline, manifest.files, source.label)
    problems = (_pack_problems(pipeline, manifest), _problems(source, manifest))
    for problem in itertools.chain(*problems):
        raise BundleCheckFailed(source.label, problem, DISTRUST)


def _pack_problems(pipeline: PipelineFiles, manifest: GeneratorManifest) -> Iterator[str]:
    """What keeps packs from being those that it names, or from having left."""
    told = [(pack.word, pack.sha256) for pack in manifest.packs]
    if told != [(pack.word, pack.sha256) for pack in carried_packs(pipeline)]:
        yield f"its manifest names other packs than {PIPELINE}"
    if manifest.dropped is not None:
        if EXACT not in {gate.name for gate in manifest.gates}:
            yield f"it was not judged by the gate {EXACT!r}"
        yield from failed_gates(manifest.gates, signed=False)
        there = {item.sha256 for item in pipeline.variants.values()}
        if not there.isdisjoint(pack.sha256 for pack in manifest.dropped.packs):
            yield "a pack of which it says that it left is there"


def _read(source: BundleSource, manifest: GeneratorManifest, name: str, most: int) -> bytes:
    """A small file of a bundle, which is still the one that the manifest lists."""
    if name not in manifest.files:
        raise Refused("missing", source.label, f"{name} is missing")
    raw = read_whole(source, name, most)
    if hashlib.sha256(raw).hexdigest() != manifest.files[name].sha256:
        raise Refused("changed", source.label, f"{name} was changed")
    return raw


def _problems(source: BundleSource, manifest: GeneratorManifest) -> Iterator[str]:
    """What keeps an erasure from being claimed."""
    claim = manifest.erasure
    if claim is None:
        return
    yield from failed_gates(manifest.gates, signed=False)
    for name in {*ERASED_GATES} - {gate.name for gate in manifest.gates}:
        yield f"it was not judged by the gate {name!r}"
    try:
        audit, record = (
            strict_json(_read(source, manifest, name, MAX_REPORT_BYTES)) for name in (AUDIT, RECORD)
        )
        yield from _contradictions(claim, audit, record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        yield f"its reports cannot be read ({type(error).__name__})"


def _contradictions(claim: ErasureClaim, audit: Any, record: Any) -> Iterator[str]:
    digests = claim.base_sha256, claim.original_sha256
    if digests != tuple(audit["models"][role]["sha256"] for role in ("erased", "original")):
        yield "its audit is about another base"
    size = None if record["map"] is None else record["map"]["bytes"]
    told = tuple(item["words"] for item in record["concepts"])
    facts = claim.original_sha256, claim.concepts, claim.method, claim.edit_bytes
    if facts != (record["base"]["sha256"], told, record["method"], size):
        yield "its erasure's record says something else than its manifest"
    found = {item["words"]: item["claims"] for item in audit["concepts"]}
    for words in claim.concepts:
        for attacker in ATTACKERS[: ATTACKERS.index(claim.against) + 1]:
            if found.get(words, {}).get(attacker) != "holds":
                yield f"its audit does not say that {words[:60]!r} holds against {attacker}"


def finish_generator(
    folder: Path,
    facts: Mapping[str, Any],
    signing: Signing | None,
    weights: Mapping[str, str] | None = None,
) -> GeneratorManifest:
    """Makes a folder with ``pipeline.json`` a bundle, in place: its manifest, then all that
    `verify_generator` checks, then the signature.

    Args:
        folder: a folder without manifest and signature.
        facts: ``erasure``, ``dropped`` and ``gates``.
        signing: the signer and the release's place; None leaves it unsigned.
        weights: the weights of packs, see `carried_packs`.

    Raises:
        Refused, BundleCheckFailed: see `verify_generator`. Nothing is signed then.
        InputError: see `Signing.seal`, or what a bundle in whose place it comes erased was not
            erased from this one.
    """
    publication = None if signing is None else asdict(signing.publication)
    with open_source(folder) as source:
        packs = carried_packs(_pipeline(source)[0], weights)
    told = {**facts, "schema": GENERATOR_SCHEMA, "publication": publication}
    told["packs"] = [asdict(pack) for pack in packs]
    write_manifest(folder, {**told, "files": inventory(folder)})
    manifest = verify_generator(folder)
    if signing is not None:
        _check_still_erased(manifest, signing)
        signing.seal(folder, GENERATOR_SCHEMA)
    return manifest


def _check_still_erased(new: GeneratorManifest, signing: Signing) -> None:
    for path in signing.earlier:
        claims = read_generator(path).erasure, new.erasure
        before, now = (() if claim is None else claim.concepts for claim in claims)
        if back := sorted({*before} - {*now}):
            why = f"{back[0][:60]!r} was erased from {path}, and not from this one"
            raise InputError("the bundle", why, "Erase it too, or leave out `supersedes`")


def generator_entries(out: Path) -> tuple[str, ...]:
    """What a bundle or a base of exported files at a place holds at its top, for `atomic_dir`."""
    named = {PIPELINE, MANIFEST, SIGNATURE, CARD, "reports"}
    if (out / PIPELINE).is_file():
        with suppress(Refused), open_source(out) as source:
            files = [item.file for part in _pipeline(source)[0].parts().values() for item in part]
            named |= {file.partition("/")[0] for file in files if is_safe(file)}
    return tuple(named)


def sign_generator(bundle: Path, signing: Signing, out: Path) -> str:
    """Publishes a base of exported files: copies it with the signer's word and signature, after all
    checks.

    Args:
        bundle: the folder that ``unplug export`` wrote, or a bundle of it, signed before or not.
        signing: the signer and the release's place.
        out: the folder to write; it may be `bundle` itself.

    Returns:
        SHA-256 of the manifest, the bundle's id.

    Raises:
        Refused, BundleCheckFailed, InputError: see `finish_generator`; nothing is written then.
    """
    with (
        open_source(bundle) as source,
        atomic_dir(out, owner=PIPELINE, ours=generator_entries(out)) as folder,
    ):
        check_plain(source)
        known = _manifest(source) if MANIFEST in source.sizes else None
        _copy(source, source.sizes.keys() - {MANIFEST, SIGNATURE}, folder)
        if known is not None:
            with open_source(folder) as copied:
                check_files(copied, known.files, has_manifest=False)
        told = asdict(GeneratorManifest() if known is None else known)
        facts = {name: told[name] for name in ("erasure", "dropped", "gates")}
        finish_generator(folder, facts, signing, weights_of(*filter(None, [known])))
        return sha256_file(folder / MANIFEST)


def weights_of(*manifests: GeneratorManifest) -> dict[str, str]:
    """The SHA-256 of packs' weights by that of their rows, as manifests have them."""
    packs = (pack for manifest in manifests for pack in manifest.packs)
    return {pack.sha256: pack.weights_sha256 for pack in packs if pack.weights_sha256}


def copy_parts(base: Path, folder: Path) -> None:
    """Copies a base of exported files, signed before or not, without its manifest, signature and
    card.

    Raises:
        Refused, ReportError: see `open_source`; or anything but a plain file.
    """
    with open_source(base) as source:
        check_plain(source)
        _copy(source, source.sizes.keys() - {MANIFEST, SIGNATURE, CARD}, folder)


def _copy(source: BundleSource, names: Iterable[str], folder: Path) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("xb") as target:
            target.writelines(blocks(source, name))


def _pipeline(source: BundleSource) -> tuple[PipelineFiles, bytes]:
    if PIPELINE not in source.sizes:
        fix = "Compare two bases of exported files, or two bundles of models"
        raise InputError(source.label, f"there is no {PIPELINE} in it", fix)
    raw = read_whole(source, PIPELINE, MAX_PIPELINE_BYTES)
    return pipeline_files(raw, source.label), raw


def diff_generators(before: Path, after: Path) -> PartsDifference:
    """Compares two bases of exported files, bundles or not: which parts changed, and what a device
    that has the first fetches again; nothing of them is verified.

    Raises:
        InputError: one of them is not such a base.
        Refused: a broken manifest or ``pipeline.json``.
    """
    pipelines, raws, flat, manifests = [], [], [], []
    for path in (before, after):
        with open_source(path) as source:
            pipeline, raw = _pipeline(source)
            manifest = _manifest(source) if MANIFEST in source.sizes else GeneratorManifest()
        pipelines.append(pipeline)
        raws.append(raw)
        manifests.append(manifest)
        flat.append({"name": pipeline.name} | _flat(manifest))
    changed = changed_parts(*pipelines)
    erasure = manifests[1].erasure
    return PartsDifference(
        changed={part: forms for part, forms in changed.items() if forms},
        same=tuple(part for part, forms in changed.items() if not forms),
        fetched=fetched_bytes(changed, pipelines[1]),
        pipeline_bytes=len(raws[1]) if raws[0] != raws[1] else 0,
        edit_bytes=None if erasure is None else erasure.edit_bytes,
        facts={
            name: (flat[0].get(name), flat[1].get(name))
            for name in sorted({*flat[0], *flat[1]})
            if flat[0].get(name) != flat[1].get(name)
        },
    )


def _flat(manifest: GeneratorManifest) -> dict[str, object]:
    value = asdict(manifest)
    sections = ("publication", "erasure", "dropped")
    facts = {f"{at}.{key}": item for at in sections for key, item in (value[at] or {}).items()}
    return facts | {f"gates.{gate.name}": gate.value for gate in manifest.gates}
