"""Good and hostile bundles with the verdict that every verifier gives them: ``python -m
tests.vectors.bundles.make FOLDER``.

A case is one JSON file: ``files`` (base64 by path) or ``zip`` (base64), what the reader knows
(``trust``, ``now``, and the ``schema`` where that is another than ``unplug-bundle/2``) and the
``verdict``. ``links`` are entries of a folder that are no files;
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
    GENERATOR,
    INNER,
    ORDER,
    OURS,
    THEIRS,
    UNET,
    Recipe,
    boasting,
    drop,
    encrypted,
    generator,
    high,
    low,
    lying,
    named,
    of_a_generator,
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

CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "signature",
        "valid",
        {
            "high-s": high,
            "low-s": low,
        },
    ),
    (
        "signature",
        "bad-signature",
        {
            "signature-ber": padded,
            "signature-trailing-byte": lambda raw: raw + b"\0",
            "signature-raw": raw_pair,
            "signature-zeros": lambda _: bytes.fromhex("3006020100020100"),
            "signature-order": lambda _: utils.encode_dss_signature(ORDER, ORDER),
            "signature-plus-order": lambda raw: utils.encode_dss_signature(
                utils.decode_dss_signature(raw)[0], utils.decode_dss_signature(raw)[1] + ORDER
            ),
            "signature-empty": lambda _: b"",
        },
    ),
    (
        "publication",
        "valid",
        {
            "no-expiry": put("expires", to=None),
            "manifest-largest-integer": put("release", to=2**53 - 1),
        },
    ),
    (
        "publication",
        "manifest",
        {
            "never-published": lambda _: None,
            "release-zero": put("release", to=0),
            "release-true": put("release", to=True),
            "release-half": put("release", to=7.5),
            "expires-never-was": put("expires", to="2027-02-30T00:00:00Z"),
            "expires-elsewhere": put("expires", to="2027-05-01T00:00:00+14:00"),
            "supersedes-a-name": put("supersedes", to=["face-age"]),
            "surplus-publication-field": put("grace", to=1),
        },
    ),
    (
        "envelope_bytes",
        "valid",
        {
            "pretty-envelope": spaced,
        },
    ),
    (
        "envelope_bytes",
        "envelope",
        {
            "envelope-duplicate-key": swap(b'"keyid":""', b'"keyid":"","keyid":""'),
            "envelope-nan": swap(b'"tlogEntries":[]', b'"tlogEntries":NaN'),
            "envelope-deep": swap(b'"tlogEntries":[]', b'"tlogEntries":' + b"[" * 65 + b"]" * 65),
            "envelope-not-json": lambda raw: raw[:-1],
            "envelope-url-base64": swap(b'"sig":"', b'"sig":"-_'),
        },
    ),
    (
        "payload",
        "valid",
        {
            "pretty-statement": spaced,
        },
    ),
    (
        "payload",
        "statement",
        {
            "statement-duplicate-key": swap(b'"_type":', b'"_type":"","_type":'),
            "statement-not-json": lambda raw: raw + b"}",
        },
    ),
    (
        "envelope",
        "valid",
        {
            "no-keyid": drop(INNER, "signatures", 0, "keyid"),
        },
    ),
    (
        "envelope",
        "bad-signature",
        {
            "another-payload": other_payload,
        },
    ),
    (
        "envelope",
        "wrong-type",
        {
            "another-payload-type": put(INNER, "payloadType", to="application/json"),
            "another-media-type": put("mediaType", to="application/json"),
        },
    ),
    (
        "envelope",
        "envelope",
        {
            "envelope-two-signatures": lambda value: put(
                INNER, "signatures", to=value[INNER]["signatures"] * 2
            )(value),
            "envelope-no-signature": put(INNER, "signatures", to=[]),
            "envelope-keyid": put(INNER, "signatures", 0, "keyid", to="x"),
            "envelope-log": put("verificationMaterial", "tlogEntries", to=[{}]),
            "envelope-surplus": put("comment", to=""),
            "envelope-loose-base64": put(INNER, "payload", to="e31="),
            "envelope-upper-hint": put("verificationMaterial", "publicKey", "hint", to="A" * 64),
        },
    ),
    (
        "envelope",
        "certificate",
        {
            "certificate": put("verificationMaterial", to={"x509CertificateChain": CHAIN}),
            "certificate-beside-key": put("verificationMaterial", "x509CertificateChain", to=CHAIN),
        },
    ),
    (
        "statement",
        "valid",
        {
            "no-ignore-paths": drop(*PREDICATE, "ignore_paths"),
            "surplus-descriptor-field": put(
                "predicate", "resources", 0, "uri", to="file:///etc/passwd"
            ),
        },
    ),
    (
        "statement",
        "unsafe-name",
        {
            "listed-parent": named("../evil"),
            "listed-inner-parent": named("artifacts/../../evil"),
            "listed-absolute": named("/etc/passwd"),
            "listed-drive": named("C:/windows"),
            "listed-empty": named(""),
            "listed-null": named("a\0b"),
        },
    ),
    (
        "statement",
        "collision",
        {
            "listed-collision": named("readme.MD"),
        },
    ),
    (
        "statement",
        "wrong-type",
        {
            "another-predicate": put("predicateType", to="https://slsa.dev/provenance/v1"),
            "another-statement-type": put("_type", to="https://in-toto.io/Statement/v0.1"),
        },
    ),
    (
        "statement",
        "statement",
        {
            "statement-no-files": put("predicate", "resources", to=[]),
            "statement-unordered": lambda value: put(
                "predicate", "resources", to=value["predicate"]["resources"][::-1]
            )(value),
            "statement-twice": lambda value: put(
                "predicate",
                "resources",
                to=[value["predicate"]["resources"][0], *value["predicate"]["resources"]],
            )(value),
            "statement-another-subject": put("subject", 0, "digest", "sha256", to="0" * 64),
            "statement-two-subjects": lambda value: put("subject", to=value["subject"] * 2)(value),
            "statement-another-algorithm": put("predicate", "resources", 0, "algorithm", to="md5"),
            "serialization-surplus": put(*PREDICATE, "shard_size", to=1),
        },
    ),
    (
        "statement",
        "excluded",
        {
            "ignored-files": put(*PREDICATE, "ignore_paths", to=["model.sig", "artifacts"]),
            "ignored-git": put(*PREDICATE, "ignore_paths", to=["model.sig", ".git", ".gitignore"]),
            "followed-links": put(*PREDICATE, "allow_symlinks", to=True),
            "shards": put(*PREDICATE, "method", to="shards"),
            "another-hash": put(*PREDICATE, "hash_type", to="blake3"),
        },
    ),
    (
        "content",
        "unsafe-name",
        {
            "name-unicode": {"artifacts/\u00e4.bin": b"1"},
            "name-homoglyph": {"artifacts/\u0430ge.fp16.tflite": b"1"},
            "name-two-forms": {"a\u0308.bin": b"1", "\u00e4.bin": b"2"},
            "name-windows-device": {"artifacts/NUL.tflite": b"1"},
            "name-trailing-dot": {"artifacts/age.": b"1"},
            "name-space": {"artifacts/age .bin": b"1"},
            "name-stream": {"README.md:hidden": b"1"},
            "name-backslash": {"artifacts\\age": b"1"},
            "name-hidden": {".gitattributes": b"1"},
        },
    ),
    (
        "content",
        "collision",
        {
            "case-collision": {"readme.md": b"1"},
            "case-collision-folder": {"Artifacts/more.bin": b"1"},
        },
    ),
    (
        "after",
        "unsafe-name",
        {
            "name-git": lambda files: {**files, ".git/config": b"[core]"},
        },
    ),
    (
        "after",
        "missing",
        {
            "missing-file": without("reports/audit.json"),
        },
    ),
    (
        "after",
        "unlisted",
        {
            "unlisted-file": lambda files: {**files, "artifacts/more.bin": b"1"},
            "second-signature-file": lambda files: {**files, "artifacts/model.sig": b"1"},
        },
    ),
    (
        "after",
        "changed",
        {
            "changed-file": lambda files: {**files, "README.md": b"B card.\n"},
            "manifest-of-another": lambda files: {
                **files,
                "manifest.json": Recipe(publication=put("release", to=8)).files()["manifest.json"],
            },
            "signature-of-another": lambda files: {
                **files,
                "model.sig": Recipe(publication=put("release", to=8)).files()["model.sig"],
            },
        },
    ),
    (
        "after",
        "wrong-size",
        {
            "longer-file": lambda files: {**files, "README.md": b"A card.\n\n"},
            "emptied-file": lambda files: {**files, "artifacts/age.fp16.tflite": b""},
        },
    ),
    (
        "after",
        "no-bundle",
        {
            "no-manifest": without("manifest.json"),
        },
    ),
    (
        "after",
        "unsigned",
        {
            "signature-stripped": without("model.sig"),
        },
    ),
    (
        "manifest_bytes",
        "manifest",
        {
            "manifest-spaced": spaced,
            "manifest-key-order": lambda raw: json.dumps(
                dict(reversed(json.loads(raw).items())), separators=(",", ":"), ensure_ascii=False
            ).encode(),
            "manifest-newline": lambda raw: raw + b"\n",
            "manifest-bom": prefixed(b"\xef\xbb\xbf"),
            "manifest-latin-1": swap("Äpfel".encode(), b"\xc4pfel"),
            "manifest-escapes": swap(b'"age"', b'"\\u0061ge"'),
            "manifest-duplicate-key": swap(b'"release":7', b'"release":7,"release":7'),
            "manifest-duplicate-escaped": swap(b'"release":7', b'"release":7,"\\u0072elease":9'),
            "manifest-nan": swap(b":0.04", b":NaN"),
            "manifest-infinity": swap(b":0.04", b":-Infinity"),
            "manifest-overflow": swap(b":0.04", b":1e999"),
            "manifest-huge-integer": swap(b'"release":7', b'"release":' + b"9" * 5000),
            "manifest-rounded-integer": swap(b'"release":7', b'"release":9007199254740993'),
            "manifest-limit-integer": swap(b'"release":7', b'"release":9007199254740992'),
            "manifest-other-number": swap(b":0.04", b":4e-2"),
            "manifest-negative-zero": swap(b":0.04", b":-0"),
            "manifest-half-character": swap(b'"age"', b'"\\ud800"'),
            "manifest-deep": swap(b'"age"', b"[" * 20_000 + b"]" * 20_000),
            "manifest-65-deep": swap(b'"age"', b"[" * 64 + b"]" * 64),
        },
    ),
    (
        "manifest_bytes",
        "valid",
        {
            "manifest-64-deep": swap(b'"age"', b"[" * 63 + b"]" * 63),
        },
    ),
    (
        "manifest_bytes",
        "wrong-version",
        {
            "manifest-a-list": lambda _: b"[]",
        },
    ),
    (
        "manifest",
        "valid",
        {
            "manifest-proto": put("__proto__", to={"schema": "unplug-bundle/1"}),
        },
    ),
    (
        "manifest",
        "wrong-version",
        {
            "version-1-signed": put("schema", to="unplug-bundle/1"),
            "version-3": put("schema", to="unplug-bundle/3"),
        },
    ),
    (
        "manifest",
        "manifest",
        {
            "manifest-other-hash": put("files", "README.md", "sha256", to="0" * 64),
            "manifest-upper-hash": put("files", "README.md", "sha256", to="A" * 64),
            "manifest-negative-size": put("files", "README.md", "bytes", to=-1),
            "manifest-true-size": put("files", "README.md", "bytes", to=True),
            "manifest-lists-less": drop("files", "README.md"),
            "manifest-lists-itself": put(
                "files", "manifest.json", to={"sha256": "0" * 64, "bytes": 1}
            ),
        },
    ),
    (
        "manifest",
        "wrong-size",
        {
            "manifest-other-size": put("files", "README.md", "bytes", to=9),
        },
    ),
    (
        "key",
        "unknown-key",
        {
            "another-key": THEIRS,
        },
    ),
    (
        "signed_type",
        "bad-signature",
        {
            "signed-as-another-type": "application/json",
        },
    ),
]
"""Of each step of a `Recipe` that is changed, the verdict, and the cases with what is done; of
`content` what is added.
"""
OTHERS: list[tuple[str, str, Recipe]] = [
    ("signed", "valid", Recipe()),
    (
        "swapped-files",
        "changed",
        Recipe(
            content={**CONTENT, "artifacts/a.bin": b"1", "artifacts/b.bin": b"2"},
            after=lambda files: {**files, "artifacts/a.bin": b"2", "artifacts/b.bin": b"1"},
        ),
    ),
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
        "another-key-same-hint",
        "bad-signature",
        Recipe(
            key=THEIRS,
            envelope=put(
                "verificationMaterial", "publicKey", "hint", to=sha256(pem(OURS).encode())
            ),
        ),
    ),
]


def case(verdict: str, files: Mapping[str, bytes], **more: Any) -> dict[str, Any]:
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
        "expired": make("expired", now="2027-05-01T00:00:00Z"),
        "last-second": make("valid", now="2027-04-30T23:59:59Z"),
        "revoked": make("revoked", revoked=["6" * 64, id_]),
        "superseded": make("superseded", superseded=[id_]),
        "downgraded": make("downgraded", minimum_release=8),
        "same-release": make("valid", minimum_release=7),
        "another-product": make("another-product", name="face-pose"),
        "this-product": make("valid", name="face-age"),
        "no-keys": make("unknown-key", keys=[]),
        "two-keys": make("valid", keys=[pem(THEIRS), pem(OURS)]),
        "link": make("link", links=["artifacts/more.bin"]),
    }


def archives() -> dict[str, dict[str, Any]]:
    """Bundles as zip files."""
    files, bomb = Recipe().files(), {"artifacts/zeros.bin": bytes(4_000_000)}
    small = Recipe(content={**CONTENT, "artifacts/zeros.bin": bytes(10)}).files()
    small.pop("artifacts/zeros.bin")
    cases: dict[str, tuple[str, dict[str, Any]]] = {
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
    for name, (verdict, entry) in cases.items():
        made[name] = {**case(verdict, {}), **entry}
        del made[name]["files"]
    return made


def generators() -> dict[str, dict[str, Any]]:
    """Bases of exported files, and readers who expect one, but for the one who expects a model."""
    recipes: dict[str, tuple[str, Recipe]] = {
        "generator": ("valid", generator()),
        "generator-changed-part": ("changed", generator(after=put(UNET, to=b"NOISE"))),
        "generator-changed-pipeline": (
            "changed",
            generator(
                after=lambda files: put("pipeline.json", to=files["pipeline.json"].swapcase())(
                    files
                )
            ),
        ),
        "generator-missing-part": ("missing", generator(after=without(UNET))),
        "generator-unlisted-part": ("unlisted", generator(after=put("unet/more.onnx", to=b"1"))),
        "generator-another-key": ("unknown-key", generator(key=THEIRS)),
        "generator-unsigned": ("unsigned", generator(after=without("model.sig"))),
        "generator-outside": ("unsafe-name", generator(statement=named("../unet.onnx"))),
        "generator-version-10": (
            "wrong-version",
            generator(manifest=lambda value: of_a_generator(value) | {"schema": f"{GENERATOR}0"}),
        ),
        "generator-that-is-a-model": ("wrong-version", Recipe()),
    }
    made = {
        name: case(verdict, recipe.files(), schema=GENERATOR)
        for name, (verdict, recipe) in recipes.items()
    }
    files = generator().files()
    superseded = [sha256(files["manifest.json"])]
    return {
        **made,
        "generator-superseded": case("superseded", files, schema=GENERATOR, superseded=superseded),
        "generator-for-a-model": case("wrong-version", files),
    }


def corpus() -> dict[str, str]:
    """File name to text."""
    made = {name: case(verdict, recipe.files()) for name, verdict, recipe in OTHERS}
    for step, verdict, changes in CHANGES:
        for name, change in changes.items():
            value = {**CONTENT, **change} if step == "content" else change
            made[name] = case(verdict, Recipe(**{step: value}).files())
    made |= {**policies(), **archives(), **generators()}
    for name, value in made.items():
        value["what"] = name.replace("-", " ")
    return {
        f"{name}.json": json.dumps(value, indent=1, sort_keys=True) + "\n"
        for name, value in sorted(made.items())
    }


if __name__ == "__main__":
    for name, text in corpus().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
