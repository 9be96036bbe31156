"""Good and hostile bundles with the verdict that every verifier gives them: ``python -m
tests.vectors.bundles.make FOLDER``.

A case is one JSON file: ``files`` (base64 by path) or ``zip`` (base64), what the reader knows
(``trust``, ``now``) and the ``verdict``. ``links`` are entries of a folder that are no files;
readers of plain maps leave those cases out.
"""

from __future__ import annotations

import base64
import json
import sys
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import utils

from .recipe import (
    CONTENT,
    INNER,
    ORDER,
    OURS,
    THEIRS,
    Recipe,
    boasting,
    drop,
    encrypted,
    high,
    low,
    lying,
    named,
    other_payload,
    padded,
    pem,
    prefixed,
    put,
    raw_pair,
    sha256,
    spaced,
    swap,
    without,
    zipped,
)

NOW = "2026-12-01T00:00:00Z"
CHAIN = {"certificates": [{"rawBytes": "AAAA"}]}
PREDICATE = ("predicate", "serialization")
Item = tuple[str, str, Recipe]

SOUND: list[Item] = [
    ("signed", "valid", Recipe()),
    ("high-s", "valid", Recipe(signature=high)),
    ("low-s", "valid", Recipe(signature=low)),
    ("no-expiry", "valid", Recipe(publication=put("expires", to=None))),
    ("pretty-envelope", "valid", Recipe(envelope_bytes=spaced)),
    ("pretty-statement", "valid", Recipe(payload=spaced)),
    ("no-keyid", "valid", Recipe(envelope=drop(INNER, "signatures", 0, "keyid"))),
    ("no-ignore-paths", "valid", Recipe(statement=drop(*PREDICATE, "ignore_paths"))),
    (
        "surplus-descriptor-field",
        "valid",
        Recipe(statement=put("predicate", "resources", 0, "uri", to="file:///etc/passwd")),
    ),
]
NAMES: list[Item] = [
    ("name-unicode", "unsafe-name", Recipe(content={**CONTENT, "artifacts/\u00e4.bin": b"1"})),
    (
        "name-homoglyph",
        "unsafe-name",
        Recipe(content={**CONTENT, "artifacts/\u0430ge.fp16.tflite": b"1"}),
    ),
    (
        "name-two-forms",
        "unsafe-name",
        Recipe(content={**CONTENT, "a\u0308.bin": b"1", "\u00e4.bin": b"2"}),
    ),
    (
        "name-windows-device",
        "unsafe-name",
        Recipe(content={**CONTENT, "artifacts/NUL.tflite": b"1"}),
    ),
    ("name-trailing-dot", "unsafe-name", Recipe(content={**CONTENT, "artifacts/age.": b"1"})),
    ("name-space", "unsafe-name", Recipe(content={**CONTENT, "artifacts/age .bin": b"1"})),
    ("name-stream", "unsafe-name", Recipe(content={**CONTENT, "README.md:hidden": b"1"})),
    ("name-backslash", "unsafe-name", Recipe(content={**CONTENT, "artifacts\\age": b"1"})),
    ("name-hidden", "unsafe-name", Recipe(content={**CONTENT, ".gitattributes": b"1"})),
    ("name-git", "unsafe-name", Recipe(after=lambda files: {**files, ".git/config": b"[core]"})),
    ("case-collision", "collision", Recipe(content={**CONTENT, "readme.md": b"1"})),
    ("case-collision-folder", "collision", Recipe(content={**CONTENT, "Artifacts/more.bin": b"1"})),
    ("listed-parent", "unsafe-name", Recipe(statement=named("../evil"))),
    ("listed-inner-parent", "unsafe-name", Recipe(statement=named("artifacts/../../evil"))),
    ("listed-absolute", "unsafe-name", Recipe(statement=named("/etc/passwd"))),
    ("listed-drive", "unsafe-name", Recipe(statement=named("C:/windows"))),
    ("listed-empty", "unsafe-name", Recipe(statement=named(""))),
    ("listed-null", "unsafe-name", Recipe(statement=named("a\0b"))),
    ("listed-collision", "collision", Recipe(statement=named("readme.MD"))),
]
CONTENTS: list[Item] = [
    ("missing-file", "missing", Recipe(after=without("reports/audit.json"))),
    (
        "unlisted-file",
        "unlisted",
        Recipe(after=lambda files: {**files, "artifacts/more.bin": b"1"}),
    ),
    (
        "second-signature-file",
        "unlisted",
        Recipe(after=lambda files: {**files, "artifacts/model.sig": b"1"}),
    ),
    ("changed-file", "changed", Recipe(after=lambda files: {**files, "README.md": b"B card.\n"})),
    (
        "longer-file",
        "wrong-size",
        Recipe(after=lambda files: {**files, "README.md": b"A card.\n\n"}),
    ),
    (
        "emptied-file",
        "wrong-size",
        Recipe(after=lambda files: {**files, "artifacts/age.fp16.tflite": b""}),
    ),
    (
        "swapped-files",
        "changed",
        Recipe(
            content={**CONTENT, "artifacts/a.bin": b"1", "artifacts/b.bin": b"2"},
            after=lambda files: {**files, "artifacts/a.bin": b"2", "artifacts/b.bin": b"1"},
        ),
    ),
    ("no-manifest", "no-bundle", Recipe(after=without("manifest.json"))),
    ("signature-stripped", "unsigned", Recipe(after=without("model.sig"))),
    (
        "first-version",
        "unsigned",
        Recipe(
            manifest=lambda value: {
                "schema": "unplug-bundle/1",
                "signature": None,
                "files": value["files"],
            },
            after=without("model.sig"),
        ),
    ),
    (
        "manifest-of-another",
        "changed",
        Recipe(
            after=lambda files: {
                **files,
                "manifest.json": Recipe(publication=put("release", to=8)).files()["manifest.json"],
            }
        ),
    ),
    (
        "signature-of-another",
        "changed",
        Recipe(
            after=lambda files: {
                **files,
                "model.sig": Recipe(publication=put("release", to=8)).files()["model.sig"],
            }
        ),
    ),
]
MANIFESTS: list[Item] = [
    ("manifest-spaced", "manifest", Recipe(manifest_bytes=spaced)),
    (
        "manifest-key-order",
        "manifest",
        Recipe(
            manifest_bytes=lambda raw: json.dumps(
                dict(reversed(json.loads(raw).items())), separators=(",", ":"), ensure_ascii=False
            ).encode()
        ),
    ),
    ("manifest-newline", "manifest", Recipe(manifest_bytes=lambda raw: raw + b"\n")),
    ("manifest-bom", "manifest", Recipe(manifest_bytes=prefixed(b"\xef\xbb\xbf"))),
    ("manifest-latin-1", "manifest", Recipe(manifest_bytes=swap("Äpfel".encode(), b"\xc4pfel"))),
    ("manifest-escapes", "manifest", Recipe(manifest_bytes=swap(b'"age"', b'"\\u0061ge"'))),
    (
        "manifest-duplicate-key",
        "manifest",
        Recipe(manifest_bytes=swap(b'"release":7', b'"release":7,"release":7')),
    ),
    (
        "manifest-duplicate-escaped",
        "manifest",
        Recipe(manifest_bytes=swap(b'"release":7', b'"release":7,"\\u0072elease":9')),
    ),
    ("manifest-nan", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":NaN"))),
    ("manifest-infinity", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":-Infinity"))),
    ("manifest-overflow", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":1e999"))),
    (
        "manifest-huge-integer",
        "manifest",
        Recipe(manifest_bytes=swap(b'"release":7', b'"release":' + b"9" * 5000)),
    ),
    (
        "manifest-rounded-integer",
        "manifest",
        Recipe(manifest_bytes=swap(b'"release":7', b'"release":9007199254740993')),
    ),
    (
        "manifest-limit-integer",
        "manifest",
        Recipe(manifest_bytes=swap(b'"release":7', b'"release":9007199254740992')),
    ),
    ("manifest-largest-integer", "valid", Recipe(publication=put("release", to=2**53 - 1))),
    ("manifest-other-number", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":4e-2"))),
    ("manifest-negative-zero", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":-0"))),
    ("manifest-half-character", "manifest", Recipe(manifest_bytes=swap(b'"age"', b'"\\ud800"'))),
    (
        "manifest-deep",
        "manifest",
        Recipe(manifest_bytes=swap(b'"age"', b"[" * 20_000 + b"]" * 20_000)),
    ),
    ("manifest-65-deep", "manifest", Recipe(manifest_bytes=swap(b'"age"', b"[" * 64 + b"]" * 64))),
    ("manifest-64-deep", "valid", Recipe(manifest_bytes=swap(b'"age"', b"[" * 63 + b"]" * 63))),
    ("manifest-a-list", "wrong-version", Recipe(manifest_bytes=lambda _: b"[]")),
    (
        "manifest-proto",
        "valid",
        Recipe(manifest=put("__proto__", to={"schema": "unplug-bundle/1"})),
    ),
    ("version-1-signed", "wrong-version", Recipe(manifest=put("schema", to="unplug-bundle/1"))),
    ("version-3", "wrong-version", Recipe(manifest=put("schema", to="unplug-bundle/3"))),
    (
        "manifest-other-hash",
        "manifest",
        Recipe(manifest=put("files", "README.md", "sha256", to="0" * 64)),
    ),
    (
        "manifest-upper-hash",
        "manifest",
        Recipe(manifest=put("files", "README.md", "sha256", to="A" * 64)),
    ),
    (
        "manifest-other-size",
        "wrong-size",
        Recipe(manifest=put("files", "README.md", "bytes", to=9)),
    ),
    (
        "manifest-negative-size",
        "manifest",
        Recipe(manifest=put("files", "README.md", "bytes", to=-1)),
    ),
    (
        "manifest-true-size",
        "manifest",
        Recipe(manifest=put("files", "README.md", "bytes", to=True)),
    ),
    ("manifest-lists-less", "manifest", Recipe(manifest=drop("files", "README.md"))),
    (
        "manifest-lists-itself",
        "manifest",
        Recipe(manifest=put("files", "manifest.json", to={"sha256": "0" * 64, "bytes": 1})),
    ),
    ("never-published", "manifest", Recipe(publication=lambda _: None)),
    ("release-zero", "manifest", Recipe(publication=put("release", to=0))),
    ("release-true", "manifest", Recipe(publication=put("release", to=True))),
    ("release-half", "manifest", Recipe(publication=put("release", to=7.5))),
    (
        "expires-never-was",
        "manifest",
        Recipe(publication=put("expires", to="2027-02-30T00:00:00Z")),
    ),
    (
        "expires-elsewhere",
        "manifest",
        Recipe(publication=put("expires", to="2027-05-01T00:00:00+14:00")),
    ),
    ("supersedes-a-name", "manifest", Recipe(publication=put("supersedes", to=["face-age"]))),
    ("surplus-publication-field", "manifest", Recipe(publication=put("grace", to=1))),
]
SIGNATURES: list[Item] = [
    ("another-key", "unknown-key", Recipe(key=THEIRS)),
    (
        "another-key-same-hint",
        "bad-signature",
        Recipe(
            key=THEIRS,
            envelope=put(
                "verificationMaterial", "publicKey", "hint", to=sha256(pem(OURS).encode())
            ),
        ),
    ),
    ("another-payload", "bad-signature", Recipe(envelope=other_payload)),
    ("signed-as-another-type", "bad-signature", Recipe(signed_type="application/json")),
    (
        "another-payload-type",
        "wrong-type",
        Recipe(envelope=put(INNER, "payloadType", to="application/json")),
    ),
    ("another-media-type", "wrong-type", Recipe(envelope=put("mediaType", to="application/json"))),
    (
        "another-predicate",
        "wrong-type",
        Recipe(statement=put("predicateType", to="https://slsa.dev/provenance/v1")),
    ),
    (
        "another-statement-type",
        "wrong-type",
        Recipe(statement=put("_type", to="https://in-toto.io/Statement/v0.1")),
    ),
    ("signature-ber", "bad-signature", Recipe(signature=padded)),
    ("signature-trailing-byte", "bad-signature", Recipe(signature=lambda raw: raw + b"\0")),
    ("signature-raw", "bad-signature", Recipe(signature=raw_pair)),
    (
        "signature-zeros",
        "bad-signature",
        Recipe(signature=lambda _: bytes.fromhex("3006020100020100")),
    ),
    (
        "signature-order",
        "bad-signature",
        Recipe(signature=lambda _: utils.encode_dss_signature(ORDER, ORDER)),
    ),
    (
        "signature-plus-order",
        "bad-signature",
        Recipe(
            signature=lambda raw: utils.encode_dss_signature(
                utils.decode_dss_signature(raw)[0], utils.decode_dss_signature(raw)[1] + ORDER
            )
        ),
    ),
    ("signature-empty", "bad-signature", Recipe(signature=lambda _: b"")),
    (
        "envelope-two-signatures",
        "envelope",
        Recipe(
            envelope=lambda value: put(INNER, "signatures", to=value[INNER]["signatures"] * 2)(
                value
            )
        ),
    ),
    ("envelope-no-signature", "envelope", Recipe(envelope=put(INNER, "signatures", to=[]))),
    ("envelope-keyid", "envelope", Recipe(envelope=put(INNER, "signatures", 0, "keyid", to="x"))),
    (
        "envelope-duplicate-key",
        "envelope",
        Recipe(envelope_bytes=swap(b'"keyid":""', b'"keyid":"","keyid":""')),
    ),
    (
        "envelope-nan",
        "envelope",
        Recipe(envelope_bytes=swap(b'"tlogEntries":[]', b'"tlogEntries":NaN')),
    ),
    (
        "envelope-deep",
        "envelope",
        Recipe(envelope_bytes=swap(b'"tlogEntries":[]', b'"tlogEntries":' + b"[" * 65 + b"]" * 65)),
    ),
    (
        "envelope-log",
        "envelope",
        Recipe(envelope=put("verificationMaterial", "tlogEntries", to=[{}])),
    ),
    ("envelope-surplus", "envelope", Recipe(envelope=put("comment", to=""))),
    ("envelope-not-json", "envelope", Recipe(envelope_bytes=lambda raw: raw[:-1])),
    ("envelope-url-base64", "envelope", Recipe(envelope_bytes=swap(b'"sig":"', b'"sig":"-_'))),
    ("envelope-loose-base64", "envelope", Recipe(envelope=put(INNER, "payload", to="e31="))),
    (
        "envelope-upper-hint",
        "envelope",
        Recipe(envelope=put("verificationMaterial", "publicKey", "hint", to="A" * 64)),
    ),
    (
        "certificate",
        "certificate",
        Recipe(envelope=put("verificationMaterial", to={"x509CertificateChain": CHAIN})),
    ),
    (
        "certificate-beside-key",
        "certificate",
        Recipe(envelope=put("verificationMaterial", "x509CertificateChain", to=CHAIN)),
    ),
    (
        "statement-duplicate-key",
        "statement",
        Recipe(payload=swap(b'"_type":', b'"_type":"","_type":')),
    ),
    ("statement-not-json", "statement", Recipe(payload=lambda raw: raw + b"}")),
    ("statement-no-files", "statement", Recipe(statement=put("predicate", "resources", to=[]))),
    (
        "statement-unordered",
        "statement",
        Recipe(
            statement=lambda value: put(
                "predicate", "resources", to=value["predicate"]["resources"][::-1]
            )(value)
        ),
    ),
    (
        "statement-twice",
        "statement",
        Recipe(
            statement=lambda value: put(
                "predicate",
                "resources",
                to=[value["predicate"]["resources"][0], *value["predicate"]["resources"]],
            )(value)
        ),
    ),
    (
        "statement-another-subject",
        "statement",
        Recipe(statement=put("subject", 0, "digest", "sha256", to="0" * 64)),
    ),
    (
        "statement-two-subjects",
        "statement",
        Recipe(statement=lambda value: put("subject", to=value["subject"] * 2)(value)),
    ),
    (
        "statement-another-algorithm",
        "statement",
        Recipe(statement=put("predicate", "resources", 0, "algorithm", to="md5")),
    ),
    (
        "ignored-files",
        "excluded",
        Recipe(statement=put(*PREDICATE, "ignore_paths", to=["model.sig", "artifacts"])),
    ),
    (
        "ignored-git",
        "excluded",
        Recipe(statement=put(*PREDICATE, "ignore_paths", to=["model.sig", ".git", ".gitignore"])),
    ),
    ("followed-links", "excluded", Recipe(statement=put(*PREDICATE, "allow_symlinks", to=True))),
    ("shards", "excluded", Recipe(statement=put(*PREDICATE, "method", to="shards"))),
    ("another-hash", "excluded", Recipe(statement=put(*PREDICATE, "hash_type", to="blake3"))),
    ("serialization-surplus", "statement", Recipe(statement=put(*PREDICATE, "shard_size", to=1))),
]


