"""A certificate as in-toto statements, each in a DSSE envelope, one a line:
``certificate.intoto.jsonl``.

Four statements about one bundle: the certificate itself; a *Test Result* of its gates; a *Simple
Verification Result*, the properties that held when it was made; *SLSA provenance*, how the bundle
was made. The last three say nothing that the first does not: they are views of it, for tools that
know those predicates, and a verifier makes them again and compares.

Reference: in-toto Attestation Framework, Statement v1 and Bundle v1, predicates Test Result v0.1
    and SVR v0.1; SLSA provenance
v1; DSSE protocol 1.0.2.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from unplug.core import EARLIER, PLACE, CheckFailed, InputError, read_regular
from unplug.trust.bundle import (
    STATEMENT_TYPE,
    PublicKey,
    Signer,
    canonical,
    dsse,
    has_fields,
    pae,
    read_dsse,
    strict_json,
    validated,
)

from .certificate import Certificate

CERTIFICATE, RELEASE = "certificate/v1", "release/v1"
"""What follows `PLACE`, or an earlier one."""
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
SVR = "https://in-toto.io/attestation/svr/v0.1"
PROVENANCE = "https://slsa.dev/provenance/v1"
KINDS = (CERTIFICATE, TEST_RESULT, SVR, PROVENANCE)
MAX_BYTES = 32 * 2**20
MAX_SIGNATURES = 8
AGAIN = "Get it again from the issuer"


def payloads(certificate: Certificate, place: str = PLACE) -> tuple[bytes, ...]:
    """The four statements, in canonical JSON, in the order of `KINDS`, with
    unplug's own URIs under a place."""
    # earlier certificates have no such field, and are the same bytes again
    said = {key: value for key, value in asdict(certificate).items() if key != "absent" or value}
    predicates = {
        place + CERTIFICATE: said,
        TEST_RESULT: _test_result(certificate),
        SVR: _svr(certificate, place),
        PROVENANCE: _provenance(certificate, place),
    }
    return tuple(
        canonical(
            {
                "_type": STATEMENT_TYPE,
                "subject": _subject(certificate),
                "predicateType": kind,
                "predicate": predicate,
            }
        )
        for kind, predicate in predicates.items()
    )


def sealed(certificate: Certificate, signer: Signer) -> bytes:
    """The file: an envelope a line.

    Raises:
        InputError: what the key signed does not verify with its public half; or it is too large.
    """
    lines = []
    for payload in payloads(certificate):
        signature = signer.sign(pae(payload))
        if not signer.key.verifies(pae(payload), signature):
            why = "what it signed does not verify with its public key"
            raise InputError(
                "the signing key", why, "Give the private and the public half of one P-256 key"
            )
        lines.append(canonical(dsse(payload, signature, signer.key.hint)))
    if len(file := b"".join(line + b"\n" for line in lines)) > MAX_BYTES:
        why = "it would be larger than any that is read"
        raise InputError("the certificate", why, "Ask for fewer pictures in one request")
    return file


def open_certificate(path: Path, key: PublicKey) -> Certificate:
    """The certificate in a file that a key signed; that it is true is not for this function to say.

    Raises:
        InputError: it is too large, no lines of strict JSON, or of another form than is written
            down in docs/certificate.md.
        CheckFailed: it was not signed by that key, or its statements do not belong together.
    """
    where = str(path)
    raw = read_regular(
        path, max_bytes=MAX_BYTES, too_large="A certificate is much smaller; do not use this one"
    )
    lines = raw.split(b"\n")
    if lines[-1] or len(lines) != len(KINDS) + 1:
        raise InputError(
            where, f"it is not a certificate: not {len(KINDS)} lines, an envelope each", AGAIN
        )
    signed = [
        _opened(line, key, f"{where}, line {number}") for number, line in enumerate(lines[:-1], 1)
    ]
    certificate, place = _certificate(signed[0], where)
    for kind, payload, made in zip(KINDS, signed, payloads(certificate, place), strict=True):
        if payload != made:
            raise CheckFailed(
                where, f"its statement {kind} does not say what its certificate says", AGAIN
            )
    return certificate


