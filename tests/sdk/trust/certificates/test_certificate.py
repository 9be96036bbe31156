"""A certificate holds on another machine with a public key alone; whatever is not so in it is told
in one line.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from unplug.core import CheckFailed, InputError, OutputError, ReportError, write_json
from unplug.trust.bundle import (
    Publication,
    Signing,
    bundle_id,
    canonical,
    load_signer,
    make_key,
    read_trust,
    sign_bundle,
)
from unplug.trust.certificates import Certificate, CertificatePolicy, check_certificate, read_policy
from unplug.trust.certificates.certificate import Evidence, OverrideLine
from unplug.trust.certificates.history import request_line
from unplug.trust.certificates.statements import open_certificate, payloads, sealed
from unplug.trust.ledger import Ledger

from ....blocked import BASE, python, with_only
from ..bundle.test_chain import DAY, Holder, pem
from ..commands import called, refused, shown
from .conftest import (
    LATER,
    PERSON,
    REQUEST,
    WORDS,
    Case,
    a_ledger,
    a_trace,
    digest,
    record_release,
    refile,
)

NOW = LATER + timedelta(hours=1)
NAMES = (
    "urn:unplug-sdk:certificate/v1",
    "https://in-toto.io/attestation/test-result/v0.1",
    "https://in-toto.io/attestation/svr/v0.1",
    "https://slsa.dev/provenance/v1",
)
EARLIER = Path(__file__).with_name("earlier.intoto.jsonl")
"""Signed on 28 November 2026, when unplug's own URIs lay under ``https://unplug-sdk/``."""
Change = Callable[[Certificate], Certificate]


def problems(case: Case, certificate: Certificate | None = None, **more: Any) -> tuple[str, ...]:
    """What is wrong with the case's own certificate, or with another one that its key signed."""
    if certificate is not None:
        case.issued.file.write_bytes(sealed(certificate, case.signer))
    key = read_trust(case.public).keys[0]
    return check_certificate(case.issued.file, key, case.bundle, now=NOW, **more).problems


def statements(file: Path) -> list[bytes]:
    lines = file.read_bytes().splitlines()
    return [base64.b64decode(json.loads(line)["payload"]) for line in lines]


def test_it_verifies_elsewhere_with_the_public_key_alone_and_names_nobody(case: Case) -> None:
    away = case.folder / "another-machine"
    shutil.copytree(case.bundle, away / "bundle")
    for file in (case.issued.file, case.public):
        shutil.copy(file, away)
    policy = {
        "schema": "unplug-certificate-policy/1",
        "ledger_key": case.ledger.identity()[1].text,
        "answered": True,
        "must_be_known": ["raw data", "backups"],
        "shown_by": ["attacks"],
        "in_time": True,
    }
    write_json(away / "policy.json", policy)
    checked = check_certificate(
        away / case.issued.file.name,
        read_trust(away / case.public.name).keys[0],
        away / "bundle",
        read_policy(away / "policy.json"),
        request=REQUEST,
        now=NOW,
    )
    assert checked.problems == () and checked.ledger_key == "the policy"
    request, attacks = checked.certificate.request, checked.certificate.evidence.attacks
    assert request.answered is not None and request.informed == 1 and request.identity_checked
    assert {line.attack for line in attacks} == {"loss", "gain"}
    assert all(line.gap is not None and line.gap.low is not None for line in attacks)
    for raw in (*statements(case.issued.file), case.issued.page.read_bytes()):
        assert b"lovelace" not in raw and b"/srv" not in raw


def test_the_views_of_it_are_the_predicates_that_other_tools_know(case: Case) -> None:
    views = [json.loads(raw) for raw in statements(case.issued.file)]
    assert [view["predicateType"] for view in views] == list(NAMES)
    subject = {"name": "manifest.json", "digest": {"sha256": bundle_id(case.bundle)}}
    for view in views:
        assert view["_type"] == "https://in-toto.io/Statement/v1" and view["subject"][0] == subject
    _, tests, verified, made = (view["predicate"] for view in views)
    assert tests["result"] == "PASSED" and "utility" in tests["passedTests"]
    assert {"UNPLUG_ALL_GATES_HELD", "UNPLUG_ANSWERED_IN_TIME"} <= {*verified["properties"]}
    assert "UNPLUG_ALL_PLACES_KNOWN" not in verified["properties"]
    original = made["buildDefinition"]["resolvedDependencies"][0]
    assert original["digest"] == {"sha256": "2" * 64}


