"""Proofs for people outside, checked without the ledger: that one entry is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, CheckFailed, InputError, read_dataclass, read_json

from .entries import LedgerEntry, read_entry
from .merkle import includes, inclusion_path, leaf_hash
from .notes import Verifier
from .rows import LedgerCheckpoint, LedgerRow, open_checkpoint
from .subjects import opens

MAX_PROOF_BYTES = 2**23
EDITED = "Ask for it again; do not trust this one"


@dataclass(frozen=True, kw_only=True)
class InclusionProof:
    """Shows that an entry is in the ledger, and says nothing of the others.

    Args:
        schema: the schema of this form.
        checkpoint: the signed note.
        entry: its bytes.
        index: its number.
        path: hashes from the leaf up, in hexadecimal digits.
        opening: the opening of one name in the entry, for that person alone; see `subjects`.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    checkpoint: str
    entry: str
    index: int
    path: tuple[str, ...]
    opening: str | None = None
    schema: Literal["unplug-ledger-inclusion/1"] = "unplug-ledger-inclusion/1"


@dataclass(frozen=True, kw_only=True)
class Proven:
    """What a proof showed.

    Args:
        checkpoint: the ledger's checkpoint.
        entry: the entry that is in it.
    """

    checkpoint: LedgerCheckpoint
    entry: LedgerEntry


def prove_inclusion(
    rows: Sequence[LedgerRow], note: bytes, index: int, opening: str | None = None
) -> InclusionProof:
    """The proof that entry `index` is in the ledger of a checkpoint over all `rows`."""
    path = inclusion_path([row.leaf for row in rows], index)
    return InclusionProof(
        checkpoint=note.decode(),
        entry=rows[index].body,
        index=index,
        path=tuple(map(bytes.hex, path)),
        opening=opening,
    )


def read_proof(path: Path) -> InclusionProof:
    """Reads a proof; raises `InputError` if the file is not one, or has another form."""
    raw = read_json(path, max_bytes=MAX_PROOF_BYTES)
    form = raw.get("schema") if isinstance(raw, dict) else None
    if form != InclusionProof.schema:
        told = (
            f" of the form {InclusionProof.schema}, but {form[:60]}"
            if isinstance(form, str)
            else ""
        )
        why = f"it is not a proof of a ledger{told}"
        raise InputError(str(path), why, "Give a file that `unplug ledger prove` wrote")
    return read_dataclass(InclusionProof, path, InputError, max_bytes=MAX_PROOF_BYTES)


def check_proof(
    proof: InclusionProof, verifier: Verifier, where: str, name: str | None = None
) -> Proven:
    """Checks a proof with nothing but a public key.

    Args:
        proof: a proof from outside.
        verifier: the ledger's public key, which did not come with the proof.
        where: opens the error messages.
        name: the person whom the entry must name; None does not look.

    Raises:
        CheckFailed: it proves nothing, or it is about somebody else.
        InputError: another key signed it, or something in it has not the right form.
    """
    path = _hashes(proof.path, where)
    checkpoint, entry = (
        open_checkpoint(proof.checkpoint.encode(), verifier, where),
        read_entry(proof.entry, where),
    )
    leaf = leaf_hash(proof.entry.encode())
    if entry.sequence != proof.index or not includes(
        path, leaf=leaf, index=proof.index, size=checkpoint.size, root=checkpoint.root
    ):
        raise CheckFailed(where, "this entry is not in the ledger of this checkpoint", EDITED)
    if name is not None:
        _check_name(proof.opening, name, entry, where)
    return Proven(checkpoint=checkpoint, entry=entry)


def _check_name(opening: str | None, name: str, entry: LedgerEntry, where: str) -> None:
    if opening is None:
        raise InputError(
            where,
            "it does not say whom the entry names",
            "Ask for one that `unplug ledger prove --person` wrote",
        )
    _hashes([opening], where)
    if not opens(opening, name, entry.subjects):
        raise CheckFailed(
            where, "the entry does not name that person", "Write the name as the request did"
        )


def _hashes(path: Sequence[str], where: str) -> tuple[bytes, ...]:
    try:
        hashes = tuple(map(bytes.fromhex, path))
        if len(hashes) > 64 or any(len(one) != 32 for one in hashes):
            raise ValueError("of another length")
    except ValueError as error:
        raise InputError(where, "a hash in it is not a hash", EDITED) from error
    return hashes
