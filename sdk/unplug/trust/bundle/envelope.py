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
        name: the name of the product; informational.
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
        payload: a payload made by `statement`.
        signature: ECDSA over SHA-256 of `pae`, in DER.
        key: the key that signs.
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
        hint: the hint of the key that it names, or "".
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
    try:
        value = strict_json(raw)
    except ValueError as error:
        why = f"the signature is not strict JSON ({error})"
        raise Refused("envelope", where, why, RESIGN) from error
    if not has_fields(value, "mediaType", "verificationMaterial", "dsseEnvelope"):
        why = "the signature has other fields than a Sigstore bundle"
        raise Refused("envelope", where, why, RESIGN)
    if value["mediaType"] != MEDIA_TYPE:
        raise Refused("wrong-type", where, f"its media type is not {MEDIA_TYPE}", RESIGN)
    hint, chain = _signer(value["verificationMaterial"], where, chains=chains)
    try:
        payload, [(key_id, signature)] = read_dsse(value["dsseEnvelope"], 1)
    except ValueError as error:
        verdict: Verdict = "wrong-type" if isinstance(error, OtherPayload) else "envelope"
        raise Refused(verdict, where, str(error), RESIGN) from error
    if key_id:
        raise Refused("envelope", where, "its signature names a second key", RESIGN)
    if not chain and not hint:
        why = "its key is named neither by a fingerprint nor by itself"
        raise Refused("envelope", where, why, RESIGN)
    return Envelope(payload=payload, signature=signature, hint=hint, chain=chain)


def _signer(material: Any, where: str, *, chains: bool) -> tuple[str, tuple[bytes, ...]]:
    """The hint of the key that signed, or the certificates that name it; neither is of the form
    where both are empty.
    """
    if not isinstance(material, dict):
        raise Refused("envelope", where, "it names no key", RESIGN)
    hint, chain = "", tuple[bytes, ...]()
    if {"certificate", "x509CertificateChain"} & material.keys():
        if not chains:
            why = "its signer is named by a certificate, and no root is given that it could lead to"
            raise Refused("certificate", where, why, ROOT)
        if not (chain := _chain(material)):
            why = "its signer's certificates are not one chain, the signer's own first"
            raise Refused("certificate", where, why, RESIGN)
    elif has_fields(material, "publicKey", optional=("tlogEntries",)):
        hint = _hint(material["publicKey"])
    else:
        raise Refused("envelope", where, "it names no key, or more than one", RESIGN)
    if material.get("tlogEntries", []) != []:
        raise Refused("envelope", where, "it has entries of a log that nobody checks", RESIGN)
    return hint, chain


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
    chain = tuple(from_base64(item["rawBytes"]) or b"" for item in items)
    return chain if all(0 < len(item) <= MAX_CERTIFICATE_BYTES for item in chain) else ()


def _hint(named: Any) -> str:
    hint = named.get("hint") if has_fields(named, "hint") else None
    return hint if isinstance(hint, str) and SHA256.fullmatch(hint) else ""


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
    try:
        value = strict_json(payload)
    except ValueError as error:
        why = f"what is signed is not strict JSON ({error})"
        raise Refused("statement", where, why, RESIGN) from error
    if not has_fields(value, "_type", "subject", "predicateType", "predicate"):
        raise Refused("statement", where, "what is signed is not an in-toto statement", RESIGN)
    if value["_type"] != STATEMENT_TYPE or value["predicateType"] != PREDICATE_TYPE:
        why = "what is signed is a statement of another kind"
        raise Refused("wrong-type", where, why, RESIGN)
    predicate, subject = value["predicate"], value["subject"]
    if not has_fields(predicate, "resources", "serialization"):
        raise Refused("statement", where, "its predicate has other fields", RESIGN)
    _hashed_whole(predicate["serialization"], where)
    digests = _digests(predicate["resources"], where)
    if not (isinstance(subject, list) and len(subject) == 1 and isinstance(subject[0], dict)):
        raise Refused("statement", where, "it is not about one bundle", RESIGN)
    if subject[0].get("digest") != {"sha256": root_digest(digests)}:
        raise Refused("statement", where, "its subject is not the sum of its files", RESIGN)
    return digests


def _hashed_whole(way: Any, where: str) -> None:
    """Refuses files that were hashed in another way than whole, each of them, links not followed."""
    if not has_fields(way, "method", "hash_type", "allow_symlinks", optional=("ignore_paths",)):
        raise Refused("statement", where, "it does not say how files were hashed", RESIGN)
    if (way["method"], way["hash_type"]) != ("files", "sha256"):
        raise Refused("excluded", where, "its files are not hashed whole by SHA-256", RESIGN)
    if way["allow_symlinks"] is not False:
        raise Refused("excluded", where, "its signer followed links", RESIGN)
    if way.get("ignore_paths", []) not in ([], [SIGNATURE]):
        raise Refused("excluded", where, "its signer left files out", RESIGN)


def _digests(resources: Any, where: str) -> dict[str, str]:
    """SHA-256 of every file by its path, which stand in the order of the paths."""
    if not isinstance(resources, list) or not resources or not all(map(_resource, resources)):
        raise Refused("statement", where, "it lists no files", RESIGN)
    names = [resource["name"] for resource in resources]
    check_names(names, where)
    if not all(a < b for a, b in pairwise(names)):
        raise Refused("statement", where, "its files are not in order", RESIGN)
    return {resource["name"]: resource["digest"] for resource in resources}


def _resource(item: Any) -> bool:
    """A descriptor of a file; fields beyond these are to be ignored, as the specification says."""
    return (
        isinstance(item, dict)
        and isinstance(item.get("name"), str)
        and item.get("algorithm") == "sha256"
        and isinstance(item.get("digest"), str)
        and SHA256.fullmatch(item["digest"]) is not None
    )
