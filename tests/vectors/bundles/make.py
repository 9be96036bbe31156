"""Good and hostile bundles with the verdict that every verifier gives them: ``python tests/vectors/bundles/make.py FOLDER``.

A case is one JSON file: ``files`` (base64 by path) or ``zip`` (base64), what the reader knows (``trust``, ``now``) and the
``verdict``. ``links`` are entries of a folder that are no files; readers of plain maps leave those cases out. Keys are fixed
and signatures are RFC 6979's, so that the same bytes are made anywhere. The keys sign nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from rfc8785 import dumps

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
OURS, THEIRS = (ec.derive_private_key(number, ec.SECP256R1()) for number in (20261124, 20261125))
PAYLOAD_TYPE = "application/vnd.in-toto+json"
NOW = "2026-12-01T00:00:00Z"
CONTENT = {"README.md": b"A card.\n", "artifacts/age.fp16.tflite": bytes(range(256)), "reports/audit.json": b"{}\n"}
PUBLICATION = {
    "name": "face-age", "release": 7, "expires": "2027-05-01T00:00:00Z", "supersedes": ["5" * 64], "revokes": ["6" * 64],
    "requests": ["2026-0017"],
}  # fmt: skip
Change = Callable[[Any], Any]


def same(value: Any) -> Any:
    return value


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One bundle, made in the order in which a signer works, with a change after each step."""

    content: Mapping[str, bytes] = field(default_factory=lambda: CONTENT)
    publication: Change = same
    manifest: Change = same
    manifest_bytes: Change = same
    statement: Change = same
    payload: Change = same
    signed_type: str = PAYLOAD_TYPE
    key: ec.EllipticCurvePrivateKey = OURS
    signature: Change = same
    envelope: Change = same
    envelope_bytes: Change = same
    after: Change = same

    def files(self) -> dict[str, bytes]:
        listed = {name: {"sha256": sha256(raw), "bytes": len(raw)} for name, raw in self.content.items()}
        manifest = {
            "schema": "unplug-bundle/2", "publication": self.publication(dict(PUBLICATION)), "model_type": "age",
            "lineage": {"compute_fraction": 0.04, "tiny": 1e-7, "text": "Äpfel \u2028 \U0001f34e \x7f"},
            "files": deepcopy(listed),
        }  # fmt: skip
        raw = self.manifest_bytes(dumps(self.manifest(manifest)))
        resources = {**{name: entry["sha256"] for name, entry in listed.items()}, "manifest.json": sha256(raw)}
        payload = self.payload(dumps(self.statement(statement(resources))))
        pae = b"DSSEv1 %d %s %d %s" % (len(self.signed_type), self.signed_type.encode(), len(payload), payload)
        signature = self.signature(self.key.sign(pae, ec.ECDSA(hashes.SHA256(), deterministic_signing=True)))
        whole = envelope(payload, signature, self.key)
        sealed = self.envelope_bytes(dumps(self.envelope(whole)))
        found: dict[str, bytes] = self.after({**self.content, "manifest.json": raw, "model.sig": sealed})
        return found


def sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def statement(resources: Mapping[str, str]) -> dict[str, Any]:
    named = sorted(resources.items())
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "face-age", "digest": {"sha256": sha256(b"".join(bytes.fromhex(item) for _, item in named))}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "resources": [{"name": name, "digest": digest, "algorithm": "sha256"} for name, digest in named],
            "serialization": {
                "method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": ["model.sig"],
            },
        },
    }  # fmt: skip


