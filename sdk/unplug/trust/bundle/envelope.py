"""The signature file of OpenSSF Model Signing 1.0: a Sigstore bundle around a DSSE envelope around
an in-toto statement.

The payload lists every file of the bundle but the signature with its SHA-256, the manifest among
them.

Reference: OpenSSF Model Signing specification 1.0; `signed_json` has the envelope.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from .p256 import PublicKey
from .refused import Refused, Verdict
from .signed_json import (
    STATEMENT_TYPE,
    OtherPayload,
    canonical,
    dsse,
    from_base64,
    has_fields,
    pae,
    read_dsse,
    strict_json,
)
from .source import SIGNATURE, check_names
from .trust import Trust
from .x509_chain import MAX_CERTIFICATE_BYTES, MAX_CHAIN, check_chain

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
MAX_SIGNATURE_BYTES = 8 * 2**20
SHA256 = re.compile(r"[0-9a-f]{64}")
RESIGN = "Sign it again with `unplug bundle sign`"
ROOT = (
    "Give the root certificate that it leads to with `trust=ROOT.pem`, if you have it from "
    "somebody you trust"
)


def root_digest(resources: Mapping[str, str]) -> str:
    """SHA-256 over the digests of all files in the order of their names: the statement's subject."""
    return hashlib.sha256(
        b"".join(bytes.fromhex(resources[name]) for name in sorted(resources))
    ).hexdigest()


def statement(name: str, resources: Mapping[str, str]) -> bytes:
    """The payload: an in-toto statement about a bundle's files.

    Args:
        name: of the product; informational.
        resources: SHA-256 by path.
    """
    return canonical(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": root_digest(resources)}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "resources": [
                    {"name": path, "digest": resources[path], "algorithm": "sha256"}
                    for path in sorted(resources)
                ],
                "serialization": {
                    "method": "files",
                    "hash_type": "sha256",
                    "allow_symlinks": False,
                    "ignore_paths": [SIGNATURE],
                },
            },
        }
    )


