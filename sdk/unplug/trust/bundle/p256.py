"""Public keys of the one kind that signs here: P-256, in PEM and in DER."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unplug.core import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

P256_HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200" + "04")
"""What the 91 bytes of every uncompressed P-256 public key (SubjectPublicKeyInfo, DER) begin with.
"""
MAX_KEY_BYTES = 65536
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
            raise InputError("public key", "it is not a point of the curve P-256", _MAKE) from error

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
        InputError: it is not a P-256 public key; a private one is named as such.
    """
    if "PRIVATE KEY" in text:
        raise InputError(where, "it is a private key, and trust needs the public one", _MAKE)
    body = text.strip()
    try:
        if not (body.startswith(BEGIN) and body.endswith(END)):
            raise ValueError(where)
        der = base64.b64decode("".join(body[len(BEGIN) : -len(END)].split()), validate=True)
    except ValueError as error:
        raise InputError(where, "it is not a public key in PEM form", _MAKE) from error
    if len(der) != 91 or not der.startswith(P256_HEAD):
        raise InputError(where, "it is a public key of another kind than P-256", _MAKE)
    key = PublicKey(der=der)
    key.loaded()
    return key