def envelope(payload: bytes, signature: bytes, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": sha256(pem(key).encode())}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }  # fmt: skip


def pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


# Changes


def put(*path: Any, to: Any) -> Change:
    """A JSON value with one place in it set anew."""

    def change(value: Any) -> Any:
        item = value
        for step in path[:-1]:
            item = item[step]
        item[path[-1]] = to
        return value

    return change


def drop(*path: Any) -> Change:
    def change(value: Any) -> Any:
        item = value
        for step in path[:-1]:
            item = item[step]
        del item[path[-1]]
        return value

    return change


def swap(old: bytes, new: bytes) -> Change:
    """Bytes with one part replaced that stands in them once."""

    def change(raw: bytes) -> bytes:
        assert raw.count(old) == 1, (old, raw.count(old))
        return raw.replace(old, new)

    return change


def named(*more: str) -> Change:
    """A statement that lists more files, in order and with the right sum."""

    def change(value: Any) -> Any:
        resources = {item["name"]: item["digest"] for item in value["predicate"]["resources"]}
        return statement({**resources, **dict.fromkeys(more, "0" * 64)})

    return change


def without(name: str) -> Change:
    return lambda files: {key: raw for key, raw in files.items() if key != name}


def twin(signature: bytes) -> bytes:
    """The other signature of the same key over the same bytes."""
    r, s = utils.decode_dss_signature(signature)
    return utils.encode_dss_signature(r, ORDER - s)


def low(signature: bytes) -> bytes:
    r, s = utils.decode_dss_signature(signature)
    return utils.encode_dss_signature(r, min(s, ORDER - s))


def high(signature: bytes) -> bytes:
    return twin(low(signature))


def padded(signature: bytes) -> bytes:
    """BER: r with a zero in front that DER does not allow."""
    length, inner = signature[3], signature[4:]
    zero = b"\0" if signature[4] else b"\0\0"
    return bytes([0x30, signature[1] + len(zero), 2, length + len(zero)]) + zero + inner


def raw_pair(signature: bytes) -> bytes:
    """r and s side by side, as WebCrypto wants them and DSSE does not have them."""
    return b"".join(number.to_bytes(32, "big") for number in utils.decode_dss_signature(signature))


def prefixed(raw: bytes) -> Change:
    return lambda whole: raw + whole


def spaced(raw: bytes) -> bytes:
    return json.dumps(json.loads(raw), indent=1, sort_keys=True, ensure_ascii=False).encode()


def other_payload(value: Any) -> Any:
    """The signature of this bundle over the statement of another one."""
    inner = json.loads(base64.b64decode(value["dsseEnvelope"]["payload"]))
    inner["subject"][0]["name"] = "face-age-2"
    value["dsseEnvelope"]["payload"] = base64.b64encode(dumps(inner)).decode()
    return value


CHAIN = {"certificates": [{"rawBytes": "AAAA"}]}
PREDICATE = ("predicate", "serialization")
INNER = "dsseEnvelope"
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
    ("surplus-descriptor-field", "valid", Recipe(statement=put("predicate", "resources", 0, "uri", to="file:///etc/passwd"))),
]
NAMES: list[Item] = [
    ("name-unicode", "unsafe-name", Recipe(content={**CONTENT, "artifacts/\u00e4.bin": b"1"})),
    ("name-homoglyph", "unsafe-name", Recipe(content={**CONTENT, "artifacts/\u0430ge.fp16.tflite": b"1"})),
    ("name-two-forms", "unsafe-name", Recipe(content={**CONTENT, "a\u0308.bin": b"1", "\u00e4.bin": b"2"})),
    ("name-windows-device", "unsafe-name", Recipe(content={**CONTENT, "artifacts/NUL.tflite": b"1"})),
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
    ("unlisted-file", "unlisted", Recipe(after=lambda files: {**files, "artifacts/more.bin": b"1"})),
    ("second-signature-file", "unlisted", Recipe(after=lambda files: {**files, "artifacts/model.sig": b"1"})),
    ("changed-file", "changed", Recipe(after=lambda files: {**files, "README.md": b"B card.\n"})),
    ("longer-file", "wrong-size", Recipe(after=lambda files: {**files, "README.md": b"A card.\n\n"})),
    ("emptied-file", "wrong-size", Recipe(after=lambda files: {**files, "artifacts/age.fp16.tflite": b""})),
    ("swapped-files", "changed", Recipe(
        content={**CONTENT, "artifacts/a.bin": b"1", "artifacts/b.bin": b"2"},
        after=lambda files: {**files, "artifacts/a.bin": b"2", "artifacts/b.bin": b"1"},
    )),
    ("no-manifest", "no-bundle", Recipe(after=without("manifest.json"))),
    ("signature-stripped", "unsigned", Recipe(after=without("model.sig"))),
    ("first-version", "unsigned", Recipe(
        manifest=lambda value: {"schema": "unplug-bundle/1", "signature": None, "files": value["files"]},
        after=without("model.sig"),
    )),
    ("manifest-of-another", "changed", Recipe(
        after=lambda files: {**files, "manifest.json": Recipe(publication=put("release", to=8)).files()["manifest.json"]},
    )),
    ("signature-of-another", "changed", Recipe(
        after=lambda files: {**files, "model.sig": Recipe(publication=put("release", to=8)).files()["model.sig"]},
    )),
]  # fmt: skip
MANIFESTS: list[Item] = [
    ("manifest-spaced", "manifest", Recipe(manifest_bytes=spaced)),
    ("manifest-key-order", "manifest", Recipe(manifest_bytes=lambda raw: json.dumps(
        dict(reversed(json.loads(raw).items())), separators=(",", ":"), ensure_ascii=False).encode())),
    ("manifest-newline", "manifest", Recipe(manifest_bytes=lambda raw: raw + b"\n")),
    ("manifest-bom", "manifest", Recipe(manifest_bytes=prefixed(b"\xef\xbb\xbf"))),
    ("manifest-latin-1", "manifest", Recipe(manifest_bytes=swap("Äpfel".encode(), b"\xc4pfel"))),
    ("manifest-escapes", "manifest", Recipe(manifest_bytes=swap(b'"age"', b'"\\u0061ge"'))),
    ("manifest-duplicate-key", "manifest", Recipe(manifest_bytes=swap(b'"release":7', b'"release":7,"release":7'))),
    ("manifest-duplicate-escaped", "manifest", Recipe(manifest_bytes=swap(b'"release":7', b'"release":7,"\\u0072elease":9'))),
    ("manifest-nan", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":NaN"))),
    ("manifest-infinity", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":-Infinity"))),
    ("manifest-overflow", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":1e999"))),
    ("manifest-huge-integer", "manifest", Recipe(manifest_bytes=swap(b'"release":7', b'"release":' + b"9" * 5000))),
    ("manifest-rounded-integer", "manifest", Recipe(manifest_bytes=swap(b'"release":7', b'"release":9007199254740993'))),
    ("manifest-limit-integer", "manifest", Recipe(manifest_bytes=swap(b'"release":7', b'"release":9007199254740992'))),
    ("manifest-largest-integer", "valid", Recipe(publication=put("release", to=2**53 - 1))),
    ("manifest-other-number", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":4e-2"))),
    ("manifest-negative-zero", "manifest", Recipe(manifest_bytes=swap(b":0.04", b":-0"))),
    ("manifest-half-character", "manifest", Recipe(manifest_bytes=swap(b'"age"', b'"\\ud800"'))),
    ("manifest-deep", "manifest", Recipe(manifest_bytes=swap(b'"age"', b"[" * 20_000 + b"]" * 20_000))),
    ("manifest-65-deep", "manifest", Recipe(manifest_bytes=swap(b'"age"', b"[" * 64 + b"]" * 64))),
    ("manifest-64-deep", "valid", Recipe(manifest_bytes=swap(b'"age"', b"[" * 63 + b"]" * 63))),
    ("manifest-a-list", "wrong-version", Recipe(manifest_bytes=lambda _: b"[]")),
    ("manifest-proto", "valid", Recipe(manifest=put("__proto__", to={"schema": "unplug-bundle/1"}))),
    ("version-1-signed", "wrong-version", Recipe(manifest=put("schema", to="unplug-bundle/1"))),
    ("version-3", "wrong-version", Recipe(manifest=put("schema", to="unplug-bundle/3"))),
    ("manifest-other-hash", "manifest", Recipe(manifest=put("files", "README.md", "sha256", to="0" * 64))),
    ("manifest-upper-hash", "manifest", Recipe(manifest=put("files", "README.md", "sha256", to="A" * 64))),
    ("manifest-other-size", "wrong-size", Recipe(manifest=put("files", "README.md", "bytes", to=9))),
    ("manifest-negative-size", "manifest", Recipe(manifest=put("files", "README.md", "bytes", to=-1))),
    ("manifest-true-size", "manifest", Recipe(manifest=put("files", "README.md", "bytes", to=True))),
    ("manifest-lists-less", "manifest", Recipe(manifest=drop("files", "README.md"))),
    ("manifest-lists-itself", "manifest", Recipe(manifest=put("files", "manifest.json", to={"sha256": "0" * 64, "bytes": 1}))),
    ("never-published", "manifest", Recipe(publication=lambda _: None)),
    ("release-zero", "manifest", Recipe(publication=put("release", to=0))),
    ("release-true", "manifest", Recipe(publication=put("release", to=True))),
    ("release-half", "manifest", Recipe(publication=put("release", to=7.5))),
    ("expires-never-was", "manifest", Recipe(publication=put("expires", to="2027-02-30T00:00:00Z"))),
    ("expires-elsewhere", "manifest", Recipe(publication=put("expires", to="2027-05-01T00:00:00+14:00"))),
    ("supersedes-a-name", "manifest", Recipe(publication=put("supersedes", to=["face-age"]))),
    ("surplus-publication-field", "manifest", Recipe(publication=put("grace", to=1))),
]  # fmt: skip
SIGNATURES: list[Item] = [
    ("another-key", "unknown-key", Recipe(key=THEIRS)),
    ("another-key-same-hint", "bad-signature", Recipe(
        key=THEIRS, envelope=put("verificationMaterial", "publicKey", "hint", to=sha256(pem(OURS).encode())))),
    ("another-payload", "bad-signature", Recipe(envelope=other_payload)),
    ("signed-as-another-type", "bad-signature", Recipe(signed_type="application/json")),
    ("another-payload-type", "wrong-type", Recipe(envelope=put(INNER, "payloadType", to="application/json"))),
    ("another-media-type", "wrong-type", Recipe(envelope=put("mediaType", to="application/json"))),
    ("another-predicate", "wrong-type", Recipe(statement=put("predicateType", to="https://slsa.dev/provenance/v1"))),
    ("another-statement-type", "wrong-type", Recipe(statement=put("_type", to="https://in-toto.io/Statement/v0.1"))),
    ("signature-ber", "bad-signature", Recipe(signature=padded)),
    ("signature-trailing-byte", "bad-signature", Recipe(signature=lambda raw: raw + b"\0")),
    ("signature-raw", "bad-signature", Recipe(signature=raw_pair)),
    ("signature-zeros", "bad-signature", Recipe(signature=lambda _: bytes.fromhex("3006020100020100"))),
    ("signature-order", "bad-signature", Recipe(signature=lambda _: utils.encode_dss_signature(ORDER, ORDER))),
    ("signature-plus-order", "bad-signature", Recipe(signature=lambda raw: utils.encode_dss_signature(
        utils.decode_dss_signature(raw)[0], utils.decode_dss_signature(raw)[1] + ORDER))),
    ("signature-empty", "bad-signature", Recipe(signature=lambda _: b"")),
    ("envelope-two-signatures", "envelope", Recipe(envelope=lambda value: put(
        INNER, "signatures", to=value[INNER]["signatures"] * 2)(value))),
    ("envelope-no-signature", "envelope", Recipe(envelope=put(INNER, "signatures", to=[]))),
    ("envelope-keyid", "envelope", Recipe(envelope=put(INNER, "signatures", 0, "keyid", to="x"))),
    ("envelope-duplicate-key", "envelope", Recipe(envelope_bytes=swap(b'"keyid":""', b'"keyid":"","keyid":""'))),
    ("envelope-nan", "envelope", Recipe(envelope_bytes=swap(b'"tlogEntries":[]', b'"tlogEntries":NaN'))),
    ("envelope-deep", "envelope", Recipe(envelope_bytes=swap(b'"tlogEntries":[]', b'"tlogEntries":' + b"[" * 65 + b"]" * 65))),
    ("envelope-log", "envelope", Recipe(envelope=put("verificationMaterial", "tlogEntries", to=[{}]))),
    ("envelope-surplus", "envelope", Recipe(envelope=put("comment", to=""))),
    ("envelope-not-json", "envelope", Recipe(envelope_bytes=lambda raw: raw[:-1])),
    ("envelope-url-base64", "envelope", Recipe(envelope_bytes=swap(b'"sig":"', b'"sig":"-_'))),
    ("envelope-loose-base64", "envelope", Recipe(envelope=put(INNER, "payload", to="e31="))),
    ("envelope-upper-hint", "envelope", Recipe(envelope=put("verificationMaterial", "publicKey", "hint", to="A" * 64))),
    ("certificate", "certificate", Recipe(envelope=put("verificationMaterial", to={"x509CertificateChain": CHAIN}))),
    ("certificate-beside-key", "certificate", Recipe(envelope=put("verificationMaterial", "x509CertificateChain", to=CHAIN))),
    ("statement-duplicate-key", "statement", Recipe(payload=swap(b'"_type":', b'"_type":"","_type":'))),
    ("statement-not-json", "statement", Recipe(payload=lambda raw: raw + b"}")),
    ("statement-no-files", "statement", Recipe(statement=put("predicate", "resources", to=[]))),
    ("statement-unordered", "statement", Recipe(statement=lambda value: put(
        "predicate", "resources", to=value["predicate"]["resources"][::-1])(value))),
    ("statement-twice", "statement", Recipe(statement=lambda value: put("predicate", "resources", to=[
        value["predicate"]["resources"][0], *value["predicate"]["resources"]])(value))),
    ("statement-another-subject", "statement", Recipe(statement=put("subject", 0, "digest", "sha256", to="0" * 64))),
    ("statement-two-subjects", "statement", Recipe(statement=lambda value: put("subject", to=value["subject"] * 2)(value))),
    ("statement-another-algorithm", "statement", Recipe(statement=put("predicate", "resources", 0, "algorithm", to="md5"))),
    ("ignored-files", "excluded", Recipe(statement=put(*PREDICATE, "ignore_paths", to=["model.sig", "artifacts"]))),
    ("ignored-git", "excluded", Recipe(statement=put(*PREDICATE, "ignore_paths", to=["model.sig", ".git", ".gitignore"]))),
    ("followed-links", "excluded", Recipe(statement=put(*PREDICATE, "allow_symlinks", to=True))),
    ("shards", "excluded", Recipe(statement=put(*PREDICATE, "method", to="shards"))),
    ("another-hash", "excluded", Recipe(statement=put(*PREDICATE, "hash_type", to="blake3"))),
    ("serialization-surplus", "statement", Recipe(statement=put(*PREDICATE, "shard_size", to=1))),
]  # fmt: skip