def case(what: str, verdict: str, files: Mapping[str, bytes], **more: Any) -> dict[str, Any]:
    """A corpus file; `more` replaces parts of what the reader knows."""
    trust = {
        "keys": [pem(OURS)],
        "name": None,
        "minimum_release": 1,
        "revoked": [],
        "superseded": [],
    }
    trust |= {key: more.pop(key) for key in [*more] if key in trust}
    texts = {name: base64.b64encode(raw).decode() for name, raw in sorted(files.items())}
    return {
        "what": what,
        "verdict": verdict,
        "now": more.pop("now", NOW),
        "trust": trust,
        "files": texts,
        **more,
    }


def policies() -> dict[str, dict[str, Any]]:
    """The sound bundle, and readers who know different things."""
    files = Recipe().files()
    id_ = sha256(files["manifest.json"])
    make = partial(case, files=files)
    return {
        "expired": make("expired", "expired", now="2027-05-01T00:00:00Z"),
        "last-second": make("last-second", "valid", now="2027-04-30T23:59:59Z"),
        "revoked": make("revoked", "revoked", revoked=["6" * 64, id_]),
        "superseded": make("superseded", "superseded", superseded=[id_]),
        "downgraded": make("downgraded", "downgraded", minimum_release=8),
        "same-release": make("same-release", "valid", minimum_release=7),
        "another-product": make("another-product", "another-product", name="face-pose"),
        "this-product": make("this-product", "valid", name="face-age"),
        "no-keys": make("no-keys", "unknown-key", keys=[]),
        "two-keys": make("two-keys", "valid", keys=[pem(THEIRS), pem(OURS)]),
        "link": make("link", "link", links=["artifacts/more.bin"]),
    }