def test_a_certificate_of_the_earlier_place_still_opens(tmp_path: Path) -> None:
    first, _, verified, made = (json.loads(raw) for raw in statements(EARLIER))
    assert first["predicateType"] == "https://unplug-sdk/certificate/v1"
    assert verified["predicate"]["verifier"]["id"] == first["predicateType"]
    assert made["predicate"]["runDetails"]["builder"]["id"] == "https://unplug-sdk/release/v1"
    key = read_trust(EARLIER.with_name("earlier.pub")).keys[0]
    assert open_certificate(EARLIER, key).request.id == REQUEST


def test_the_same_certificate_is_the_same_bytes(case: Case) -> None:
    again = case.issue(traces={"server": case.trace}, **WORDS)
    assert digest(again.file) == digest(case.issued.file)
    assert digest(again.page) == digest(case.issued.page)


def edit(part: str = "", **changed: Any) -> Change:
    """Other fields of the certificate, or of a part of it."""

    def change(whole: Certificate) -> Certificate:
        fields = {part: replace(getattr(whole, part), **changed)} if part else changed
        return replace(whole, **fields)

    return change


def number(whole: Certificate) -> Certificate:
    first, *rest = whole.evidence.attacks
    assert first.gap is not None
    better = replace(first, gap=replace(first.gap, value=0.0, low=-0.001, high=0.001))
    return edit("evidence", attacks=(better, *rest))(whole)


def without(kind: str) -> Change:
    """Without the entries of one kind."""

    def change(whole: Certificate) -> Certificate:
        left = tuple(e for e in whole.ledger.entries if f'"kind":"{kind}"' not in e.entry)
        return edit("ledger", entries=left)(whole)

    return change


def places(who: str, **changed: Any) -> Change:
    """Other words on the places that somebody spoke of."""

    def change(whole: Certificate) -> Certificate:
        lines = (replace(line, **changed) if line.by == who else line for line in whole.places)
        return replace(whole, places=tuple(lines))

    return change


def search(**changed: Any) -> Change:
    return lambda whole: replace(whole, searches=(replace(whole.searches[0], **changed),))


