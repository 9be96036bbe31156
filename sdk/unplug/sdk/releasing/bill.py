"""A bill of materials of a released model, for the tools of a company that list what it ships:
CycloneDX 1.6, with a model card.

It has what the manifest has, and no time and no serial number: the same release is the same bytes.
Data are named by digest, and by their Croissant metadata where such a file lies with them; the
file itself may name people, and does not ship.

Reference: ECMA-424, CycloneDX Bill of Materials, 1st edition, 2024. Croissant Format Specification
    1.0, MLCommons, 2024.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unplug.core import InputError, parse_json, read_regular, sha256_file
from unplug.export import Artifact
from unplug.sdk.drawing.inference import FAMILY_KEY
from unplug.sdk.evidence.auditing import Estimate
from unplug.sdk.learning.data import spec_parts
from unplug.trust.bundle import HEAD_FILE, ErasureClaim

BILL = "bom.cdx.json"
"""In ``reports``, under the name by which such tools find it."""
CROISSANT, MAX_CROISSANT = "croissant.json", 2**24
"""The name under which data sets are described, and the most bytes that are read of one."""
DISTRIBUTIONS = {"unplug": "unplug-sdk"}


def bill_of_materials(
    name: str,
    title: str,
    manifest: Mapping[str, Any],
    artifacts: Sequence[Artifact],
    errors: Mapping[str, Estimate],
    described: Mapping[str, Any],
    members: Mapping[str, Sequence[Artifact]],
    head: Path | None,
) -> dict[str, Any]:
    """The model with its card, its original, its data by digest, its files and the packages that
    made it.

    Args:
        name: the product.
        title: its kind, in a few words.
        manifest: the bundle's manifest, but for its files.
        artifacts: the exported files.
        errors: error measures on the test set, by their names.
        described: the facts of the data that `croissant_of` found.
        members: the exported files of every member of a family but the reference.
        head: the file of the weights that they share.
    """
    lineage = manifest["lineage"]
    named = {"type": "data", "bom-ref": "data", "name": "training data", **described}
    parts = [
        named | _hashed(lineage["data_digest"]),
        *(_file("artifacts", item) for item in artifacts),
        *_members(manifest, members, head),
        *_packages(manifest["versions"]),
    ]
    notes = f"forgot {lineage['forget_samples']} samples by {lineage['method']}"
    hashes = lineage["checkpoint_sha256"], lineage["original_sha256"]
    model = _model(name, title, *hashes, notes) | {"modelCard": _card(manifest, errors)}
    depends = [{"ref": "model", "dependsOn": ["data"]}, {"ref": "data"}]
    return _bill(model, parts) | {"dependencies": depends}


def bill_of_base(
    name: str, folder: Path, claim: ErasureClaim, versions: Mapping[str, str | None]
) -> dict[str, Any]:
    """An erased base with its original, its files and the packages that erased it.

    Args:
        name: the product.
        folder: the exported files; reports are none of them.
        claim: the concepts that were erased, and the bases before and after.
        versions: packages by name.
    """
    notes = f"erased {', '.join(claim.concepts)} by {claim.method}"
    title = "A text-to-image base as exported files"
    files = sorted(
        (path.relative_to(folder).as_posix(), path)
        for path in folder.rglob("*")
        if path.is_file() and folder / "reports" not in path.parents
    )
    parts = [{"type": "file", "name": at, **_hashed(sha256_file(path))} for at, path in files]
    model = _model(name, title, claim.base_sha256, claim.original_sha256, notes)
    return _bill(model, [*parts, *_packages(versions)])


def croissant_of(spec: str) -> dict[str, Any]:
    """What a bill says of data besides their digest: the name and licences in the Croissant metadata
    ``croissant.json`` next to their table or in their folder, and its SHA-256; nothing where no
    such file is.

    Args:
        spec: the spec of the data.

    Raises:
        InputError: the file is too large, or no JSON object with a name.
    """
    place = spec_parts(spec)[1]
    file = (place if place.is_dir() else place.parent) / CROISSANT
    if not (place.exists() and file.is_file()):
        return {}
    fix = "Mend it, or move it elsewhere"
    raw = read_regular(file, max_bytes=MAX_CROISSANT, too_large=fix)
    try:
        facts = parse_json(raw)
        name, told = facts["name"], facts.get("license", [])
        if not isinstance(name, str):
            raise TypeError("its name is not a text")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(str(file), f"it is not Croissant metadata ({error})", fix) from error
    licences = [item for item in (told if isinstance(told, list) else [told]) if _is_text(item)]
    reference = {
        "type": "documentation",
        "url": CROISSANT,
        "comment": "Croissant metadata next to the data, not in this bundle",
        **_hashed(hashlib.sha256(raw).hexdigest()),
    }
    return {
        "name": name,
        "licenses": [{"license": {"name": item}} for item in licences],
        "externalReferences": [reference],
    }


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _bill(model: dict[str, Any], parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": model},
        "components": parts,
    }


def _model(name: str, title: str, sha256: str, original: str, notes: str) -> dict[str, Any]:
    kind = "machine-learning-model"
    before = {"type": kind, "name": "original", **_hashed(original)}
    return {
        "type": kind,
        "bom-ref": "model",
        "name": name,
        "description": title,
        **_hashed(sha256),
        "pedigree": {"ancestors": [before], "notes": notes},
    }


def _packages(versions: Mapping[str, str | None]) -> Iterable[dict[str, str]]:
    return (_package(name, version) for name, version in sorted(versions.items()) if version)


def _file(place: str, artifact: Artifact) -> dict[str, Any]:
    """One exported file; a folder's hash is none that such a tool could compute."""
    one = {"type": "file", "name": f"{place}/{artifact.path.name}"}
    return one if artifact.path.is_dir() else one | _hashed(artifact.card.sha256)


