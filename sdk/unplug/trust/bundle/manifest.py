"""What ``manifest.json`` says, ``unplug-bundle/2``; an ``unplug-bundle/1`` is read as a bundle that
nobody published.

And what differs between two of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, IOSpec

SCHEMA: Literal["unplug-bundle/2"] = "unplug-bundle/2"
FIRST_SCHEMA: Literal["unplug-bundle/1"] = "unplug-bundle/1"
MAX_MANIFEST_BYTES = 8 * 2**20


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One file of a bundle."""

    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One condition of a release; a null value was not measured.

    Args:
        inconclusive: it does not hold, but only because too little is known: more people, or
            another design, may show it.
        override: why it was shipped all the same, though it does not hold; None where
            nobody had to.
    """

    name: str
    value: float | None
    limit: float
    comparison: Literal["<=", ">="]
    passed: bool
    unit: str
    detail: str
    inconclusive: bool = False
    override: str | None = None

    @property
    def ships(self) -> bool:
        """Whether it holds, or somebody answers for it that it does not."""
        return self.passed or self.override is not None

    def explain(self) -> str:
        """One clause: by how much it holds or fails, or why nobody can tell."""
        if self.value is None:
            return (
                f"{self.name}: nothing measured ({self.detail}), must be {self.comparison} "
                f"{self.limit:g}{self.unit}"
            )
        return (
            f"{self.name}: {self.value:.4g}{self.unit}, must be {self.comparison} "
            f"{self.limit:g}{self.unit}"
        )


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """Where a bundle's model comes from, in hashes: nothing here names a person, a sample or a
    place.
    """

    original_sha256: str
    checkpoint_sha256: str
    data_digest: str
    forget_samples: int
    method: str
    compute_fraction: float
    ledger_head: str | None


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What the signer of a bundle says of its place among the others.

    Args:
        name: the product; releases are counted, superseded and revoked within one.
        release: counts up with every release of the product, from 1.
        expires: UTC, ``2027-05-01T00:00:00Z``, from when on it is refused; None never.
        supersedes: bundles that this one takes the place of, by the SHA-256 of their manifest.
        revokes: bundles that must not be used any more.
        requests: the ids of the requests that it answers, as in the ledger: opaque, they name
            nobody.
    """

    name: str
    release: int
    expires: str | None = None
    supersedes: tuple[str, ...] = ()
    revokes: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """``unplug-bundle/2``: ``manifest.json``, in the canonical spelling of RFC 8785.

    A bundle is identified by the SHA-256 of this file.

    Args:
        schema: always ``unplug-bundle/2``.
        publication: the signer's statement; null in a bundle that was not signed.
        model_type: key of `unplug.plugins.checkpoint.MODELS`.
        iospec: the named tensors of every artifact.
        preprocessing, postprocessing: the steps of an app around the model.
        lineage: the model's origin.
        gates: the gates that held when the bundle was written, with the limit of each.
        versions: the versions of Python, unplug and the packages that decide numbers.
        files: every other file of the folder but the signature, by its path with forward slashes.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-bundle/2"] = SCHEMA
    publication: Publication | None
    model_type: str
    iospec: IOSpec
    preprocessing: dict[str, Any]
    postprocessing: dict[str, Any]
    lineage: Lineage
    gates: tuple[Gate, ...]
    versions: dict[str, str | None]
    files: dict[str, FileEntry]


def as_second(value: Any) -> Any:
    """The JSON of a manifest of either version in the form of the second; what is neither comes
    back as it was.

    ``unplug-bundle/1`` had a field for a signature that nobody could check: null, or it is refused.

    Raises:
        ValueError: a first version with anything under ``signature``.
    """
    if not isinstance(value, dict) or value.get("schema") != FIRST_SCHEMA:
        return value
    if value.get("signature", 0) is not None:
        raise ValueError("signature: a first version holds none that anybody could check")
    rest = {key: item for key, item in value.items() if key != "signature"}
    return {**rest, "schema": SCHEMA, "publication": None}


@dataclass(frozen=True, kw_only=True)
class ManifestDifference:
    """What a reader of two releases wants to know.

    Args:
        added, removed, changed: files by path; bytes of each before and after.
        facts: every other field of the manifest that differs, ``lineage.method`` for example,
            before and after.
    """

    added: dict[str, int]
    removed: dict[str, int]
    changed: dict[str, tuple[int, int]]
    facts: dict[str, tuple[object, object]]


def diff_bundles(before: Manifest, after: Manifest) -> ManifestDifference:
    """Compares two manifests; gates are compared by their value, by name."""
    old, new = before.files, after.files
    left, right = _flat(before), _flat(after)
    return ManifestDifference(
        added={name: new[name].bytes for name in sorted(new.keys() - old.keys())},
        removed={name: old[name].bytes for name in sorted(old.keys() - new.keys())},
        changed={
            name: (old[name].bytes, new[name].bytes)
            for name in sorted(old.keys() & new.keys())
            if old[name] != new[name]
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
    facts: dict[str, object] = {"model_type": manifest.model_type}
    for section in (
        "publication",
        "iospec",
        "preprocessing",
        "postprocessing",
        "lineage",
        "versions",
    ):
        facts |= {f"{section}.{key}": item for key, item in (value[section] or {}).items()}
    return facts | {f"gates.{name}": item for name, item in gates.items()}