FORGED: dict[str, tuple[Change, str]] = {
    "another request": (
        edit("request", id="TICKET-99"),
        "no entry of the ledger in it holds the request TICKET-99",
    ),
    "no release": (without("release"), "records no release of the bundle"),
    "no answer": (without("answered"), "as 'answered' of the request, and the ledger None"),
    "a later due day": (edit("request", due="2099-01-01"), "as 'due' of the request"),
    "edited numbers": (number, "what it says as 'attacks' is not what the bundle says"),
    "no attacks": (edit("evidence", attacks=()), "'attacks' is not what the bundle says"),
    "a cheaper method": (edit("model", compute=0.0), "'compute' is not what the bundle says"),
    "another bundle": (edit("model", bundle="9" * 64), "it is about the bundle 9999999999999999"),
    "a search that was not": (search(trace_sha256="0" * 64), "records no such search"),
    "a search of no folder": (search(folders=0), "by a search, and there was none"),
    "a search that nobody made": (
        edit(searches=()),
        "none found by a search, and there was none",
    ),
    "a place left out": (
        lambda whole: replace(whole, places=whole.places[1:]),
        "every kind of place",
    ),
    "backups were searched": (
        places("nobody", by="search", outcome="none found", why="", count=0),
        "and there was none",
    ),
    "nobody says none": (
        places("nobody", outcome="none found", why=""),
        "copies and phones: nobody said 'none found'",
    ),
    "harmless leftovers": (
        places("search", outcome="kept", why="harmless"),
        "'harmless' is not what a search says of it",
    ),
    "another sentence": (places("nobody", why="nothing there"), "nobody said 'unknown' of it"),
    "claims more": (edit(not_claimed=("All is gone.",)), "what it does not claim is not"),
    "claims all": (
        lambda whole: replace(whole, not_claimed=whole.not_claimed[1:]),
        "what it does not claim is not",
    ),
    "issued before its entries": (
        edit(issued="2020-01-01T00:00:00Z"),
        "it says that it was issued before",
    ),
    "issued tomorrow": (edit(issued="2099-01-01T00:00:00Z"), "not a time before now"),
    "issued never": (edit(issued="soon"), "not a time before now"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_an_issuer_says_beyond_ledger_and_bundle_is_told(case: Case, name: str) -> None:
    change, line = FORGED[name]
    told = problems(case, change(case.issued.certificate))
    assert any(line in text for text in told), told


def test_another_bundle_and_another_request_are_told(case: Case) -> None:
    (case.bundle / "README.md").write_text("another")
    refile(case.bundle, "README.md")
    request, bundle = problems(case, request="TICKET-16")
    assert request.startswith("it is about the request TICKET-17") and "TICKET-16" in request
    assert bundle.startswith("it is about the bundle")


def test_a_bundle_that_was_changed_or_has_no_audit_is_refused(case: Case) -> None:
    artifact = case.bundle / "artifacts" / "age.fp32.tflite"
    raw = artifact.read_bytes()
    artifact.write_bytes(b"other")
    with pytest.raises(CheckFailed, match="was changed"):
        problems(case)
    artifact.write_bytes(raw)
    (case.bundle / "reports" / "audit.json").unlink()
    with pytest.raises(CheckFailed, match="is missing"):
        problems(case)
    manifest = json.loads((case.bundle / "manifest.json").read_text())
    del manifest["files"]["reports/audit.json"]
    (case.bundle / "manifest.json").write_bytes(canonical(manifest))
    with pytest.raises(CheckFailed, match="its reports cannot be read"):
        problems(case, edit("model", bundle=bundle_id(case.bundle))(case.issued.certificate))


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        (lambda report: report["models"].pop(), "no model that never saw them"),
        (lambda report: report["models"][2]["utility"].clear(), "on people whom none saw"),
        (
            lambda report: report["models"][2]["attacks"].pop("loss"),
            "was not made on what never saw them",
        ),
        (lambda report: report.pop("settings"), "does not follow its schema"),
    ],
)
def test_an_audit_that_shows_too_little_is_no_evidence(
    case: Case, harm: Callable[[dict[str, Any]], object], line: str
) -> None:
    path = case.bundle / "reports" / "audit.json"
    report = json.loads(path.read_text())
    harm(report)
    path.write_text(json.dumps(report))
    refile(case.bundle, "reports/audit.json")
    with pytest.raises(ReportError, match=line):
        problems(case, edit("model", bundle=bundle_id(case.bundle))(case.issued.certificate))


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("payload", "edited"),
        ("signature", "edited"),
        ("view", "does not say what its certificate says"),
        ("key", "did not sign it"),
    ],
)
def test_a_file_that_was_edited_is_not_what_the_key_signed(case: Case, harm: str, why: str) -> None:
    lines = [json.loads(line) for line in case.issued.file.read_bytes().splitlines()]
    if harm == "payload":
        raw = base64.b64decode(lines[0]["payload"]).replace(b"TICKET-17", b"TICKET-18")
        lines[0]["payload"] = base64.b64encode(raw).decode()
    elif harm == "signature":
        lines[0]["signatures"][0]["sig"] = lines[1]["signatures"][0]["sig"]
    elif harm == "view":  # which its issuer signed, of another certificate
        other = replace(case.issued.certificate, issued="2020-01-01T00:00:00Z")
        lines[2] = json.loads(sealed(other, case.signer).splitlines()[2])
    else:
        make_key(case.folder / "other.key")
        sealing = sealed(case.issued.certificate, load_signer(str(case.folder / "other.key")))
        lines = [json.loads(line) for line in sealing.splitlines()]
    case.issued.file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(CheckFailed, match=why):
        problems(case)