def _members(
    manifest: Mapping[str, Any], members: Mapping[str, Sequence[Artifact]], head: Path | None
) -> Iterable[dict[str, Any]]:
    """The other models of a family, best first, each with its files, and the head of all."""
    listed = manifest["postprocessing"][FAMILY_KEY]["members"] if members else ()
    for facts in (one for one in listed if one["name"] in members):
        model = {"type": "machine-learning-model", "name": facts["name"]}
        yield model | _hashed(facts["checkpoint_sha256"])
        yield from (_file(f"members/{facts['name']}", item) for item in members[facts["name"]])
    if head is not None:
        yield {"type": "file", "name": HEAD_FILE, **_hashed(sha256_file(head))}


def _card(manifest: Mapping[str, Any], errors: Mapping[str, Estimate]) -> dict[str, Any]:
    spec = manifest["iospec"]
    inputs, outputs = (
        [{"format": f"{one['name']}: {one['dtype']} {list(one['shape'])}"} for one in spec[side]]
        for side in ("inputs", "outputs")
    )
    metrics = [
        {"type": kind, "slice": "test", "value": f"{error.value:.6g}"} | _interval(error)
        for kind, error in errors.items()
    ]
    return {
        "modelParameters": {
            "modelArchitecture": manifest["model_type"],
            "datasets": [{"ref": "data"}],
            "inputs": inputs,
            "outputs": outputs,
        },
        "quantitativeAnalysis": {"performanceMetrics": metrics},
    }


def _interval(error: Estimate) -> dict[str, Any]:
    if error.ends is None:
        return {}
    low, high = (f"{end:.6g}" for end in error.ends)
    return {"confidenceInterval": {"lowerBound": low, "upperBound": high}}


def _package(name: str, version: str) -> dict[str, str]:
    """
    Example:
        >>> _package("unplug", "0.1.0")["purl"], "purl" in _package("python", "3.11.2")
        ('pkg:pypi/unplug-sdk@0.1.0', False)
    """
    found = DISTRIBUTIONS.get(name, name.replace("_", "-"))
    one = {"type": "library", "name": found, "version": version}
    return one if name == "python" else one | {"purl": f"pkg:pypi/{found}@{version}"}


def _hashed(sha256: str) -> dict[str, Any]:
    return {"hashes": [{"alg": "SHA-256", "content": sha256}]}
