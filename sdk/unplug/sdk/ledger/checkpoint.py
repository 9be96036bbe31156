"""Checkpoints: the size and the root of the tree at one moment, signed, to be kept where nobody can change them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from unplug.core import InputError, read_regular

from .merkle import HASH_BYTES
from .notes import AGAIN, MAX_NOTE_BYTES, Verifier

SIZE = re.compile(r"0|[1-9][0-9]{0,17}")
TIMESTAMP_HEAD = bytes.fromhex("30390201013031300d060960864801650304020105000420")
"""Of a ``TimeStampReq``: version 1, and a ``MessageImprint`` of SHA-256, whose 32 bytes follow."""
TIMESTAMP_TAIL = bytes.fromhex("0101ff")
"""``certReq`` TRUE: the answer brings the certificate of whoever stamped it."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What a checkpoint says.

    Args:
        origin: which ledger.
        size: number of entries.
        root: of the tree over them, 32 bytes.
    """

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The lines that are signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode('ascii')}\n"

    @classmethod
    def parse(cls, text: str, where: str) -> Checkpoint:
        """The inverse of `text`; lines after the third, which others may have added before they signed, are passed over.

        Raises:
            InputError: it is no checkpoint.
        """
        lines = text.split("\n")
        try:
            origin, size, root = lines[:3]
            raw = base64.b64decode(root, validate=True)
        except (ValueError, binascii.Error) as error:
            raise InputError(where, "it is no checkpoint (origin, size and root, a line each)", AGAIN) from error
        if not origin or SIZE.fullmatch(size) is None or len(raw) != HASH_BYTES:
            raise InputError(where, "it is no checkpoint (origin, size and root, a line each)", AGAIN)
        return cls(origin=origin, size=int(size), root=raw)


def open_checkpoint(note: bytes, verifier: Verifier, where: str) -> Checkpoint:
    """What a signed checkpoint says; see `Verifier.opened` for what is raised."""
    return Checkpoint.parse(verifier.opened(note, where), where)


def read_checkpoint(path: Path, verifier: Verifier) -> Checkpoint:
    """A checkpoint that was kept in a file; see `open_checkpoint`."""
    return open_checkpoint(read_regular(path, max_bytes=MAX_NOTE_BYTES), verifier, str(path))


def timestamp_query(note: bytes) -> bytes:
    """What a time-stamping authority signs: a DER ``TimeStampReq`` over the SHA-256 of the bytes of a checkpoint.

    Reference: C. Adams et al., "Internet X.509 Public Key Infrastructure Time-Stamp Protocol (TSP)", RFC 3161 (2001), 2.4.1.
    """
    return TIMESTAMP_HEAD + hashlib.sha256(note).digest() + TIMESTAMP_TAIL
