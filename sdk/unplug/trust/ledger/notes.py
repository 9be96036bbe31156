"""Signed notes: a text of lines with Ed25519 signatures under it, as transparency logs write their
checkpoints.

    unplug-3f9a0c11/7be2d4a0
    42
    qJZ2...=

    — unplug-3f9a0c11 Az3grl...=

Reference: C2SP, "Note" (c2sp.org/signed-note) and "Checkpoint" (c2sp.org/tlog-checkpoint); the
    secret key's text is that of
Go's ``golang.org/x/mod/sumdb/note``.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unplug.core import CheckFailed, InputError

if TYPE_CHECKING:  # the package is imported when a key is used
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MAX_NOTE_BYTES = 65536
MAX_SIGNATURES = 100
ED25519 = b"\x01"
SECRET = "PRIVATE+KEY+"
NAME = re.compile(r"[^\s+]{1,200}")
AGAIN = "Give the file or the line as `unplug ledger` wrote it"


def key_id(name: str, public: bytes) -> bytes:
    """Four bytes that tell keys apart: the first of SHA-256(name || 0x0A || 0x01 || public key)."""
    return hashlib.sha256(f"{name}\n".encode() + ED25519 + public).digest()[:4]


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """The public half of a key; its text, ``NAME+ID+KEY``, is what others keep to check what was
    signed.

    Args:
        name: the name of the key, without white space and plus signs.
        public: 32 bytes of Ed25519.

    Example:
        >>> Verifier.parse("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW").name
        'PeterNeumann'
    """

    name: str
    public: bytes

    @property
    def shown(self) -> str:
        """Its name and id, for messages."""
        return f"{self.name}+{key_id(self.name, self.public).hex()}"

    @property
    def text(self) -> str:
        """The key in one line."""
        return (
            f"{self.name}+{key_id(self.name, self.public).hex()}+{_encoded(ED25519 + self.public)}"
        )

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """The inverse of `text`; `InputError` if it is not such a key."""
        fix = "Give the line that `unplug ledger init` printed"
        if (parts := _parts(text.strip())) is None:
            why = "it is not NAME+ID+KEY of an Ed25519 key"
            raise InputError("the public key", why, fix)
        name, told, public = parts
        if told != key_id(name, public).hex():
            raise InputError("the public key", "its parts do not belong together", fix)
        return cls(name=name, public=public)

    def verifies(self, text: str, signature: bytes) -> bool:
        """Whether 64 bytes are this key's signature of a text."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text.encode())
        except InvalidSignature:
            return False
        return True

    def opened(self, note: bytes, where: str) -> str:
        """The text of a note that this key signed.

        Args:
            note: bytes from outside.
            where: opens the error message.

        Raises:
            InputError: it is not a note, or this key did not sign it.
            CheckFailed: the signature is not one of this text.
        """
        text, signatures = split_note(note, where)
        mine = [
            raw
            for name, raw in signatures
            if name == self.name and raw[:4] == key_id(self.name, self.public)
        ]
        if not mine:
            signers = ", ".join(name for name, _ in signatures[:3])
            raise InputError(
                where,
                f"it is signed by {signers}, not by the key {self.name}",
                "Give the signer's key",
            )
        # A note has one signature of a key; a second could be of another text.
        if len(mine) > 1 or not self.verifies(text, mine[0][4:]):
            raise CheckFailed(
                where,
                f"it is not what the key {self.name} signed",
                "It was edited; use an untouched copy",
            )
        return text


@dataclass(frozen=True, kw_only=True)
class LedgerSigner:
    """The secret half of a key.

    Args:
        name: see `Verifier`.
        seed: 32 secret bytes; never shown.
    """

    name: str
    seed: bytes = field(repr=False)

    @property
    def secret_text(self) -> str:
        """The key in one line, as its file holds it."""
        return f"{SECRET}{self.name}+{key_id(self.name, self.verifier.public).hex()}+{_encoded(ED25519 + self.seed)}"

    @property
    def verifier(self) -> Verifier:
        """The public half."""
        return Verifier(name=self.name, public=self._key().public_key().public_bytes_raw())

    @classmethod
    def parse(cls, text: str, where: str) -> LedgerSigner:
        """The inverse of `secret_text`; `InputError` if it is not such a key, whose text it does
        not repeat.
        """
        bare = text.strip()
        if not bare.startswith(SECRET):
            raise InputError(
                where,
                "it is not a secret key of a ledger",
                f"It begins with {SECRET}; restore it from a copy",
            )
        if (parts := _parts(bare.removeprefix(SECRET))) is None:
            raise InputError(where, "it is not a secret key of a ledger", "Restore it from a copy")
        name, told, seed = parts
        made = cls(name=name, seed=seed)
        if told != key_id(name, made.verifier.public).hex():
            raise InputError(where, "its parts do not belong together", "Restore it from a copy")
        return made

    def sign(self, text: str) -> bytes:
        """64 bytes: the signature of a text."""
        return self._key().sign(text.encode())

    def _key(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed)


def note_of(text: str, verifier: Verifier, signature: bytes) -> bytes:
    """A text and one signature of it as a signed note."""
    line = _encoded(key_id(verifier.name, verifier.public) + signature)
    return f"{text}\n— {verifier.name} {line}\n".encode()


def split_note(note: bytes, where: str) -> tuple[str, tuple[tuple[str, bytes], ...]]:
    """The text of a note and its signatures as (name, key id and signature), none of them checked.

    Raises:
        InputError: it is not a signed note.
    """
    try:
        whole = note.decode("utf-8")
        if len(note) > MAX_NOTE_BYTES or any(letter < " " and letter != "\n" for letter in whole):
            raise ValueError("too long, or with control characters in it")
        text, blank, lines = whole.rpartition("\n\n")
        if not blank or not lines.endswith("\n") or lines.count("\n") > MAX_SIGNATURES:
            raise ValueError("no lines of signatures under an empty one")
        signatures = tuple(_signature(line) for line in lines[:-1].split("\n"))
    except ValueError as error:
        raise InputError(where, f"it is not a signed note ({error})", AGAIN) from error
    return f"{text}\n", signatures


def _signature(line: str) -> tuple[str, bytes]:
    dash, _, rest = line.partition(" ")
    name, _, encoded = rest.partition(" ")
    raw = _decoded(encoded)
    if dash != "—" or not NAME.fullmatch(name) or raw is None or len(raw) < 5:
        raise ValueError("a signature has another form")
    return name, raw


def _parts(text: str) -> tuple[str, str, bytes] | None:
    """Name, id and 32 bytes of a key's text; None where it has not that form."""
    name, _, rest = text.partition("+")
    told, _, encoded = rest.partition("+")
    raw = _decoded(encoded)
    if raw is None or len(raw) != 33 or raw[:1] != ED25519 or not NAME.fullmatch(name):
        return None
    return name, told, raw[1:]


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _decoded(text: str) -> bytes | None:
    """Base64 in its one canonical form, or None."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return raw if _encoded(raw) == text else None