def test_an_entry_that_is_in_no_ledger_is_refused(case: Case) -> None:
    first, *rest = case.issued.certificate.ledger.entries
    other = replace(first, entry=first.entry.replace("2026", "2025").replace("2027", "2026"))
    with pytest.raises(CheckFailed, match="not in the ledger"):
        problems(case, edit("ledger", entries=(other, *rest))(case.issued.certificate))


def test_limits_come_from_the_policy_and_from_nowhere_else(case: Case) -> None:
    gaps = [line.gap for line in case.issued.certificate.evidence.attacks]
    high = max(gap.high for gap in gaps if gap is not None and gap.high is not None)
    told = problems(case, policy=CertificatePolicy(max_auc_above=high - 0.01))
    assert len(told) == 2 and all("AUC from what never saw the person" in line for line in told)
    asked = CertificatePolicy(
        must_be_gone=("raw data", "backups", "caches"),
        must_be_known=("copies and phones",),
        shown_by=("equality",),
        signed_bundle=True,
        max_age_days=0,
        max_error_above=0.01,
    )
    told = problems(case, policy=asked)
    words = (
        "raw data: kept",
        "backups: kept",
        "copies and phones: nobody",
        "only equality",
        "not signed",
        "years above",
    )
    assert all(any(word in line for line in told) for word in words) and len(told) == len(words)
    key = case.ledger.identity()[1].text.replace("tests.example", "other.example")
    with pytest.raises(InputError):
        problems(case, policy=CertificatePolicy(ledger_key=key))


def test_failed_gates_and_too_few_people_need_the_policys_word(case: Case) -> None:
    def asked(policy: CertificatePolicy, **evidence: Any) -> list[str]:
        whole = edit("evidence", **evidence)(case.issued.certificate)
        return list(policy.problems(whole, NOW))

    evidence, default = case.issued.certificate.evidence, CertificatePolicy()
    failed = tuple(
        replace(gate, passed=False, value=9.0) if gate.name == "budget" else gate
        for gate in evidence.gates
    )
    (line,) = asked(default, gates=failed)
    assert "'budget' did not hold" in line
    overridden = (OverrideLine(gate="budget", reason="the board said so"),)
    (line,) = asked(default, gates=failed, overrides=overridden)
    assert "overridden (the board said so)" in line
    allowed = replace(default, overrides=("budget",))
    assert asked(allowed, gates=failed, overrides=overridden) == []
    assert "no interval counts" in asked(default, too_few="one person")[0]
    bare = tuple(replace(line, gap=None) for line in evidence.attacks)
    assert ["has no interval" in line for line in asked(default, attacks=bare)] == [True, True]


def signed_by(case: Case, key: Path, **changed: Any) -> Ledger:
    """Signs the case's bundle; a ledger of its own that holds the request and this release."""
    publication = Publication(name="face-age", release=7, requests=(REQUEST,))
    signing = Signing(signer=load_signer(str(key), **changed), publication=publication)
    sign_bundle(case.bundle, signing, case.bundle)
    ledger = a_ledger(case.folder)
    ledger.add([PERSON], id=REQUEST)
    record_release(ledger, case.bundle, REQUEST)
    return ledger


def test_an_override_in_the_manifest_needs_the_policys_word(case: Case) -> None:
    manifest = json.loads((case.bundle / "manifest.json").read_text())
    for gate in manifest["gates"]:
        if gate["name"] == "budget":
            gate.update(value=0.9, passed=False, override="the board said so")
    write_json(case.bundle / "reports" / "release.json", {"gates": manifest["gates"]})
    refile(case.bundle, "reports/release.json", gates=manifest["gates"])
    ledger = signed_by(case, case.public.with_suffix(""))
    done = case.issue(ledger=ledger, out="out")
    reason = OverrideLine(gate="budget", reason="the board said so")
    assert done.certificate.evidence.overrides == (reason,)
    assert "the board said so" in done.page.read_text()
    tests, verified = (json.loads(raw)["predicate"] for raw in payloads(done.certificate)[1:3])
    assert (tests["result"], tests["warnedTests"]) == ("WARNED", ["budget"])
    assert "UNPLUG_ALL_GATES_HELD" not in verified["properties"]
    (line,) = problems(case)
    assert "'budget' was overridden (the board said so)" in line
    assert problems(case, policy=CertificatePolicy(overrides=("budget",))) == ()