def _opened(line: bytes, key: PublicKey, where: str) -> bytes:
    """The payload of an envelope, once its signature is found to be the key's."""
    try:
        payload, signatures = read_dsse(strict_json(line), MAX_SIGNATURES)
    except ValueError as error:
        raise InputError(where, f"it is not an envelope of a statement ({error})", AGAIN) from error
    mine = [signature for key_id, signature in signatures if key_id == key.hint]
    if not mine:
        signer = signatures[0][0][:16]
        fix = (
            f"Its signer names the key {signer!r}; give that key with `trust`, if you have it from "
            "them"
        )
        raise CheckFailed(where, f"the key {key.hint[:16]} did not sign it", fix)
    if not all(key.verifies(pae(payload), item) for item in mine):
        raise CheckFailed(where, "it is not what the key signed: it was edited", AGAIN)
    return payload


def _certificate(payload: bytes, where: str) -> tuple[Certificate, str]:
    """What a payload certifies, and the place of its predicate."""
    try:
        value = strict_json(payload)
    except ValueError as error:
        raise InputError(where, f"what is signed is not strict JSON ({error})", AGAIN) from error
    if (
        not has_fields(value, "_type", "subject", "predicateType", "predicate")
        or value["_type"] != STATEMENT_TYPE
    ):
        raise InputError(where, "what is signed is not an in-toto statement", AGAIN)
    kind = str(value["predicateType"])
    place = kind.removesuffix(CERTIFICATE)
    if kind == place or place not in (PLACE, *EARLIER):
        kind = kind[:80]
        raise InputError(where, f"its first statement is {kind!r}, and no certificate", AGAIN)
    try:
        return validated(Certificate, canonical(value["predicate"])), place
    except ValueError as error:
        raise InputError(where, str(error), AGAIN) from error


def _subject(certificate: Certificate) -> list[dict[str, Any]]:
    """The bundle by its manifest, and each exported file in it."""
    model = certificate.model
    files = [
        (item.name, item.sha256) for item in model.files if not item.name.startswith("reports/")
    ]
    return [
        {"name": name, "digest": {"sha256": sha256}}
        for name, sha256 in [("manifest.json", model.bundle), *files]
    ]


def _reports(certificate: Certificate) -> list[dict[str, Any]]:
    files = [item for item in certificate.model.files if item.name.startswith("reports/")]
    return [{"name": item.name, "digest": {"sha256": item.sha256}} for item in files]


def _test_result(certificate: Certificate) -> dict[str, Any]:
    overridden = {item.gate for item in certificate.evidence.overrides}
    gates = certificate.evidence.gates
    failed = [gate.name for gate in gates if not gate.passed and gate.name not in overridden]
    return {
        "result": "FAILED" if failed else "WARNED" if overridden else "PASSED",
        "configuration": _reports(certificate),
        "passedTests": [gate.name for gate in gates if gate.passed and gate.name not in overridden],
        "warnedTests": [gate.name for gate in gates if gate.name in overridden],
        "failedTests": failed,
    }


def _svr(certificate: Certificate, place: str) -> dict[str, Any]:
    request, evidence = certificate.request, certificate.evidence
    held = {
        "UNPLUG_BUNDLE_VERIFIED": True,
        "UNPLUG_REQUEST_AND_RELEASE_IN_LEDGER": True,
        "UNPLUG_ALL_GATES_HELD": not evidence.overrides
        and all(gate.passed for gate in evidence.gates),
        "UNPLUG_EQUAL_TO_REFIT": evidence.shown_by == "equality",
        "UNPLUG_METHOD_CERTIFIED": evidence.shown_by == "certification",
        "UNPLUG_ANSWERED_IN_TIME": request.in_time is True,
        "UNPLUG_ALL_PLACES_KNOWN": all(line.outcome != "unknown" for line in certificate.places),
    }
    return {
        "verifier": {"id": place + CERTIFICATE},
        "timeCreated": certificate.issued,
        "properties": [name for name, holds in held.items() if holds],
    }


def _provenance(certificate: Certificate, place: str) -> dict[str, Any]:
    model = certificate.model
    sources = (("original weights", model.original_sha256), ("training data", model.data_digest))
    return {
        "buildDefinition": {
            "buildType": place + RELEASE,
            "externalParameters": {"method": model.method, "forgetSamples": model.forget_samples},
            "internalParameters": {"versions": model.versions},
            "resolvedDependencies": [
                {"name": name, "digest": {"sha256": sha256}} for name, sha256 in sources
            ],
        },
        "runDetails": {
            "builder": {
                "id": place + RELEASE,
                "version": {"unplug": model.versions.get("unplug") or "unknown"},
            },
            "metadata": {"finishedOn": certificate.request.released},
            "byproducts": [
                {"name": "unlearned weights", "digest": {"sha256": model.checkpoint_sha256}},
                *_reports(certificate),
            ],
        },
    }
