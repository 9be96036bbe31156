"""How a bundle of the corpus is made: the steps of a signer, and what may be done to the result of
each.

Keys are fixed and signatures are RFC 6979's, so that the same bytes are made anywhere. The keys
sign nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from rfc8785 import dumps

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
OURS, THEIRS = (ec.derive_private_key(number, ec.SECP256R1()) for number in (20261124, 20261125))
PAYLOAD_TYPE = "application/vnd.in-toto+json"
CONTENT = {
    "README.md": b"A card.\n",
    "artifacts/age.fp16.tflite": bytes(range(256)),
    "reports/audit.json": b"{}\n",
}
PUBLICATION = {
    "name": "face-age",
    "release": 7,
    "expires": "2027-05-01T00:00:00Z",
    "supersedes": ["5" * 64],
    "revokes": ["6" * 64],
    "requests": ["2026-0017"],
}
INNER = "dsseEnvelope"
MODELS, GENERATOR = "unplug-bundle/2", "unplug-generator-bundle/1"
UNET = "unet/unet.fp32.onnx"
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
        listed = {
            name: {"sha256": sha256(raw), "bytes": len(raw)} for name, raw in self.content.items()
        }
        manifest = {
            "schema": MODELS,
            "publication": self.publication(dict(PUBLICATION)),
            "model_type": "age",
            "lineage": {
                "compute_fraction": 0.04,
                "tiny": 1e-7,
                "text": "Äpfel \u2028 \U0001f34e \x7f",
            },
            "files": deepcopy(listed),
        }
        raw = self.manifest_bytes(dumps(self.manifest(manifest)))
        resources = {
            **{name: entry["sha256"] for name, entry in listed.items()},
            "manifest.json": sha256(raw),
        }
        payload = self.payload(dumps(self.statement(statement(resources))))
        pae = b"DSSEv1 %d %s %d %s" % (
            len(self.signed_type),
            self.signed_type.encode(),
            len(payload),
            payload,
        )
        signature = self.signature(
            self.key.sign(pae, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
        )
        whole = envelope(payload, signature, self.key)
        sealed = self.envelope_bytes(dumps(self.envelope(whole)))
        made: dict[str, bytes] = self.after(
            {**self.content, "manifest.json": raw, "model.sig": sealed}
        )
        return made


def sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def exported() -> dict[str, bytes]:
    """A base of exported files, of the fewest bytes that a bundle of one can have."""
    parts = {
        "text_encoder": ("text_encoder/text_encoder.fp32.onnx", b"words"),
        "unet": (UNET, b"noise"),
        "decoder": ("decoder/decoder.fp32.onnx", b"pixels"),
    }
    named = {
        part: {
            "files": [
                {
                    "target": "onnx",
                    "precision": "fp32",
                    "file": file,
                    "sha256": sha256(raw),
                    "bytes": len(raw),
                }
            ]
        }
        for part, (file, raw) in parts.items()
    }
    pipeline = {"schema": "unplug-pipeline/1", "name": "tiny", "plugins": {}, **named}
    files = dict(parts.values()) | {f"{file}.json": b"{}\n" for file, _ in parts.values()}
    return {**files, "README.md": b"A card.\n", "pipeline.json": dumps(pipeline)}


def generator(**changes: Any) -> Recipe:
    """The bundle of such a base."""
    own = {"content": exported(), "publication": put("name", to="small")}
    return Recipe(**{**own, "manifest": of_a_generator, **changes})


def of_a_generator(value: Any) -> Any:
    kept = {key: value[key] for key in ("publication", "files")}
    return {"schema": GENERATOR, "erasure": None, "gates": [], **kept}


def statement(resources: Mapping[str, str]) -> dict[str, Any]:
    named = sorted(resources.items())
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {
                "name": "face-age",
                "digest": {"sha256": sha256(b"".join(bytes.fromhex(item) for _, item in named))},
            }
        ],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "resources": [
                {"name": name, "digest": digest, "algorithm": "sha256"} for name, digest in named
            ],
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": ["model.sig"],
            },
        },
    }


def envelope(payload: bytes, signature: bytes, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {
            "publicKey": {"hint": sha256(pem(key).encode())},
            "tlogEntries": [],
        },
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }


def pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


# Changes


def put(*path: Any, to: Any) -> Change:
    """A JSON value with one place in it set anew."""

    def change(value: Any) -> Any:
        place = value
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to
        return value

    return change


def drop(*path: Any) -> Change:
    def change(value: Any) -> Any:
        place = value
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]
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


# Archives


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


def encrypted(raw: bytes) -> bytes:
    """Every entry says that it is encrypted."""
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = raw.find(mark)
        while at >= 0:
            raw = raw[: at + place] + bytes([raw[at + place] | 1]) + raw[at + place + 1 :]
            at = raw.find(mark, at + 4)
    return raw