@pytest.mark.parametrize(
    ("shown_by", "gate"), [("equality", "equality"), ("certification", "certified (method)")]
)
def test_what_forgetting_is_shown_by_is_held_to_its_own_number(
    case: Case, shown_by: Any, gate: str
) -> None:
    evidence = case.issued.certificate.evidence
    first, *rest = evidence.gates
    for value, holds in ((0.0, True), (0.2, False), (None, False)):
        gates = (replace(first, name=gate, value=value), *rest)
        changed: Evidence = replace(evidence, shown_by=shown_by, gates=gates)
        whole = replace(case.issued.certificate, evidence=changed)
        assert (list(CertificatePolicy().problems(whole, NOW)) == []) == holds


def test_a_late_answer_is_told_and_so_is_none(case: Case) -> None:
    late = edit("request", due="2020-01-01")(case.issued.certificate)
    (line,) = CertificatePolicy().problems(late, NOW)
    assert "after the due day 2020-01-01" in line
    none = edit("request", answered=None)(late)
    open_still, not_told = CertificatePolicy(answered=True).problems(none, NOW)
    assert "does not say that the person" in open_still and "was not told" in not_told


@pytest.mark.parametrize(
    ("facts", "in_time"),
    [({"utc_offset": "-10:00"}, True), ({"utc_offset": "+00:00"}, False), ({}, False)],
)
def test_whether_she_was_told_in_time_is_said_by_the_operators_day(
    case: Case, facts: dict[str, str], in_time: bool
) -> None:
    changed = {
        "answered": {"at": "2027-03-01T02:00:00Z", "facts": facts},
        "request": {"due": "2027-02-28"},
    }
    entries = [replace(entry, **changed.get(entry.kind, {})) for entry in case.ledger.entries()]
    certificate = case.issued.certificate
    request = request_line(REQUEST, certificate.model.bundle, entries, "there")
    assert request.in_time == in_time
    told = list(CertificatePolicy().problems(replace(certificate, request=request), NOW))
    assert in_time != any("after the due day" in line for line in told)


def test_a_day_that_was_corrected_counts(case: Case) -> None:
    ledger = a_ledger(case.folder)
    request, _ = ledger.add([PERSON], id=REQUEST)
    ledger.extend(REQUEST, "many pictures")
    came = request.received - timedelta(days=20)
    due = ledger.correct("it lay in another office", id=REQUEST, received=came).due
    ledger.record("release", [REQUEST], facts={"sha256 manifest.json": "ab"})
    line = request_line(REQUEST, "ab", ledger.requests()[REQUEST].history, "there")
    assert (line.received, line.due, line.extended) == (str(came), due, True)


def test_a_signed_bundle_counts_by_its_own_key(case: Case) -> None:
    make_key(case.folder / "bundle.key")
    ledger = signed_by(case, case.folder / "bundle.key")
    with pytest.raises(CheckFailed, match="unknown key"):
        case.issue(ledger=ledger)
    trust = read_trust(case.folder / "bundle.key.pub")
    certificate = case.issue(ledger=ledger, trust=trust, out="out").certificate
    assert (certificate.model.product, certificate.model.release) == ("face-age", 7)
    with pytest.raises(CheckFailed, match="unknown key"):
        problems(case)
    known = CertificatePolicy(bundle_keys=((case.folder / "bundle.key.pub").read_text(),))
    assert problems(case, policy=replace(known, signed_bundle=True, minimum_release=7)) == ()
    assert problems(case, policy=replace(known, minimum_release=8)) != ()
    renamed = edit("request", id="TICKET-1")(certificate)
    assert any("TICKET-1" in line for line in problems(case, renamed, policy=known))
    ledger.add([PERSON], id="TICKET-2")
    record_release(ledger, case.bundle, "TICKET-2")
    with pytest.raises(CheckFailed, match="does not say that it answers the request TICKET-2"):
        case.issue("TICKET-2", ledger=ledger, trust=trust)