def case(what: str, verdict: str, files: Mapping[str, bytes], **more: Any) -> dict[str, Any]:
    """A corpus file; `more` replaces parts of what the reader knows."""
    trust = {"keys": [pem(OURS)], "name": None, "minimum_release": 1, "revoked": [], "superseded": []}
    trust |= {key: more.pop(key) for key in [*more] if key in trust}
    texts = {name: base64.b64encode(raw).decode() for name, raw in sorted(files.items())}
    return {"what": what, "verdict": verdict, "now": more.pop("now", NOW), "trust": trust, "files": texts, **more}


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


def zipped(files: Mapping[str, bytes], change: Change = same, **entry: Any) -> dict[str, Any]:
    """The same bundle in one file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", entry.get("method", zipfile.ZIP_DEFLATED)) as archive:
        for name, raw in files.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type, info.create_system = entry.get("method", zipfile.ZIP_DEFLATED), 3
            info.external_attr = entry.get("modes", {}).get(name, 0o100644) << 16
            archive.writestr(info, raw)
    return {"zip": base64.b64encode(change(buffer.getvalue())).decode()}


def lying(raw: bytes) -> bytes:
    """A directory that says of the last file that it has 10 bytes."""
    at = raw.rindex(b"PK\1\2")
    return raw[: at + 24] + (10).to_bytes(4, "little") + raw[at + 28 :]


def boasting(raw: bytes) -> bytes:
    """A directory that says of the last file that it has 4 GB."""
    at = raw.rindex(b"PK\1\2")
    return raw[: at + 24] + (2**32 - 2).to_bytes(4, "little") + raw[at + 28 :]


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
        "zip-link": ("changed", zipped({**files, "README.md": b"../x.md\n"}, modes={"README.md": 0o120777})),
        "zip-unlisted-link": ("unlisted", zipped({**files, "artifacts/more": b"/etc"}, modes={"artifacts/more": 0o120777})),
        "zip-folder-around": ("no-bundle", zipped({f"age/{name}": raw for name, raw in files.items()})),
        "zip-cut": ("archive", zipped(files, lambda raw: raw[:-30])),
        "zip-bomb": ("unlisted", zipped({**files, **bomb})),
        "zip-bomb-that-lies": ("archive", zipped({**small, **bomb}, lying)),
        "zip-that-boasts": ("archive", zipped({**files, **bomb}, boasting)),
        "zip-encrypted": ("archive", zipped(files, encrypted)),
        "zip-bzip2": ("archive", zipped(files, method=zipfile.ZIP_BZIP2)),
        "zip-twice": ("archive", zipped({**files, "README.mx": b"1"}, lambda raw: raw.replace(b"README.mx", b"README.md"))),
    }
    made = {}
    for name, (verdict, entry) in found.items():
        made[name] = {**case(name, verdict, {}), **entry}
        del made[name]["files"]
    return made


def encrypted(raw: bytes) -> bytes:
    """Every entry says that it is encrypted."""
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = raw.find(mark)
        while at >= 0:
            raw = raw[: at + place] + bytes([raw[at + place] | 1]) + raw[at + place + 1 :]
            at = raw.find(mark, at + 4)
    return raw


def corpus() -> dict[str, str]:
    """File name to text."""
    made = {name: case(name, verdict, recipe.files()) for name, verdict, recipe in (*SOUND, *NAMES, *CONTENTS)}
    made |= {name: case(name, verdict, recipe.files()) for name, verdict, recipe in (*MANIFESTS, *SIGNATURES)}
    made |= {**policies(), **archives()}
    for name, value in made.items():
        value["what"] = name.replace("-", " ")
    return {f"{name}.json": json.dumps(value, indent=1, sort_keys=True) + "\n" for name, value in sorted(made.items())}


if __name__ == "__main__":
    for name, text in corpus().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