def envelope(
    payload: bytes, signature: bytes, key: PublicKey, chain: Sequence[bytes] = ()
) -> bytes:
    """The signature file.

    Args:
        payload: of `statement`.
        signature: ECDSA over SHA-256 of `pae`, in DER.
        key: whose signature it is.
        chain: certificates in DER that name the key, its own first; none: it is named by its hint.
    """
    certificates = [{"rawBytes": base64.b64encode(item).decode()} for item in chain]
    named = (
        {"x509CertificateChain": {"certificates": certificates}}
        if chain
        else {"publicKey": {"hint": key.hint}}
    )
    return canonical(
        {
            "mediaType": MEDIA_TYPE,
            "verificationMaterial": {**named, "tlogEntries": []},
            "dsseEnvelope": dsse(payload, signature),
        }
    )


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A signature file that was read and not yet believed.

    Args:
        payload: the bytes that are signed.
        signature: DER, as it came.
        hint: of the key that it names, or "".
        chain: certificates in DER by which it names its signer instead.
    """

    payload: bytes
    signature: bytes
    hint: str
    chain: tuple[bytes, ...] = ()


def read_envelope(raw: bytes, where: str, *, chains: bool = False) -> Envelope:
    """Takes a signature file apart.

    Args:
        raw: its bytes.
        where: opens the error messages.
        chains: whether the reader trusts roots, and so reads signers that are named by
            certificates.

    Raises:
        Refused: ``envelope``: not of the form; ``wrong-type``: the envelope of something else;
            ``certificate``: its signer is named by certificates, and they are not of the form or
            the reader trusts no root.
    """

    def need(holds: bool, why: str, verdict: Verdict = "envelope") -> None:
        if not holds:
            raise Refused(verdict, where, why, RESIGN)

    try:
        value = strict_json(raw)
    except ValueError as error:
        raise Refused(
            "envelope", where, f"the signature is no strict JSON ({error})", RESIGN
        ) from error
    need(
        has_fields(value, "mediaType", "verificationMaterial", "dsseEnvelope"),
        "the signature has other fields than a Sigstore bundle",
    )
    need(value["mediaType"] == MEDIA_TYPE, f"its media type is not {MEDIA_TYPE}", "wrong-type")
    material, inner = value["verificationMaterial"], value["dsseEnvelope"]
    need(isinstance(material, dict), "it names no key")
    chain: tuple[bytes, ...] = ()
    if {"certificate", "x509CertificateChain"} & material.keys():
        if not chains:
            why = "its signer is named by a certificate, and no root is given that it could lead to"
            raise Refused("certificate", where, why, ROOT)
        chain = _chain(material)
        need(
            bool(chain),
            "its signer's certificates are not one chain, the signer's own first",
            "certificate",
        )
    else:
        need(
            has_fields(material, "publicKey", optional=("tlogEntries",)),
            "it names no key, or more than one",
        )
    need(material.get("tlogEntries", []) == [], "it has entries of a log that nobody checks")
    try:
        payload, [(key_id, signature)] = read_dsse(inner, 1)
    except ValueError as error:
        verdict: Verdict = "wrong-type" if isinstance(error, OtherPayload) else "envelope"
        raise Refused(verdict, where, str(error), RESIGN) from error
    need(not key_id, "its signature names a second key")
    hint = "" if chain else _hint(material["publicKey"])
    need(hint is not None, "its key is named neither by a fingerprint nor by itself")
    return Envelope(payload=payload, signature=signature, hint=str(hint), chain=chain)


def _chain(material: dict[str, Any]) -> tuple[bytes, ...]:
    """The certificates by which a signature names its signer, in DER; none where they are not of
    the form.
    """
    listed: Any = material.get("x509CertificateChain")
    if not has_fields(
        material, "x509CertificateChain", optional=("tlogEntries",)
    ) or not has_fields(listed, "certificates"):
        return ()
    items = listed["certificates"]
    if (
        not isinstance(items, list)
        or len(items) > MAX_CHAIN
        or not all(has_fields(item, "rawBytes") for item in items)
    ):
        return ()
    found = tuple(from_base64(item["rawBytes"]) or b"" for item in items)
    return found if all(0 < len(item) <= MAX_CERTIFICATE_BYTES for item in found) else ()


def _hint(named: Any) -> str | None:
    if (
        has_fields(named, "hint")
        and isinstance(named["hint"], str)
        and SHA256.fullmatch(named["hint"])
    ):
        return str(named["hint"])
    return None


def check_signature(found: Envelope, trust: Trust, where: str, now: datetime) -> PublicKey:
    """The trusted key that made the signature.

    Raises:
        Refused: ``unknown-key``; ``certificate``: a signer so named leads to no trusted root, see
            `check_chain`; or ``bad-signature``: it is not the key's over this payload, or not in
            strict DER.
    """
    key = (
        check_chain(found.chain, trust.roots, now, where) if found.chain else trust.key(found.hint)
    )
    if key is None:
        fix = (
            "Give the signer's public key with `trust=KEY.pub`, if you have it from somebody you "
            "trust"
        )
        raise Refused("unknown-key", where, f"signed by an unknown key ({found.hint[:16]})", fix)
    if not key.verifies(pae(found.payload), found.signature):
        raise Refused(
            "bad-signature",
            where,
            "its signature is not that of the key it names, over what it holds",
        )
    return key


def read_statement(payload: bytes, where: str) -> dict[str, str]:
    """SHA-256 of every file by its path, from a payload whose signature was checked.

    Raises:
        Refused: ``wrong-type``: a statement of something else; ``excluded``: files were left out,
            links followed, or hashed in another way; ``statement``: not of the form; ``too-many``,
            ``unsafe-name``, ``collision``: see `check_names`.
    """

    def need(holds: bool, why: str, verdict: Verdict = "statement") -> None:
        if not holds:
            raise Refused(verdict, where, why, RESIGN)

    try:
        value = strict_json(payload)
    except ValueError as error:
        raise Refused(
            "statement", where, f"what is signed is no strict JSON ({error})", RESIGN
        ) from error
    need(
        has_fields(value, "_type", "subject", "predicateType", "predicate"),
        "what is signed is no in-toto statement",
    )
    need(
        value["_type"] == STATEMENT_TYPE and value["predicateType"] == PREDICATE_TYPE,
        "what is signed is a statement of another kind",
        "wrong-type",
    )
    predicate = value["predicate"]
    need(has_fields(predicate, "resources", "serialization"), "its predicate has other fields")
    way = predicate["serialization"]
    need(
        has_fields(way, "method", "hash_type", "allow_symlinks", optional=("ignore_paths",)),
        "it says not how files were hashed",
    )
    need(
        (way["method"], way["hash_type"]) == ("files", "sha256"),
        "its files are not hashed whole by SHA-256",
        "excluded",
    )
    need(way["allow_symlinks"] is False, "its signer followed links", "excluded")
    need(way.get("ignore_paths", []) in ([], [SIGNATURE]), "its signer left files out", "excluded")
    resources = predicate["resources"]
    need(
        isinstance(resources, list)
        and bool(resources)
        and all(_resource(item) for item in resources),
        "it lists no files",
    )
    names = [item["name"] for item in resources]
    check_names(names, where)
    need(all(a < b for a, b in pairwise(names)), "its files are not in order")
    found = {item["name"]: item["digest"] for item in resources}
    subject = value["subject"]
    need(
        isinstance(subject, list) and len(subject) == 1 and isinstance(subject[0], dict),
        "it is not about one bundle",
    )
    need(
        subject[0].get("digest") == {"sha256": root_digest(found)},
        "its subject is not the sum of its files",
    )
    return found


def _resource(item: Any) -> bool:
    """A descriptor of a file; fields beyond these are to be ignored, as the specification says."""
    return (
        isinstance(item, dict)
        and isinstance(item.get("name"), str)
        and item.get("algorithm") == "sha256"
        and isinstance(item.get("digest"), str)
        and SHA256.fullmatch(item["digest"]) is not None
    )