def test_what_cannot_be_certified_is_not(case: Case) -> None:
    ledger = a_ledger(case.folder)
    with pytest.raises(InputError, match="no such request"):
        case.issue(ledger=ledger)
    ledger.add([PERSON], id=REQUEST)
    with pytest.raises(CheckFailed, match="records no release"):
        case.issue(ledger=ledger)
    record_release(ledger, case.bundle, REQUEST)
    with pytest.raises(InputError, match="no search with this result"):
        case.issue(ledger=ledger, traces={"server": case.trace})
    with pytest.raises(InputError, match="issuer"):
        case.issue(ledger=ledger, issuer="a\nb")
    with pytest.raises(CheckFailed, match="the newest entry of the ledger is of"):
        case.issue(ledger=ledger, now=LATER - timedelta(days=30))
    assert not (case.folder / "new").exists()
    (case.folder / "new").mkdir()
    (case.folder / "new" / "letter.txt").write_text("keep me")
    with pytest.raises(OutputError, match=r"letter\.txt"):
        case.issue(ledger=ledger)


def searched(case: Case, *names: str, facts: dict[str, str] | None = None) -> Ledger:
    """A ledger of its own with a request, its release, and a search for the first person."""
    ledger = a_ledger(case.folder)
    ledger.add([PERSON, *names], id=REQUEST)
    record_release(ledger, case.bundle, REQUEST)
    record_search(case, ledger, facts)
    return ledger


def record_search(
    case: Case, ledger: Ledger, facts: dict[str, str] | None = None, **changed: Any
) -> None:
    sha256 = a_trace(case.folder / "trace.json", **({"places": []} | changed))
    ledger.record("step", [REQUEST], facts={"trace_sha256": sha256, **(facts or {})})


def issued(case: Case, ledger: Ledger) -> Certificate:
    traces = {"server": case.folder / "trace.json"}
    return case.issue(ledger=ledger, out="out", traces=traces).certificate


@pytest.mark.parametrize("end", ["refuse", "withdraw", "last name"])
def test_what_was_refused_or_withdrawn_is_not_certified(case: Case, end: str) -> None:
    ledger = searched(case)
    bundle = issued(case, ledger).model.bundle
    if end == "last name":
        ledger.withdraw(REQUEST, "mistyped", [PERSON])
    else:
        getattr(ledger, end)(REQUEST, "she asked us to")
    over = r"is (refused|withdrawn) \(entry 4\). There is nothing to certify"
    with pytest.raises(CheckFailed, match=over):
        issued(case, ledger)
    with pytest.raises(CheckFailed, match="nothing to certify"):
        request_line(REQUEST, bundle, ledger.entries(), "there")


def test_a_name_that_was_withdrawn_leaves_the_others_certified(case: Case) -> None:
    ledger = searched(case, "subject:somebody-else")
    reasons = {line.place: line.why for line in issued(case, ledger).places}
    assert "not everybody" in reasons["checkpoints"], "one search, two people"
    ledger.withdraw(REQUEST, "mistyped", ["subject:somebody-else"])
    record_search(case, ledger, nonce="1")
    whole = issued(case, ledger)
    assert {line.outcome for line in whole.places if line.by == "search"} == {"none found"}
    assert problems(case) == ()
    assert any('"withdrawn"' in entry.entry for entry in whole.ledger.entries)


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ("kept", "a model from before the forget step"),
        ("unknown", "1 of them could not be looked into"),
    ],
)
def test_what_the_entry_of_a_search_says_is_compared(case: Case, outcome: str, why: str) -> None:
    whole = issued(case, searched(case, facts={f"{outcome} checkpoints": "1"}))
    (line,) = problems(case)
    assert line == "checkpoints: none found, and the ledger's entry of the search says otherwise"
    lines = (
        replace(line, outcome=outcome, count=1, why=why) if line.place == "checkpoints" else line
        for line in whole.places
    )
    assert problems(case, replace(whole, places=tuple(lines))) == ()