def archives() -> dict[str, dict[str, Any]]:
    """Bundles as zip files."""
    files, bomb = Recipe().files(), {"artifacts/zeros.bin": bytes(4_000_000)}
    small = Recipe(content={**CONTENT, "artifacts/zeros.bin": bytes(10)}).files()
    small.pop("artifacts/zeros.bin")
    found: dict[str, tuple[str, dict[str, Any]]] = {
        "zip": ("valid", zipped(files)),
        "zip-stored": ("valid", zipped(files, method=zipfile.ZIP_STORED)),
        "zip-parent": ("archive", zipped({**files, "../evil": b"1"})),
        "zip-absolute": ("archive", zipped({**files, "/etc/evil": b"1"})),
        "zip-backslash": ("archive", zipped({**files, "..\\evil": b"1"})),
        "zip-collision": ("collision", zipped({**files, "readme.md": b"1"})),
        "zip-link": (
            "changed",
            zipped({**files, "README.md": b"../x.md\n"}, modes={"README.md": 0o120777}),
        ),
        "zip-unlisted-link": (
            "unlisted",
            zipped({**files, "artifacts/more": b"/etc"}, modes={"artifacts/more": 0o120777}),
        ),
        "zip-folder-around": (
            "no-bundle",
            zipped({f"age/{name}": raw for name, raw in files.items()}),
        ),
        "zip-cut": ("archive", zipped(files, lambda raw: raw[:-30])),
        "zip-bomb": ("unlisted", zipped({**files, **bomb})),
        "zip-bomb-that-lies": ("archive", zipped({**small, **bomb}, lying)),
        "zip-that-boasts": ("archive", zipped({**files, **bomb}, boasting)),
        "zip-encrypted": ("archive", zipped(files, encrypted)),
        "zip-bzip2": ("archive", zipped(files, method=zipfile.ZIP_BZIP2)),
        "zip-twice": (
            "archive",
            zipped(
                {**files, "README.mx": b"1"}, lambda raw: raw.replace(b"README.mx", b"README.md")
            ),
        ),
    }
    made = {}
    for name, (verdict, entry) in found.items():
        made[name] = {**case(name, verdict, {}), **entry}
        del made[name]["files"]
    return made


def corpus() -> dict[str, str]:
    """File name to text."""
    made = {
        name: case(name, verdict, recipe.files())
        for name, verdict, recipe in (*SOUND, *NAMES, *CONTENTS)
    }
    made |= {
        name: case(name, verdict, recipe.files())
        for name, verdict, recipe in (*MANIFESTS, *SIGNATURES)
    }
    made |= {**policies(), **archives()}
    for name, value in made.items():
        value["what"] = name.replace("-", " ")
    return {
        f"{name}.json": json.dumps(value, indent=1, sort_keys=True) + "\n"
        for name, value in sorted(made.items())
    }


if __name__ == "__main__":
    for name, text in corpus().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
