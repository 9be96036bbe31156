"""Keys that sign bundles: P-256, from a file, an environment variable, or behind a command (a
token, a key service).
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unplug.core import InputError, OutputError, read_regular

from .p256 import MAX_KEY_BYTES, PublicKey, public_key
from .x509_chain import key_of, read_certificates

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ENVIRONMENT, COMMAND = "env:", "command:"
SECONDS = 120
"""Somebody may have to touch a token or type its number."""
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the group of P-256."""
_MAKE = "`unplug bundle keygen NAME` makes a key"


@dataclass(frozen=True, kw_only=True)
class Signer:
    """Signs bytes by ECDSA over P-256 and SHA-256.

    Args:
        key: the public half.
        sign: from bytes to the signature in DER.
        chain: certificates in DER by which it is named, its own first, then those above it; none:
            it is named by its key.
    """

    key: PublicKey
    sign: Callable[[bytes], bytes]
    chain: tuple[bytes, ...] = ()


def make_key(path: Path) -> PublicKey:
    """Makes a key pair: `path`, which its owner alone can read (0600), and ``path.pub``.

    Raises:
        OutputError: one of them exists already, or cannot be written.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    public = path.with_name(f"{path.name}.pub")
    for taken in (path, public):
        if taken.is_symlink() or taken.exists():
            raise OutputError(
                str(taken), "a file is there, and keys are never overwritten", "Choose another name"
            )
    made = ec.generate_private_key(ec.SECP256R1())
    private = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = _public_of(made)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_new(path, private, 0o600)
        _write_new(public, key.pem.encode(), 0o644)
    except OSError as error:
        raise OutputError(
            str(path),
            f"no key can be written there ({error.strerror or error})",
            "Choose another place",
        ) from error
    return key


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """A file that did not exist, readable by whom `mode` says from its first moment on."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
    with os.fdopen(number, "wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def load_signer(spec: str, public: Path | None = None, chain: Path | None = None) -> Signer:
    """The key that signs.

    Args:
        spec: a file; ``env:NAME``, an environment variable that holds the PEM text; or
            ``command:WORDS``, a program that reads the bytes to sign on standard input and writes
            the signature, ECDSA over SHA-256 in DER, on standard output, such as ``openssl dgst
            -sha256 -sign KEY`` or ``pkcs11-tool --sign --mechanism ECDSA-SHA256 --signature-format
            openssl``.
        public: the public key; a command cannot tell it.
        chain: PEM file with the certificate of the key, then those above it, by which signatures
            shall name it.

    Raises:
        InputError: there is none; others can read it; it is of another kind; it is not the private
            half of `public`, or not what the first certificate is about.
    """
    certificates = () if chain is None else read_certificates(chain)
    wanted = None if public is None else public_key(_text(public), str(public))
    if certificates:
        public, wanted = public or chain, _certified(certificates[0], wanted, str(chain))
    if spec.startswith(COMMAND):
        if wanted is None:
            fix = "Add `public=KEY.pub`, or `chain`"
            raise InputError("`sign=command:`", "its public key is not known", fix)
        return Signer(key=wanted, sign=_command(spec), chain=certificates)
    private = _private(_secret_text(spec), spec)
    key = _public_of(private)
    if wanted not in (None, key):
        why = f"it is not the private half of {public}"
        raise InputError(spec, why, "Give the two files that were made together")
    return Signer(key=key, sign=lambda message: _by_key(private, message), chain=certificates)


def _command(spec: str) -> Callable[[bytes], bytes]:
    try:
        words = shlex.split(spec.removeprefix(COMMAND))
    except ValueError as error:
        why = f"its quotes do not match ({error})"
        raise InputError(f"`sign={spec[:100]}`", why, "Write it as in a shell") from error
    return lambda message: _by_command(words, message)


def _secret_text(spec: str) -> str:
    """The PEM text of a private key, out of a file or the environment."""
    if not spec.startswith(ENVIRONMENT):
        return _private_text(Path(spec))
    if text := os.environ.get(spec.removeprefix(ENVIRONMENT)):
        return text
    fix = f"Put the PEM text of the key in it; {_MAKE}"
    raise InputError(spec, "that environment variable is not set", fix)


def _certified(certificate: bytes, public: PublicKey | None, where: str) -> PublicKey:
    """The key that a certificate is about, which is the given public one."""
    try:
        key = key_of(certificate)
    except ValueError as error:
        raise InputError(
            where, f"its first certificate cannot be used ({error})", "Give one of a P-256 key"
        ) from error
    if public not in (None, key):
        raise InputError(
            where,
            "its first certificate is of another key than `public`",
            "Give the two that belong together",
        )
    return key


def _text(path: Path) -> str:
    return read_regular(path, max_bytes=MAX_KEY_BYTES).decode("ascii", "replace")


def _private_text(path: Path) -> str:
    if not path.exists():
        raise InputError(str(path), "no such key", _MAKE)
    text = _text(path)
    if "PUBLIC KEY" not in text and os.name != "nt" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InputError(
            str(path), "others than its owner can read the private key", f"Run: chmod 600 {path}"
        )
    return text


def _private(text: str, where: str) -> EllipticCurvePrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if "PUBLIC KEY" in text:
        raise InputError(
            where,
            "it is a public key, and signing needs the private one",
            "Give the file without .pub",
        )
    try:
        key = load_pem_private_key(text.encode(), None)
    except TypeError as error:  # what the library says of a passphrase that is missing
        why = "the private key is under a passphrase"
        raise InputError(
            where, why, "Use `sign='command:openssl dgst -sha256 -sign FILE'`, which asks for it"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(where, "it is no private key in PEM form", _MAKE) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InputError(where, "it is a private key of another kind than P-256", _MAKE)
    return key


def _public_of(private: EllipticCurvePrivateKey) -> PublicKey:
    from cryptography.hazmat.primitives import serialization

    return PublicKey(
        der=private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def _by_key(private: EllipticCurvePrivateKey, message: bytes) -> bytes:
    """The one signature of RFC 6979 (no random number, the same bundle has the same bytes), of the
    two with the smaller s.
    """
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    r, s = utils.decode_dss_signature(
        private.sign(message, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    )
    return utils.encode_dss_signature(r, min(s, ORDER - s))


def _by_command(words: list[str], message: bytes) -> bytes:
    """What a program signs; whether it did is found by verifying the bundle with its public key."""
    what = f"`sign=command:{' '.join(words)[:100]}`"
    try:
        done = subprocess.run(
            words, input=message, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(
            what, f"no signature after {SECONDS} s", "Try the command by hand"
        ) from error
    except (OSError, IndexError, ValueError) as error:
        raise InputError(what, f"it cannot be run ({error})", "Check the command") from error
    if done.returncode or not done.stdout:
        tail = done.stderr.decode("utf-8", "replace").strip()[-200:]
        raise InputError(
            what,
            f"it made no signature (exit {done.returncode}: {tail})",
            "Try the command by hand",
        )
    return done.stdout