def test_a_search_of_nothing_is_none(case: Case) -> None:
    ledger = searched(case)
    record_search(case, ledger, searched=[])
    with pytest.raises(InputError, match="searched no folder"):
        issued(case, ledger)


def test_the_commands_issue_and_verify(
    made: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNPLUG_LEDGER", str(made.folder / "ledger.db"))
    told = called(
        f"certificate {REQUEST} --bundle {made.bundle} --sign {made.folder}/release.key "
        f"--out {tmp_path}/out --trace server={made.trace} --place backups=deleted"
    )
    assert "copies and phones" in told["unknown"] and "backups" not in told["unknown"]
    check = (
        f"certificate verify {tmp_path}/out/certificate.intoto.jsonl --trust {made.public} "
        f"--bundle {made.bundle}"
    )
    text = shown(f"{check} --request {REQUEST}")
    assert "came from the certificate itself" in text and "all of it holds" not in text
    kept = "Of the person is kept: raw data (1), work folders (1), "
    assert f"what it says of the model holds\n{kept}" in text
    policy = {"schema": "unplug-certificate-policy/1", "must_be_known": ["copies and phones"]}
    write_json(tmp_path / "policy.json", policy)
    assert called(f"{check} --policy {tmp_path}/policy.json", code=1)["problems"] == [
        "copies and phones: nobody knows, and somebody must"
    ]


def test_verifying_needs_nothing_but_the_base(case: Case) -> None:
    case.issue(now=None)
    words = f"certificate verify {case.folder}/new/certificate.intoto.jsonl --trust {case.public}"
    told = python(f"""{with_only(BASE)}
from unplug.sdk.cli import main
for words in ("{words} --bundle {case.bundle}", "bundle verify {case.bundle}"):
    try:
        main(words.split())
    except SystemExit as ended:
        assert not ended.code, ended.code
""")
    assert f"request {REQUEST} was answered by the bundle" in told
    assert "files match the manifest" in told


def test_the_page_on_it_has_the_defaults_and_every_property(case: Case) -> None:
    page = (Path(__file__).parents[4] / "docs" / "certificate.md").read_text(encoding="utf-8")
    policy = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert policy is not None
    assert json.loads(policy[1]) == json.loads(json.dumps(asdict(CertificatePolicy())))
    places = tuple(replace(line, outcome="deleted") for line in case.issued.certificate.places)
    clean = replace(case.issued.certificate, places=places)
    properties: set[str] = set()
    for way in ("equality", "certification", "attacks"):
        view = json.loads(payloads(edit("evidence", shown_by=way)(clean))[2])
        properties |= {*view["predicate"]["properties"]}
    assert properties == set(re.findall(r"UNPLUG_[A-Z_]+", page))
    assert re.findall(r"\| \d \| `([^`]+)` \|", page) == list(NAMES)


def test_a_bundle_under_a_root_certificate_is_certified_and_verified_by_that_root(
    case: Case,
) -> None:
    valid = (NOW - DAY, NOW + DAY)
    root = Holder("root", authority=True, valid=valid)
    signer = Holder("signer", root, valid=valid)
    chain = pem(case.folder / "chain.pem", signer, root)
    trust = f"--trust {pem(case.folder / 'root.pem', root)}"
    signed_by(case, signer.write(case.folder / "signer.key"), chain=chain)
    make_key(case.folder / "issuer")
    issue = (
        f"certificate {REQUEST} --ledger {case.folder}/ledger.db --bundle {case.bundle} "
        f"--sign {case.folder}/issuer --out {case.folder}/new"
    )
    assert "--trust ROOT.pem" in refused(issue, code=1) and not (case.folder / "new").exists()
    called(f"{issue} {trust}")
    check = (
        f"certificate verify {case.folder}/new/certificate.intoto.jsonl --bundle {case.bundle} "
        f"--trust {case.folder}/issuer.pub"
    )
    assert "--trust ROOT.pem" in refused(check, code=1)
    called(f"{check} {trust}")
