"""Rows: an entry, the edge of the tree after it, and the signature of the checkpoint of that size.

A checkpoint, the size and the root of the tree at one moment, is also kept by itself, where nobody
can change it.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path

from unplug.core import InputError, read_regular

from .entries import LedgerEntry
from .merkle import HASH_BYTES, Edge, edge_root, leaf_hash, push
from .notes import AGAIN, MAX_NOTE_BYTES, LedgerSigner, Verifier, note_of

SIZE = re.compile(r"0|[1-9][0-9]{0,17}")


@dataclass(frozen=True, kw_only=True)
class LedgerCheckpoint:
    """What a checkpoint says.

    Args:
        origin: the name of the ledger.
        size: number of entries.
        root: the root of the tree over them, 32 bytes.
    """

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The lines that are signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode('ascii')}\n"

    @classmethod
    def parse(cls, text: str, where: str) -> LedgerCheckpoint:
        """The inverse of `text`; lines after the third, which others may have added before they
        signed, are passed over.

        Raises:
            InputError: it is not a checkpoint.
        """
        try:
            origin, size, root = text.split("\n")[:3]
            raw = base64.b64decode(root, validate=True)
            if not origin or SIZE.fullmatch(size) is None or len(raw) != HASH_BYTES:
                raise ValueError("a line of another form")
        except ValueError as error:
            why = "it is not a checkpoint (origin, size and root, a line each)"
            raise InputError(where, why, AGAIN) from error
        return cls(origin=origin, size=int(size), root=raw)


def open_checkpoint(note: bytes, verifier: Verifier, where: str) -> LedgerCheckpoint:
    """What a signed checkpoint says; see `Verifier.opened` for what is raised."""
    return LedgerCheckpoint.parse(verifier.opened(note, where), where)


def read_checkpoint(path: Path, verifier: Verifier) -> LedgerCheckpoint:
    """A checkpoint that was kept in a file; see `open_checkpoint`."""
    return open_checkpoint(read_regular(path, max_bytes=MAX_NOTE_BYTES), verifier, str(path))


@dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """A row of the table of entries, as it lies there; nothing of it is checked.

    Args:
        sequence: its number.
        body: the bytes that are hashed, as text.
        edge: the edge of the tree after it, one hash after the other.
        signature: the signature of the checkpoint of this size, 64 bytes.
    """

    sequence: int
    body: str
    edge: bytes
    signature: bytes

    @property
    def leaf(self) -> bytes:
        """The hash of its leaf."""
        return leaf_hash(self.body.encode())

    @property
    def hashes(self) -> Edge:
        """Its edge, cut into hashes."""
        return tuple(
            self.edge[start : start + HASH_BYTES] for start in range(0, len(self.edge), HASH_BYTES)
        )

    def checkpoint(self, origin: str) -> LedgerCheckpoint:
        """What it says of the tree up to it."""
        return LedgerCheckpoint(origin=origin, size=self.sequence + 1, root=edge_root(self.hashes))

    def note(self, origin: str, verifier: Verifier) -> bytes:
        """The same as a signed note, which may be kept elsewhere."""
        return note_of(self.checkpoint(origin).text, verifier, self.signature)


def signed_row(entry: LedgerEntry, before: Edge, signer: LedgerSigner, origin: str) -> LedgerRow:
    """The row of a new entry.

    Args:
        entry: the entry with its number.
        before: the edge of the tree so far.
        signer: the key of the ledger.
        origin: the name of the ledger.
    """
    edge = push(before, entry.sequence, leaf_hash(entry.body.encode()))
    text = LedgerCheckpoint(origin=origin, size=entry.sequence + 1, root=edge_root(edge)).text
    return LedgerRow(
        sequence=entry.sequence, body=entry.body, edge=b"".join(edge), signature=signer.sign(text)
    )


def identity_of(first: LedgerEntry, where: str) -> tuple[str, Verifier]:
    """Which ledger this is and which key it says that it is signed with, from its first entry;
    nobody vouches for either.

    Raises:
        InputError: the entry does not say.
    """
    if first.kind != "opened" or not {"origin", "vkey"} <= first.facts.keys():
        raise InputError(
            where,
            "its first entry does not say which ledger it is",
            "Restore it from a copy and verify that",
        )
    return first.facts["origin"], Verifier.parse(first.facts["vkey"])
