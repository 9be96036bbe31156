"""The request in the ledger: entries that can be proved, and what they come to. The same words to
issue and to verify.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from unplug.core import CheckFailed, InputError
from unplug.trust.ledger import (
    IN_PART,
    RELEASE,
    STAGE,
    InclusionProof,
    Ledger,
    LedgerEntry,
    Request,
    Verifier,
    check_proof,
    prove_inclusion,
)

from .certificate import EntryLine, LedgerLine, RequestLine

DATED = ("request", "extended", "corrected")
"""Kinds of entries that say when a request came and is due; the last one counts."""
SAID = (*DATED, "identity", "release", "informed", "answered", "refused", "withdrawn")
"""Kinds of entries that a certificate carries, besides the searches."""
MAX_ENTRIES = 1000


def ledger_line(ledger: Ledger, request: Request, searches: Sequence[int]) -> LedgerLine:
    """The entries about a request, each with its path to the newest checkpoint.

    Args:
        ledger: checked before.
        request: the request of the entries.
        searches: numbers of the entries of its searches.
    """
    note = ledger.checkpoint()
    rows = ledger.rows()[: int(note.split(b"\n")[1])]  # others may have added since
    wanted = [
        entry.sequence
        for entry in request.history
        if entry.kind in SAID or _released(entry) or entry.sequence in searches
    ]
    proofs = [prove_inclusion(rows, note, index) for index in wanted]
    return LedgerLine(
        vkey=ledger.identity(rows)[1].text,
        checkpoint=note.decode(),
        entries=tuple(
            EntryLine(index=proof.index, entry=proof.entry, path=proof.path) for proof in proofs
        ),
    )


def proven_entries(line: LedgerLine, verifier: Verifier, where: str) -> tuple[LedgerEntry, ...]:
    """The entries that a certificate carries, in their order, each shown to be in the ledger of its
    signed checkpoint.

    Raises:
        InputError: another key signed the checkpoint, or something has not the right form.
        CheckFailed: an entry is not in that ledger.
    """
    if len(line.entries) > MAX_ENTRIES:
        raise InputError(
            where,
            f"it carries more than {MAX_ENTRIES} entries of a ledger",
            "Get it again from the issuer",
        )
    entries = []
    for entry in line.entries:
        proof = InclusionProof(
            checkpoint=line.checkpoint, entry=entry.entry, index=entry.index, path=entry.path
        )
        entries.append(check_proof(proof, verifier, f"{where}, entry {entry.index}").entry)
    return tuple(sorted(entries, key=lambda entry: entry.sequence))


def request_line(id: str, bundle: str, entries: Sequence[LedgerEntry], where: str) -> RequestLine:
    """What the entries say of a request and of the bundle that answers it.

    Args:
        id: the id of the request.
        bundle: SHA-256 of the bundle's manifest.
        entries: entries in the order of their numbers; those about others are passed over.
        where: opens the error messages.

    Raises:
        CheckFailed: no entry holds the request, it was refused or withdrawn, or none says that this
            bundle was released for it.
        InputError: an entry lacks a date that it needs.
    """
    mine = [entry for entry in entries if id in entry.requests]
    opened = next((entry for entry in mine if entry.kind == "request"), None)
    if opened is None:
        raise CheckFailed(
            where,
            f"no entry of the ledger in it holds the request {id}",
            "It is about another request",
        )
    if (over := _over(opened, mine)) is not None:
        why = f"the request {id} is {over.kind} (entry {over.sequence})"
        raise CheckFailed(where, why, "There is nothing to certify")
    released = _released_last(id, bundle, mine, where)
    days = [entry for entry in mine if entry.kind in DATED][-1]
    answered = next((entry for entry in mine if entry.kind == "answered"), None)
    return RequestLine(
        id=id,
        received=_day(days.received, where),
        due=_day(days.due, where),
        extended=any(entry.kind == "extended" for entry in mine),
        identity_checked=bool(opened.note) or any(entry.kind == "identity" for entry in mine),
        released=released.at,
        answered=None if answered is None else answered.at,
        informed=sum(entry.kind == "informed" for entry in mine),
        answered_on=None if answered is None else answered.day,
    )


def _released_last(id: str, bundle: str, entries: Sequence[LedgerEntry], where: str) -> LedgerEntry:
    """The last entry by which a bundle was released for a request."""
    released = [entry for entry in entries if _released(entry) and bundle in entry.facts.values()]
    if not released:
        why = f"the ledger records no release of the bundle {bundle[:16]} for the request {id}"
        fix = f"After the release: unplug ledger record release {id} --file BUNDLE/manifest.json"
        if only_held_out(entries):
            fix = (
                "No model was trained on whom it names: draft the answer by `unplug certificate "
                f"templates {id}`"
            )
        raise CheckFailed(where, why, fix)
    if not any(entry.kind == RELEASE for entry in entries):
        why = f"other models hold samples of the request {id}"
        raise CheckFailed(where, why, "Certify when those are released as well")
    return released[-1]


def _released(entry: LedgerEntry) -> bool:
    """Whether an entry ends a release, be it that others of its request's models wait."""
    return entry.kind == RELEASE or entry.facts.get(STAGE) == IN_PART


def _over(opened: LedgerEntry, entries: Sequence[LedgerEntry]) -> LedgerEntry | None:
    """The entry by which a request was refused, or lost its last name; None where somebody is still
    asked for.
    """
    left = set(opened.subjects)
    for entry in entries:
        if entry.kind == "withdrawn":
            left = left - set(entry.subjects) if entry.subjects else set()
        if entry.kind == "refused" or (entry.kind == "withdrawn" and not left):
            return entry
    return None


def only_held_out(entries: Sequence[LedgerEntry]) -> bool:
    """Whether models were looked at for a request, and each has no sample of it, but for what only
    judged or chose it.

    Args:
        entries: the entries about the request; of several entries on one model the last counts.
    """
    models = {
        entry.facts.get("model_sha256"): entry.facts for entry in entries if entry.kind == "touched"
    }
    held_out = any(facts.get("held_out", "0") != "0" for facts in models.values())
    return held_out and all(facts.get("samples") == "0" for facts in models.values())


def _day(text: str | None, where: str) -> str:
    try:
        return date.fromisoformat(text or "").isoformat()
    except ValueError as error:
        raise InputError(
            where, "an entry lacks a date that it needs", "Verify the ledger"
        ) from error
