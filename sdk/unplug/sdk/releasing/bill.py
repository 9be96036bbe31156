"""A bill of materials of a released model, for the tools of a company that list what it ships:
CycloneDX 1.6, with a model card.

It has what the manifest has, and no time and no serial number: the same release is the same bytes.

Reference: ECMA-424, CycloneDX Bill of Materials, 1st edition, 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unplug.export import Artifact
from unplug.sdk.evidence.auditing import Estimate

BILL = "bom.cdx.json"
"""In ``reports``, under the name by which such tools find it."""
DISTRIBUTIONS = {"unplug": "unplug-sdk"}


def bill_of_materials(
    name: str,
    title: str,
    manifest: Mapping[str, Any],
    artifacts: Sequence[Artifact],
    errors: Mapping[str, Estimate],
) -> dict[str, Any]:
    """The model with its card, its original, its data by digest, its files and the packages that
    made it.

    Args:
        name: the product.
        title: its kind, in a few words.
        manifest: the bundle's manifest, but for its files.
        artifacts: the exported files.
        errors: error measures on the test set, by their names.
    """
    lineage = manifest["lineage"]
    data = lineage["data_digest"]
    parts = [
        {"type": "data", "bom-ref": "data", "name": "training data", **_hashed(data)},
        *(_file(item) for item in artifacts),
        *(_package(*item) for item in sorted(manifest["versions"].items()) if item[1]),
    ]
    model = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": name,
        "description": title,
        **_hashed(lineage["checkpoint_sha256"]),
        "pedigree": {
            "ancestors": [
                {
                    "type": "machine-learning-model",
                    "name": "original",
                    **_hashed(lineage["original_sha256"]),
                }
            ],
            "notes": f"forgot {lineage['forget_samples']} samples by {lineage['method']}",
        },
        "modelCard": _card(manifest, errors),
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": model},
        "components": parts,
        "dependencies": [{"ref": "model", "dependsOn": ["data"]}, {"ref": "data"}],
    }


def _file(artifact: Artifact) -> dict[str, Any]:
    """One exported file; a folder's hash is none that such a tool could compute."""
    one = {"type": "file", "name": f"artifacts/{artifact.path.name}"}
    return one if artifact.path.is_dir() else one | _hashed(artifact.card.sha256)


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
