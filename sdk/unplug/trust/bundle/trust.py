"""Whom a reader trusts, and what it knows already: keys, the lowest release that still counts, what
was revoked.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from unplug.core import STRICT, InputError, read_dataclass, read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    from .manifest import Publication

P256_HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200" + "04")
"""What the 91 bytes of every uncompressed P-256 public key (SubjectPublicKeyInfo, DER) begin with.
"""
MAX_KEY_BYTES = 65536
CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
BEGIN, END = "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"
_MAKE = "`unplug bundle keygen NAME` makes NAME and NAME.pub"


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """A P-256 public key.

    Args:
        der: its 91 bytes, SubjectPublicKeyInfo.
    """

    der: bytes

    @property
    def pem(self) -> str:
        """The text form, in lines of 64."""
        text = base64.b64encode(self.der).decode()
        return "\n".join([BEGIN, *(text[at : at + 64] for at in range(0, len(text), 64)), END, ""])

    @property
    def hint(self) -> str:
        """SHA-256 of `pem`, by which a signature of OpenSSF Model Signing names its key."""
        return hashlib.sha256(self.pem.encode()).hexdigest()

    def loaded(self) -> EllipticCurvePublicKey:
        """The key as the cryptographic library has it; `InputError` for a point that is not on the
        curve.
        """
        from cryptography.hazmat.primitives.asymmetric import ec

        try:
            return ec.EllipticCurvePublicKey.from_encoded_point(
                ec.SECP256R1(), self.der[len(P256_HEAD) - 1 :]
            )
        except ValueError as error:
            raise InputError("public key", "it is no point of the curve P-256", _MAKE) from error

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether `signature` is this key's over SHA-256 of `message`: ECDSA in strict DER, one
        spelling a pair (r, s).

        What another reader would take in BER is refused.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        try:
            if utils.encode_dss_signature(*utils.decode_dss_signature(signature)) != signature:
                return False
            self.loaded().verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError):
            return False
        return True


def public_key(text: str, where: str) -> PublicKey:
    """A public key out of its PEM text.

    Raises:
        InputError: it is no P-256 public key; a private one is named as such.
    """
    if "PRIVATE KEY" in text:
        raise InputError(where, "it is a private key, and trust needs the public one", _MAKE)
    body = text.strip()
    try:
        if not (body.startswith(BEGIN) and body.endswith(END)):
            raise ValueError(where)
        der = base64.b64decode("".join(body[len(BEGIN) : -len(END)].split()), validate=True)
    except ValueError as error:
        raise InputError(where, "it is no public key in PEM form", _MAKE) from error
    if len(der) != 91 or not der.startswith(P256_HEAD):
        raise InputError(where, "it is a public key of another kind than P-256", _MAKE)
    key = PublicKey(der=der)
    key.loaded()
    return key


@dataclass(frozen=True, kw_only=True)
class TrustFile:
    """``unplug-trust/1``: what `Trust` says, as a file.

    Args:
        keys: public keys in PEM form.
        name, minimum_release, revoked, superseded: see `Trust`.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    keys: tuple[str, ...]
    name: str | None = None
    minimum_release: int = 1
    revoked: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    schema: Literal["unplug-trust/1"] = "unplug-trust/1"


@dataclass(frozen=True, kw_only=True)
class Trust:
    """What a reader knows before it opens a bundle.

    Args:
        keys: whose signatures count.
        name: the product that is expected; None takes any.
        minimum_release: older releases are refused.
        revoked, superseded: bundles by the SHA-256 of their manifest.
        roots: certificates in DER under which signers count that are named by one. Not in
            ``unplug-trust/1``, for the readers in other languages take plain keys only.
    """

    keys: tuple[PublicKey, ...] = field(default=())
    name: str | None = None
    minimum_release: int = 1
    revoked: frozenset[str] = frozenset()
    superseded: frozenset[str] = frozenset()
    roots: tuple[bytes, ...] = ()

    def key(self, hint: str) -> PublicKey | None:
        """The trusted key of that hint."""
        return next((key for key in self.keys if key.hint == hint), None)

    def after(self, publication: Publication) -> Trust:
        """What is known once a release was seen: nothing older than it counts, nor what it takes
        back.
        """
        return replace(
            self,
            name=publication.name,
            minimum_release=max(self.minimum_release, publication.release),
            revoked=self.revoked | {*publication.revokes},
            superseded=self.superseded | {*publication.supersedes},
        )


def read_trust(path: Path) -> Trust:
    """Trust out of a file: one public key in PEM form, root certificates in PEM form, or an
    ``unplug-trust/1`` JSON.

    Raises:
        InputError: it is none of these.
    """
    raw = read_regular(path, max_bytes=MAX_KEY_BYTES)
    if CERTIFICATE in raw and b"PRIVATE KEY" not in raw:
        from .x509_chain import read_certificates  # which needs the public key from here

        return Trust(roots=read_certificates(path))
    if raw.lstrip()[:1] != b"{":
        return Trust(keys=(public_key(raw.decode("ascii", "replace"), str(path)),))
    found = read_dataclass(TrustFile, path, InputError, max_bytes=MAX_KEY_BYTES)
    return Trust(
        keys=tuple(public_key(text, str(path)) for text in found.keys),
        name=found.name,
        minimum_release=found.minimum_release,
        revoked=frozenset(found.revoked),
        superseded=frozenset(found.superseded),
    )


def together(trusts: list[Trust]) -> Trust:
    """All that several files say: any of the keys counts, and each of the bounds."""
    names = {trust.name for trust in trusts} - {None}
    if len(names) > 1:
        raise InputError(
            "--trust", "two files expect bundles of different names", "Give one file a product"
        )
    return Trust(
        keys=tuple(key for trust in trusts for key in trust.keys),
        name=next(iter(names), None),
        minimum_release=max((trust.minimum_release for trust in trusts), default=1),
        revoked=frozenset().union(*(trust.revoked for trust in trusts)),
        superseded=frozenset().union(*(trust.superseded for trust in trusts)),
        roots=tuple(root for trust in trusts for root in trust.roots),
    )
