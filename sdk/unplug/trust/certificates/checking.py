"""Is a certificate true? Checked with a public key, the bundle and a policy, and no network.

A certificate is held to what can be seen without its issuer: the ledger's entries under its signed
checkpoint, the bundle's own files and reports. Every date, number and hash in it is computed again
from those; then the policy is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from unplug.core import CheckFailed
from unplug.trust.bundle import PublicKey, Trust, bundle_id, public_key, time_of, together
from unplug.trust.ledger import LedgerEntry, Verifier

from .absent import unproved
from .certificate import NOT_CLAIMED, Certificate
from .described import Described, described
from .evidence import unanswered
from .history import proven_entries, request_line
from .places import PLACES, unlike_places
from .policy import CertificatePolicy, utc_now
from .statements import open_certificate


@dataclass(frozen=True, kw_only=True)
class CheckedCertificate:
    """A certificate that is what its issuer signed.

    Args:
        certificate: the certificate.
        problems: the faults, one line each; empty for a good certificate.
        ledger_key: the source of the ledger's public key.
    """

    certificate: Certificate
    problems: tuple[str, ...]
    ledger_key: str


def check_certificate(
    file: Path,
    key: PublicKey,
    bundle: Path,
    policy: CertificatePolicy | None = None,
    *,
    request: str | None = None,
    superseded: Path | None = None,
    trust: Trust | None = None,
    now: datetime | None = None,
) -> CheckedCertificate:
    """Checks a certificate.

    Args:
        file: ``certificate.intoto.jsonl``.
        key: the issuer's key, had from them by another way.
        bundle: the bundle that it must be about, a folder or a zip file.
        policy: the rules that must hold; None takes the default.
        request: the request that it must be about; None takes any.
        superseded: the earlier bundle, which had the packs, if the bundle is of a base that packs
            left.
        trust: the keys that may have signed the bundle besides `key` and the policy's keys: other
            keys, or roots of certificates.
        now: the time, UTC; None takes the clock's.

    Raises:
        InputError, ReportError: a file has not the right form.
        CheckFailed: it is not what the key signed, or an entry in it is not in its ledger.
        Refused, BundleCheckFailed: the bundle is not one that may be used.
    """
    policy, where = policy or CertificatePolicy(), str(file)
    certificate = open_certificate(file, key)
    vkey = policy.ledger_key or certificate.ledger.vkey
    entries = proven_entries(certificate.ledger, Verifier.parse(vkey), where)
    problems = _about_request(certificate, entries, request, where)
    if certificate.model.bundle != (id_ := bundle_id(bundle)):
        problems.append(
            f"it is about the bundle {certificate.model.bundle[:16]}, and this is {id_[:16]}"
        )
    else:
        # It is judged at the time of the certificate: whether it may be used today is
        # `unplug bundle verify`'s question.
        issued, known = time_of(certificate.issued), _trust(key, policy, trust)
        problems += _about_bundle(certificate, described(bundle, superseded, known, issued))
    problems += policy.problems(certificate, now or utc_now())
    source = "the policy" if policy.ledger_key else "the certificate itself"
    return CheckedCertificate(certificate=certificate, problems=tuple(problems), ledger_key=source)


def _trust(key: PublicKey, policy: CertificatePolicy, trust: Trust | None) -> Trust:
    """The keys that count on a bundle."""
    keys = (key, *(public_key(text, "the policy's bundle_keys") for text in policy.bundle_keys))
    return together([Trust(keys=keys), *filter(None, [trust])])


def _about_request(
    certificate: Certificate, entries: tuple[LedgerEntry, ...], wanted: str | None, where: str
) -> list[str]:
    """Whether it is about the request that is asked for, and says of it what the ledger does."""
    request = certificate.request
    other = f"it is about the request {request.id}, and not {wanted}"
    problems = [] if wanted in (None, request.id) else [other]
    try:
        known = request_line(request.id, certificate.model.bundle, entries, where)
    except CheckFailed as error:
        return [*problems, error.why]
    problems += [
        f"it says {getattr(request, name)!r} as {name!r} of the request, and the ledger "
        f"{getattr(known, name)!r}"
        for name in _other(request, known)
    ]
    problems += _about_places(certificate, entries)
    newest = entries[-1]
    if certificate.issued < newest.at:
        problems.append(
            f"it says that it was issued before {newest.at}, the time of entry {newest.sequence} "
            "in it"
        )
    if certificate.not_claimed != NOT_CLAIMED:
        problems.append("what it does not claim is not what every certificate says of that")
    return problems


def _about_places(certificate: Certificate, entries: tuple[LedgerEntry, ...]) -> list[str]:
    """Whether its searches stand in the ledger, and its places are what those can have told."""
    searches = {
        (entry.sequence, entry.at, entry.facts.get("trace_sha256"))
        for entry in entries
        if certificate.request.id in entry.requests
    }
    problems = [
        f"the ledger in it records no such search as that of {line.system[:60]!r}"
        for line in certificate.searches
        if (line.entry, line.at, line.trace_sha256) not in searches
    ]
    if tuple(line.place for line in certificate.places) != PLACES:
        problems.append("it does not say something of every kind of place")
    made = {line.entry for line in certificate.searches}
    facts = [entry.facts for entry in entries if entry.sequence in made]
    return problems + unlike_places(certificate.places, certificate.searches, facts)


def _about_bundle(certificate: Certificate, bundle: Described) -> list[str]:
    """Whether its hashes and numbers are those of the bundle."""
    other = [
        *_other(certificate.model, bundle.model),
        *_other(certificate.evidence, bundle.evidence),
    ]
    problems = [f"what it says as {name!r} is not what the bundle says" for name in other]
    problems += unproved(certificate.absent, bundle.listed)
    if why := unanswered(bundle.manifest, certificate.request.id):
        problems.append(why)
    return problems


def _other(said: Any, known: Any) -> list[str]:
    """Names of the fields in which two of the same dataclass differ."""
    return [
        item.name for item in fields(known) if getattr(said, item.name) != getattr(known, item.name)
    ]
