"""Signers that are named by a certificate: the chain next to a signature, held to the roots that a
reader trusts.

A signature has no time that anybody else vouches for, so every certificate must be valid when the
bundle is verified.

Reference: RFC 5280, section 6; the verification is that of the package ``cryptography``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, read_regular

from .p256 import P256_HEAD, PublicKey
from .refused import Refused

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

MAX_CHAIN, MAX_CERTIFICATE_BYTES = 8, 16384
"""Certificates in a signature, and bytes of one: real ones have 500 to 2,000."""
MAX_DEPTH = 4
"""Certificates between the signer's and a root."""
_GET = (
    "Get a bundle that is signed under a root that you trust, or give that root with "
    "`trust=ROOT.pem`"
)


def read_certificates(path: Path) -> tuple[bytes, ...]:
    """The certificates of a PEM file, in DER, in their order.

    Raises:
        InputError: there are none, too many or too large ones, or they are no certificates.
    """
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificates

    raw = read_regular(path, max_bytes=MAX_CHAIN * 2 * MAX_CERTIFICATE_BYTES)
    try:
        certificates = tuple(
            item.public_bytes(Encoding.DER) for item in load_pem_x509_certificates(raw)
        )
    except ValueError as error:
        raise InputError(
            str(path),
            "it holds no certificates in PEM form",
            "Give a file of BEGIN CERTIFICATE blocks",
        ) from error
    if len(certificates) > MAX_CHAIN or any(
        len(item) > MAX_CERTIFICATE_BYTES for item in certificates
    ):
        why = (
            f"it holds more than {MAX_CHAIN} certificates, or one of more than "
            f"{MAX_CERTIFICATE_BYTES} bytes"
        )
        raise InputError(
            str(path), why, "Give the signer's certificate and those above it, and nothing else"
        )
    return certificates


def key_of(certificate: bytes) -> PublicKey:
    """The P-256 key that a certificate is about; it is not verified here.

    Raises:
        ValueError: it is not a certificate, or its key is of another kind.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = (
        _loaded(certificate)
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    )
    if len(der) != 91 or not der.startswith(P256_HEAD):
        raise ValueError("its key is of another kind than P-256")
    return PublicKey(der=der)


def _loaded(certificate: bytes) -> Certificate:
    """A certificate in its one DER spelling; every failure of the parser is a `ValueError`."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    try:
        loaded = load_der_x509_certificate(certificate)
        loaded.public_key()
        # else one certificate has several spellings, and hashes of it are no name
        if loaded.public_bytes(Encoding.DER) != certificate:
            raise ValueError("it is followed by other bytes")
    except (InvalidVersion, UnsupportedAlgorithm, TypeError) as error:
        raise ValueError(str(error)) from error
    return loaded


def check_chain(
    chain: Sequence[bytes], roots: Sequence[bytes], now: datetime, where: str
) -> PublicKey:
    """The key of a signer whose certificate leads to a root.

    The signer's certificate is for digital signatures (key usage) and code signing (extended key
    usage), and is not an authority's; those above it are authorities', within their path lengths;
    all of them and the root are valid now, and hold no critical extension that is not understood.

    Args:
        chain: certificates in DER, the signer's first.
        roots: the roots that the reader trusts.
        now: the time, UTC.
        where: the bundle.

    Raises:
        Refused: ``certificate``, with what does not hold.
    """
    from cryptography.x509 import verification as by

    try:
        leaf, *others = [_loaded(item) for item in chain]
        key = key_of(chain[0])
        store = by.Store([_loaded(item) for item in roots])
        builder = (
            by.PolicyBuilder()
            .store(store)
            .time(now.astimezone(UTC).replace(tzinfo=None))
            .max_chain_depth(MAX_DEPTH)
        )
        authority, signer = _policies()
        verifier = builder.extension_policies(
            ca_policy=authority, ee_policy=signer
        ).build_client_verifier()
        verifier.verify(leaf, others)
    except (ValueError, by.VerificationError) as error:
        why = f"its signer's certificate leads to no trusted root ({str(error)[:200]})"
        raise Refused("certificate", where, why, _GET) from error
    return key


def _policies() -> tuple[Any, Any]:
    """What extensions an authority's certificate must have, and the signer's."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID
    from cryptography.x509.verification import Criticality, ExtensionPolicy

    def signs(_policy: object, _certificate: object, usage: Any) -> None:
        if not usage.digital_signature:
            raise ValueError("its key is not for digital signatures")

    def signs_code(_policy: object, _certificate: object, usages: Any) -> None:
        if usages is not None and ExtendedKeyUsageOID.CODE_SIGNING not in usages:
            raise ValueError("its key is not for code signing")

    def is_no_authority(_policy: object, _certificate: object, basic: Any) -> None:
        if basic is not None and basic.ca:
            raise ValueError("it is an authority's, which signs certificates")

    either = Criticality.AGNOSTIC
    authority = ExtensionPolicy.webpki_defaults_ca().may_be_present(
        x509.ExtendedKeyUsage, either, signs_code
    )
    signer = (
        ExtensionPolicy.permit_all()
        .require_present(x509.KeyUsage, either, signs)
        .require_present(x509.ExtendedKeyUsage, either, signs_code)
        .may_be_present(x509.BasicConstraints, either, is_no_authority)
    )
    return authority, signer
