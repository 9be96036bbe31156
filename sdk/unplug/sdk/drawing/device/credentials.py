"""Content Credentials (C2PA): a signed manifest in a picture that says that a model drew it, and which.

A reader checks it without unplug, and sees when a pixel was changed. Anyone can strip it. A key that
no authority of C2PA's trust list certified is valid, and not trusted.

Reference: C2PA Technical Specification 2.2, "Assertions" and "Digital Signatures".
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import VERSION, InputError, atomic_path, require_modules

from .marking import TRAINED, picture_format

if TYPE_CHECKING:
    from unplug.trust.bundle import Signer

LABEL = "unplug.drawing"
"""Our own assertion: the facts that draw the same picture."""
VALID = timedelta(days=365)
NAME = "unplug picture"
PLAIN = {"builder": {"thumbnail": {"enabled": False}}}
"""The picture is its own thumbnail."""


def sign_picture(path: Path, signer: Signer, facts: Mapping[str, Any]) -> None:
    """Puts a signed manifest into a PNG or JPEG file, atomically.

    Args:
        path: a picture by `save_marked`.
        signer: an ECDSA key over P-256; without a chain it gets a certificate of its own, which
            nobody trusts before they hold it.
        facts: how it was drawn, the models' SHA-256 among them.

    Raises:
        InputError: the key or its certificate cannot sign pictures.
        MissingExtraError: c2pa-python is not installed.
        OutputError: the file cannot be written.
    """
    require_modules(["c2pa"], "c2pa")
    import c2pa

    kind = f"image/{picture_format(path).lower()}"
    chain, made = _pem(signer), io.BytesIO()
    try:
        told = json.dumps(manifest(path.name, kind, facts))
        with (
            c2pa.Signer.from_callback(signer.sign, c2pa.C2paSigningAlg.ES256, chain) as signs,
            c2pa.Builder(told, c2pa.Context.from_dict(PLAIN)) as builder,
        ):
            builder.sign(signs, kind, io.BytesIO(path.read_bytes()), made)
    except c2pa.C2paError as error:
        fix = "Its certificate must allow digital signatures, and email protection or signed documents"
        raise InputError(f"`sign` for {path}", str(error)[:300], fix) from error
    with atomic_path(path) as temporary:
        temporary.write_bytes(made.getvalue())


def manifest(title: str, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a picture, in the form that c2pa takes."""
    agent = {"name": "unplug", "version": VERSION}
    created = {"action": "c2pa.created", "digitalSourceType": TRAINED, "softwareAgent": agent}
    return {
        "claim_generator_info": [agent],
        "title": title,
        "format": kind,
        "assertions": [
            {"label": "c2pa.actions.v2", "data": {"actions": [created]}},
            {"label": LABEL, "data": dict(facts)},
        ],
    }


def _pem(signer: Signer) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    chain = [x509.load_der_x509_certificate(item) for item in signer.chain] or _own(signer)
    return "".join(item.public_bytes(Encoding.PEM).decode("ascii") for item in chain)


def _own(signer: Signer) -> list[Any]:
    """A certificate of the key by an authority that is made for it and forgotten: C2PA refuses
    certificates that certify themselves.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def named(name: str) -> x509.Name:
        return x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, NAME),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )

    now, authority = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    above = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer)
    none = dict.fromkeys(UNUSED, False)
    made = []
    for name, key in (("key", signer.key.loaded()), ("authority", authority.public_key())):
        top = name == "authority"
        usage = x509.KeyUsage(digital_signature=not top, key_cert_sign=top, crl_sign=top, **none)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named("authority"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + VALID)
            .add_extension(x509.BasicConstraints(ca=top, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(above, critical=False)
        )
        if not top:
            use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
            builder = builder.add_extension(use, critical=False)
        made.append(builder.sign(authority, hashes.SHA256()))
    return made


UNUSED = (
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "encipher_only",
    "decipher_only",
)
