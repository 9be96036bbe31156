"""A certificate holds on another machine with a public key alone; whatever is not so in it is said
in one line.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import CheckFailed, InputError, OutputError, ReportError, write_json
from unplug.sdk.cli import main
from unplug.trust.bundle import (
    Gate,
    Publication,
    Signing,
    bundle_id,
    canonical,
    load_signer,
    make_key,
    read_trust,
    sign_bundle,
)
from unplug.trust.certificates import (
    Certificate,
    CertificatePolicy,
    check_certificate,
    issue_certificate,
    read_policy,
    said_place,
)
from unplug.trust.certificates.certificate import Evidence, OverrideLine
from unplug.trust.certificates.history import request_line
from unplug.trust.certificates.statements import KINDS, payloads, sealed
from unplug.trust.ledger import Ledger

from ....blocked import BASE, python, with_only
from ..bundle.test_chain import DAY, Holder, pem
from .conftest import LATER, PERSON, REQUEST, Case, a_ledger, a_trace, digest, refile

NOW = LATER + timedelta(hours=1)


def problems(case: Case, certificate: Certificate | None = None, **more: object) -> tuple[str, ...]:
    """What is found wrong, of the case's own certificate or of another one that its key signed."""
    if certificate is not None:
        case.issued.file.write_bytes(sealed(certificate, case.signer))
    key = read_trust(case.public).keys[0]
    return check_certificate(case.issued.file, key, case.bundle, now=NOW, **more).problems  # type: ignore[arg-type]


def test_it_verifies_elsewhere_with_the_public_key_alone_and_names_nobody(case: Case) -> None:
    away = case.folder / "another-machine"
    away.mkdir()
    for file in (case.issued.file, case.public):
        shutil.copy(file, away)
    shutil.copytree(case.bundle, away / "bundle")
    write_json(
        away / "policy.json",
        {
            "schema": "unplug-certificate-policy/1",
            "ledger_key": case.ledger.identity()[1].text,
            "answered": True,
            "must_be_known": ["raw data", "backups"],
            "shown_by": ["attacks"],
            "in_time": True,
        },
    )
    found = check_certificate(
        away / case.issued.file.name,
        read_trust(away / case.public.name).keys[0],
        away / "bundle",
        read_policy(away / "policy.json"),
        request=REQUEST,
        now=NOW,
    )
    assert found.problems == () and found.ledger_key == "the policy"
    said = found.certificate
    assert (
        said.request.answered is not None
        and said.request.informed == 1
        and said.request.identity_checked
    )
    assert {line.attack for line in said.evidence.attacks} == {"loss", "gain"}
    assert all(line.gap is not None and line.gap.low is not None for line in said.evidence.attacks)
    payloads = [
        base64.b64decode(json.loads(line)["payload"])
        for line in case.issued.file.read_bytes().splitlines()
    ]
    for raw in (*payloads, case.issued.page.read_bytes()):
        assert b"lovelace" not in raw and b"/srv" not in raw
    assert [json.loads(raw)["predicateType"] for raw in payloads] == list(KINDS)


def test_the_views_of_it_are_the_predicates_that_other_tools_know(case: Case) -> None:
    _, tests, svr, made = (
        json.loads(base64.b64decode(json.loads(line)["payload"]))
        for line in case.issued.file.read_bytes().splitlines()
    )
    assert (
        tests["predicate"]["result"] == "PASSED" and "utility" in tests["predicate"]["passedTests"]
    )
    assert {"UNPLUG_ALL_GATES_HELD", "UNPLUG_ANSWERED_IN_TIME"} <= {*svr["predicate"]["properties"]}
    assert "UNPLUG_ALL_PLACES_KNOWN" not in svr["predicate"]["properties"]
    assert made["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"] == {
        "sha256": "2" * 64
    }
    for statement in (tests, svr, made):
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        assert statement["subject"][0] == {
            "name": "manifest.json",
            "digest": {"sha256": bundle_id(case.bundle)},
        }


def test_the_same_certificate_is_the_same_bytes(case: Case, made: Case) -> None:
    again = issue_certificate(
        REQUEST,
        ledger=made.ledger,
        bundle=made.bundle,
        signer=made.signer,
        out=case.folder / "again",
        traces={"server": made.trace},
        issuer="Example Ltd",
        now=LATER,
        places=[
            said_place("backups=kept: overwritten after 30 days"),
            said_place("deltas=none found"),
        ],
    )
    assert [digest(path) for path in (again.file, again.page)] == [
        digest(path) for path in (made.issued.file, made.issued.page)
    ]


def edit(**changed: object) -> Callable[[Certificate], Certificate]:
    """Other fields of the request."""
    return lambda said: replace(said, request=replace(said.request, **changed))  # type: ignore[arg-type]


def number(said: Certificate) -> Certificate:
    first, *rest = said.evidence.attacks
    assert first.gap is not None
    better = replace(first, gap=replace(first.gap, value=0.0, low=-0.001, high=0.001))
    return replace(said, evidence=replace(said.evidence, attacks=(better, *rest)))


def without(kind: str) -> Callable[[Certificate], Certificate]:
    """Without the entries of one kind."""
    return lambda said: replace(
        said,
        ledger=replace(
            said.ledger,
            entries=tuple(e for e in said.ledger.entries if f'"kind":"{kind}"' not in e.entry),
        ),
    )


def places(
    who: str, said_so: str | None = None, **changed: object
) -> Callable[[Certificate], Certificate]:
    """Other words on the places that somebody spoke of so."""
    return lambda said: replace(
        said,
        places=tuple(
            replace(line, **changed) if line.by == who and said_so in (None, line.outcome) else line
            for line in said.places  # type: ignore[arg-type]
        ),
    )


FORGED: dict[str, tuple[Callable[[Certificate], Certificate], str]] = {
    "another request": (
        edit(id="TICKET-99"),
        "no entry of the ledger in it holds the request TICKET-99",
    ),
    "no release": (without("release"), "records no release of the bundle"),
    "no answer": (without("answered"), "as 'answered' of the request, and the ledger None"),
    "a later due day": (edit(due="2099-01-01"), "as 'due' of the request"),
    "edited numbers": (number, "what it says as 'attacks' is not what the bundle says"),
    "no attacks": (
        lambda said: replace(said, evidence=replace(said.evidence, attacks=())),
        "'attacks' is not what the bundle says",
    ),
    "a cheaper method": (
        lambda said: replace(said, model=replace(said.model, compute=0.0)),
        "'compute' is not what the bundle says",
    ),
    "another bundle": (
        lambda said: replace(said, model=replace(said.model, bundle="9" * 64)),
        "it is about the bundle 9999999999999999",
    ),
    "a search that was not": (
        lambda said: replace(said, searches=(replace(said.searches[0], trace_sha256="0" * 64),)),
        "records no such search",
    ),
    "a place left out": (lambda said: replace(said, places=said.places[1:]), "every kind of place"),
    "a search that nobody made": (
        lambda said: replace(said, searches=()),
        "none found by a search, and there was none",
    ),
    "a search of no folder": (
        lambda said: replace(said, searches=(replace(said.searches[0], folders=0),)),
        "by a search, and there was none",
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
        places("search", "kept", why="harmless"),
        "'harmless' is not what a search says of it",
    ),
    "another sentence": (places("nobody", why="nothing there"), "nobody said 'unknown' of it"),
    "claims more": (
        lambda said: replace(said, not_claimed=("All is gone.",)),
        "what it does not claim is not",
    ),
    "claims all": (
        lambda said: replace(said, not_claimed=said.not_claimed[1:]),
        "what it does not claim is not",
    ),
    "issued before its entries": (
        lambda said: replace(said, issued="2020-01-01T00:00:00Z"),
        "it says that it was issued before",
    ),
    "issued tomorrow": (
        lambda said: replace(said, issued="2099-01-01T00:00:00Z"),
        "no time before now",
    ),
    "issued never": (lambda said: replace(said, issued="soon"), "no time before now"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_an_issuer_says_beyond_ledger_and_bundle_is_found(case: Case, name: str) -> None:
    change, line = FORGED[name]
    found = problems(case, change(case.issued.certificate))
    assert any(line in text for text in found), found


def test_another_bundle_and_another_request_are_told(case: Case) -> None:
    (case.bundle / "README.md").write_text("another")
    refile(case.bundle, "README.md")
    found = problems(case, request="TICKET-16")
    assert [line.split(" ")[:4] for line in found] == [
        ["it", "is", "about", "the"]
    ] * 2 and "TICKET-16" in found[0]


def test_a_bundle_that_was_changed_or_has_no_audit_is_refused(case: Case) -> None:
    (case.bundle / "artifacts" / "age.fp32.tflite").write_bytes(b"other")
    with pytest.raises(CheckFailed, match="was changed"):
        problems(case)


def test_a_bundle_without_an_audit_is_refused(case: Case) -> None:
    (case.bundle / "reports" / "audit.json").unlink()
    with pytest.raises(CheckFailed, match="is missing"):
        problems(case)
    manifest = json.loads((case.bundle / "manifest.json").read_text())
    del manifest["files"]["reports/audit.json"]
    (case.bundle / "manifest.json").write_bytes(canonical(manifest))
    said = case.issued.certificate
    with pytest.raises(CheckFailed, match="its reports cannot be read"):
        problems(case, replace(said, model=replace(said.model, bundle=bundle_id(case.bundle))))


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
    said = case.issued.certificate
    said = replace(said, model=replace(said.model, bundle=bundle_id(case.bundle)))
    with pytest.raises(ReportError, match=line):
        problems(case, said)


@pytest.mark.parametrize("harm", ["payload", "signature", "line", "key"])
def test_a_file_that_was_edited_is_not_what_the_key_signed(case: Case, harm: str) -> None:
    lines = [json.loads(line) for line in case.issued.file.read_bytes().splitlines()]
    if harm == "payload":
        raw = base64.b64decode(lines[0]["payload"]).replace(b"TICKET-17", b"TICKET-18")
        lines[0]["payload"] = base64.b64encode(raw).decode()
    elif harm == "signature":
        lines[0]["signatures"][0]["sig"] = lines[1]["signatures"][0]["sig"]
    elif harm == "line":  # a view that its issuer signed, of another certificate
        other = replace(case.issued.certificate, issued="2020-01-01T00:00:00Z")
        lines[2] = json.loads(sealed(other, case.signer).splitlines()[2])
    else:
        make_key(case.folder / "other.key")
        other_key = load_signer(str(case.folder / "other.key"))
        lines = [
            json.loads(line) for line in sealed(case.issued.certificate, other_key).splitlines()
        ]
    case.issued.file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(CheckFailed) as caught:
        problems(case)
    assert any(
        word in str(caught.value)
        for word in ("edited", "did not sign it", "does not say what its certificate says")
    )


def test_an_entry_that_is_in_no_ledger_is_refused(case: Case) -> None:
    said = case.issued.certificate
    first, *rest = said.ledger.entries
    other = replace(first, entry=first.entry.replace("2026", "2025").replace("2027", "2026"))
    with pytest.raises(CheckFailed, match="not in the ledger"):
        problems(case, replace(said, ledger=replace(said.ledger, entries=(other, *rest))))


def test_limits_come_from_the_policy_and_from_nowhere_else(case: Case) -> None:
    said = case.issued.certificate
    high = max(
        line.gap.high
        for line in said.evidence.attacks
        if line.gap is not None and line.gap.high is not None
    )
    found = problems(case, policy=CertificatePolicy(max_auc_above=high - 0.01))
    assert len(found) == 2 and all("AUC from what never saw the person" in line for line in found)
    asked = CertificatePolicy(
        must_be_gone=("raw data", "backups", "caches"),
        must_be_known=("copies and phones",),
        shown_by=("equality",),
        signed_bundle=True,
        max_age_days=0,
        max_error_above=0.01,
    )
    found = problems(case, policy=asked)
    words = (
        "raw data: kept",
        "backups: kept",
        "copies and phones: nobody",
        "only equality",
        "not signed",
        "years above",
    )
    assert all(any(word in line for line in found) for word in words) and len(found) == len(
        words
    ), found
    key = case.ledger.identity()[1].text.replace("tests.example", "other.example")
    with pytest.raises(InputError):
        problems(case, policy=CertificatePolicy(ledger_key=key))


def evidence(said: Certificate, **changed: object) -> Certificate:
    return replace(said, evidence=replace(said.evidence, **changed))  # type: ignore[arg-type]


def test_overrides_failed_gates_and_too_few_people_need_the_policys_word(case: Case) -> None:
    said = case.issued.certificate
    gates = said.evidence.gates
    failed = tuple(
        replace(gate, passed=False, value=9.0) if gate.name == "budget" else gate for gate in gates
    )
    overridden = (OverrideLine(gate="budget", reason="the board said so"),)
    default = CertificatePolicy()
    assert any(
        "'budget' did not hold" in line
        for line in default.problems(evidence(said, gates=failed), NOW)
    )
    both = evidence(said, gates=failed, overrides=overridden)
    assert [
        line for line in default.problems(both, NOW) if "overridden (the board said so)" in line
    ]
    assert list(replace(default, overrides=("budget",)).problems(both, NOW)) == []
    assert any(
        "no interval counts" in line
        for line in default.problems(evidence(said, too_few="one person"), NOW)
    )
    bare = tuple(replace(line, gap=None) for line in said.evidence.attacks)
    assert (
        sum(
            "has no interval" in line
            for line in default.problems(evidence(said, attacks=bare), NOW)
        )
        == 2
    )


@pytest.mark.skipif(
    "override" not in {item.name for item in fields(Gate)}, reason="manifests hold no overrides yet"
)
def test_an_override_in_the_manifest_needs_the_policys_word(case: Case) -> None:
    manifest = json.loads((case.bundle / "manifest.json").read_text())
    for gate in manifest["gates"]:
        if gate["name"] == "budget":
            gate.update(value=0.9, passed=False, override="the board said so")
    write_json(case.bundle / "reports" / "release.json", {"gates": manifest["gates"]})
    refile(case.bundle, "reports/release.json", gates=manifest["gates"])
    ledger = a_ledger(case.folder)
    ledger.add([PERSON], id=REQUEST)
    said = Publication(name="face-age", release=1, requests=(REQUEST,))
    sign_bundle(case.bundle, Signing(signer=case.signer, publication=said), case.bundle)
    ledger.record("release", [REQUEST], facts={"sha256 manifest.json": bundle_id(case.bundle)})
    done = issue_certificate(
        REQUEST,
        ledger=ledger,
        bundle=case.bundle,
        signer=case.signer,
        out=case.folder / "out",
        now=LATER,
        trust=read_trust(case.public),
    )
    assert done.certificate.evidence.overrides == (
        OverrideLine(gate="budget", reason="the board said so"),
    )
    assert "the board said so" in done.page.read_text()
    result, properties = (
        json.loads(payload)["predicate"] for payload in payloads(done.certificate)[1:3]
    )
    assert (result["result"], result["warnedTests"]) == ("WARNED", ["budget"])
    assert "UNPLUG_ALL_GATES_HELD" not in properties["properties"]
    (line,) = problems(case)
    assert "'budget' was overridden (the board said so)" in line
    assert problems(case, policy=CertificatePolicy(overrides=("budget",))) == ()


@pytest.mark.parametrize(
    ("shown", "gate"), [("equality", "equality"), ("certification", "certified (method)")]
)
def test_what_forgetting_is_shown_by_is_held_to_its_own_number(
    case: Case, shown: str, gate: str
) -> None:
    said = case.issued.certificate
    first, *rest = said.evidence.gates
    for value, holds in ((0.0, True), (0.2, False), (None, False)):
        changed: Evidence = replace(
            said.evidence,
            shown_by=shown,
            gates=(replace(first, name=gate, value=value), *rest),  # type: ignore[arg-type]
        )
        found = list(CertificatePolicy().problems(replace(said, evidence=changed), NOW))
        assert (found == []) == holds, found


def test_a_late_answer_is_told_and_so_is_none(case: Case) -> None:
    said = case.issued.certificate
    late = replace(said, request=replace(said.request, due="2020-01-01"))
    assert any(
        "after the due day 2020-01-01" in line for line in CertificatePolicy().problems(late, NOW)
    )
    none = replace(late, request=replace(late.request, answered=None))
    found = list(CertificatePolicy(answered=True).problems(none, NOW))
    assert any("was not told" in line for line in found) and any(
        "does not say that the person" in line for line in found
    )


@pytest.mark.parametrize(
    ("offset", "in_time"), [("-10:00", True), ("+00:00", False), (None, False)]
)
def test_whether_she_was_told_in_time_is_said_by_the_operators_day(
    case: Case, offset: str | None, in_time: bool
) -> None:
    entries = [
        replace(
            entry, at="2027-03-01T02:00:00Z", facts={} if offset is None else {"utc_offset": offset}
        )
        if entry.kind == "answered"
        else replace(entry, due="2027-02-28")
        if entry.kind == "request"
        else entry
        for entry in case.ledger.entries()
    ]
    request = request_line(
        case.issued.certificate.request.id, case.issued.certificate.model.bundle, entries, "there"
    )
    late = replace(case.issued.certificate, request=request)
    assert request.in_time == in_time
    assert in_time == (
        not any("after the due day" in line for line in CertificatePolicy().problems(late, NOW))
    )


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
    signer, ledger = load_signer(str(case.folder / "bundle.key")), a_ledger(case.folder)
    said = Publication(name="face-age", release=7, requests=(REQUEST,))
    id_ = sign_bundle(case.bundle, Signing(signer=signer, publication=said), case.bundle)
    ledger.add([PERSON], id=REQUEST)
    ledger.record("release", [REQUEST], facts={"sha256 manifest.json": id_})
    with pytest.raises(CheckFailed, match="unknown key"):
        issue_certificate(
            REQUEST, ledger=ledger, bundle=case.bundle, signer=case.signer, out=case.folder / "out"
        )
    trust = read_trust(case.folder / "bundle.key.pub")
    done = issue_certificate(
        REQUEST,
        ledger=ledger,
        bundle=case.bundle,
        signer=case.signer,
        out=case.folder / "out",
        trust=trust,
        now=LATER,
    )
    assert (done.certificate.model.product, done.certificate.model.release) == ("face-age", 7)
    with pytest.raises(CheckFailed, match="unknown key"):
        problems(case)
    pem = (case.folder / "bundle.key.pub").read_text()
    assert (
        problems(
            case,
            policy=CertificatePolicy(bundle_keys=(pem,), signed_bundle=True, minimum_release=7),
        )
        == ()
    )
    assert problems(case, policy=CertificatePolicy(bundle_keys=(pem,), minimum_release=8)) != ()
    other = done.certificate
    renamed = replace(other, request=replace(other.request, id="TICKET-1"))
    assert any(
        "TICKET-1" in line
        for line in problems(case, renamed, policy=CertificatePolicy(bundle_keys=(pem,)))
    )
    ledger.add([PERSON], id="TICKET-2")
    ledger.record("release", ["TICKET-2"], facts={"sha256 manifest.json": bundle_id(case.bundle)})
    with pytest.raises(CheckFailed, match="does not say that it answers the request TICKET-2"):
        issue_certificate(
            "TICKET-2",
            ledger=ledger,
            bundle=case.bundle,
            signer=case.signer,
            out=case.folder / "two",
            trust=trust,
        )


def test_what_cannot_be_certified_is_not(case: Case, made: Case) -> None:
    ledger = a_ledger(case.folder)
    out, common = case.folder / "new", {"bundle": case.bundle, "signer": case.signer}
    with pytest.raises(InputError, match="no such request"):
        issue_certificate(REQUEST, ledger=ledger, out=out, **common)  # type: ignore[arg-type]
    ledger.add([PERSON], id=REQUEST)
    with pytest.raises(CheckFailed, match="records no release"):
        issue_certificate(REQUEST, ledger=ledger, out=out, **common)  # type: ignore[arg-type]
    ledger.record("release", [REQUEST], facts={"sha256 manifest.json": bundle_id(case.bundle)})
    with pytest.raises(InputError, match="no search with this result"):
        issue_certificate(REQUEST, ledger=ledger, out=out, traces={"server": made.trace}, **common)  # type: ignore[arg-type]
    (case.folder / "mine").mkdir()
    (case.folder / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(OutputError, match=r"letter\.txt"):
        issue_certificate(REQUEST, ledger=ledger, out=case.folder / "mine", **common)  # type: ignore[arg-type]
    assert not out.exists()
    with pytest.raises(InputError, match="issuer"):
        issue_certificate(REQUEST, ledger=ledger, out=out, issuer="a\nb", **common)  # type: ignore[arg-type]


def test_the_commands_issue_and_verify(
    case: Case, made: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNPLUG_LEDGER", str(made.folder / "ledger.db"))
    out = tmp_path / "issued"
    words = [
        "certificate",
        REQUEST,
        "--bundle",
        made.bundle,
        "--sign",
        made.folder / "release.key",
        "--out",
        out,
        "--trace",
        f"server={made.trace}",
        "--place",
        "backups=deleted",
    ]
    done = CliRunner().invoke(main, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    assert (
        "copies and phones" in json.loads(done.stdout)["unknown"]
        and "backups" not in json.loads(done.stdout)["unknown"]
    )
    check = [
        "certificate",
        "verify",
        out / "certificate.intoto.jsonl",
        "--key",
        made.public,
        "--bundle",
        made.bundle,
    ]
    held = CliRunner().invoke(main, [*map(str, check), "--request", REQUEST])
    assert (
        held.exit_code == 0
        and "came from the certificate itself" in held.stdout
        and "all of it holds" not in held.stdout
    )
    assert (
        "what it says of the model holds\nOf the person is kept: raw data (1), work folders (1), "
        in held.stdout
    )
    write_json(
        tmp_path / "policy.json",
        {"schema": "unplug-certificate-policy/1", "must_be_known": ["copies and phones"]},
    )
    refused = CliRunner().invoke(
        main, [*map(str, check), "--policy", str(tmp_path / "policy.json"), "--json"]
    )
    assert refused.exit_code == 1 and json.loads(refused.stdout)["problems"] == [
        "copies and phones: nobody knows, and somebody must"
    ]


def searched_ledger(case: Case, *names: str, facts: dict[str, str] | None = None) -> Ledger:
    """A ledger of its own with a request, its release, and a search for the first person, as
    `a_trace` wrote it.
    """
    ledger = a_ledger(case.folder)
    ledger.add([PERSON, *names], id=REQUEST)
    ledger.record("release", [REQUEST], facts={"sha256 manifest.json": bundle_id(case.bundle)})
    made = a_trace(case.folder / "trace.json", places=[])
    ledger.record("step", [REQUEST], facts={"trace_sha256": made} | (facts or {}))
    return ledger


def issued(case: Case, ledger: Ledger, **more: object) -> Certificate:
    return issue_certificate(
        REQUEST,
        ledger=ledger,
        bundle=case.bundle,
        signer=case.signer,
        out=case.folder / "out",
        **{"now": LATER, "traces": {"server": case.folder / "trace.json"}, **more},  # type: ignore[arg-type]
    ).certificate


@pytest.mark.parametrize("end", ["refuse", "withdraw", "last name"])
def test_what_was_refused_or_withdrawn_is_not_certified(case: Case, end: str) -> None:
    ledger = searched_ledger(case)
    said = issued(case, ledger)
    if end == "last name":
        ledger.withdraw(REQUEST, "mistyped", [PERSON])
    else:
        getattr(ledger, end)(REQUEST, "she asked us to")
    with pytest.raises(
        CheckFailed, match=r"is (refused|withdrawn) \(entry 4\). There is nothing to certify"
    ):
        issued(case, ledger)
    entry = ledger.entries()[-1]
    with pytest.raises(CheckFailed, match="nothing to certify"):
        request_line(REQUEST, said.model.bundle, ledger.entries(), "there")
    assert entry.kind in ("refused", "withdrawn")


def test_a_name_that_was_withdrawn_leaves_the_others_certified(case: Case) -> None:
    ledger = searched_ledger(case, "subject:somebody-else")
    lines = {line.place: line.why for line in issued(case, ledger).places}
    assert "not everybody" in lines["checkpoints"], "one search, two people"
    ledger.withdraw(REQUEST, "mistyped", ["subject:somebody-else"])
    ledger.record(
        "step",
        [REQUEST],
        facts={"trace_sha256": a_trace(case.folder / "trace.json", places=[], nonce="1")},
    )
    said = issued(case, ledger)
    assert {line.outcome for line in said.places if line.by == "search"} == {"none found"}
    assert problems(case) == () and any(
        '"withdrawn"' in entry.entry for entry in said.ledger.entries
    )


def test_a_clock_behind_the_ledger_certifies_nothing(case: Case, made: Case) -> None:
    with pytest.raises(CheckFailed, match="the newest entry of the ledger is of"):
        issue_certificate(
            REQUEST,
            ledger=made.ledger,
            bundle=made.bundle,
            signer=made.signer,
            out=case.folder / "new",
            now=LATER - timedelta(days=30),
        )
    assert not (case.folder / "new").exists()


@pytest.mark.parametrize(
    ("fact", "word"), [("kept checkpoints", "kept"), ("unknown checkpoints", "unknown")]
)
def test_what_the_entry_of_a_search_says_is_compared(case: Case, fact: str, word: str) -> None:
    said = issued(case, searched_ledger(case, facts={fact: "1"}))
    (line,) = problems(case)
    assert line == "checkpoints: none found, and the ledger's entry of the search says otherwise"
    other = {
        "kept": "a model from before the forget step",
        "unknown": "1 of them could not be looked into",
    }
    change: dict[str, Any] = {"outcome": word, "count": 1, "why": other[word]}
    lines = (
        replace(item, **change) if item.place == "checkpoints" else item for item in said.places
    )
    assert problems(case, replace(said, places=tuple(lines))) == ()


def test_a_search_of_nothing_is_none(case: Case) -> None:
    ledger = searched_ledger(case)
    ledger.record(
        "step", [REQUEST], facts={"trace_sha256": a_trace(case.folder / "trace.json", searched=[])}
    )
    with pytest.raises(InputError, match="searched no folder"):
        issued(case, ledger)


def test_an_edited_search_is_refused(case: Case, made: Case) -> None:
    a_trace(case.folder / "trace.json", purged=["/c/one.npy", "/srv/ada-lovelace/original"])
    with pytest.raises(InputError, match="no search with this result"):
        issue_certificate(
            REQUEST,
            ledger=made.ledger,
            bundle=made.bundle,
            signer=made.signer,
            out=case.folder / "new",
            traces={"server": case.folder / "trace.json"},
        )


def test_verifying_needs_nothing_but_the_base(made: Case, tmp_path: Path) -> None:
    issued = issue_certificate(
        REQUEST, ledger=made.ledger, bundle=made.bundle, signer=made.signer, out=tmp_path / "issued"
    )
    said = [
        "certificate",
        "verify",
        str(issued.file),
        "--key",
        str(made.public),
        "--bundle",
        str(made.bundle),
    ]
    code = f"""{with_only(BASE)}
from unplug.sdk.cli import main
for words in ({said!r}, ["bundle", "verify", {str(made.bundle)!r}]):
    try:
        main(words)
    except SystemExit as ended:
        assert not ended.code, ended.code
"""
    told = python(code)
    assert (
        f"request {REQUEST} was answered by the bundle" in told
        and "files match the manifest" in told
    )


def test_the_page_on_it_has_the_defaults_and_every_property(case: Case) -> None:
    page = (Path(__file__).parents[4] / "docs" / "certificate.md").read_text(encoding="utf-8")
    policy = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert policy is not None and json.loads(policy[1]) == json.loads(
        json.dumps(asdict(CertificatePolicy()))
    )
    said = case.issued.certificate
    every = replace(said, places=tuple(replace(line, outcome="deleted") for line in said.places))
    found = {
        name
        for shown in ("equality", "certification", "attacks")
        for name in json.loads(payloads(evidence(every, shown_by=shown))[2])["predicate"][
            "properties"
        ]
    }
    assert found == set(re.findall(r"UNPLUG_[A-Z_]+", page))
    assert set(re.findall(r"\| `(https://[^`]+)` \|", page)) == set(KINDS)


def test_a_bundle_under_a_root_certificate_is_certified_and_verified_by_that_root(
    case: Case,
) -> None:
    valid = {"valid": (NOW - DAY, NOW + DAY)}
    root = Holder("root", authority=True, **valid)  # type: ignore[arg-type]
    signer = Holder("signer", root, **valid)  # type: ignore[arg-type]
    chain, trusted = (
        pem(case.folder / "chain.pem", signer, root),
        pem(case.folder / "root.pem", root),
    )
    key, out = signer.write(case.folder / "signer.key"), case.folder / "chained"
    signing = Signing(
        signer=load_signer(str(key), chain=chain), publication=Publication(name="age", release=1)
    )
    sign_bundle(case.bundle, signing, case.bundle)
    ledger = a_ledger(case.folder)
    ledger.add([PERSON], id=REQUEST)
    ledger.record("release", [REQUEST], facts={"sha256 manifest.json": bundle_id(case.bundle)})
    issue = [
        "certificate",
        REQUEST,
        "--ledger",
        str(case.folder / "ledger.db"),
        "--bundle",
        str(case.bundle),
    ]
    (case.folder / "issuer").mkdir()
    make_key(case.folder / "issuer" / "key")
    issue += ["--sign", str(case.folder / "issuer" / "key"), "--out", str(out)]
    refused = CliRunner().invoke(main, issue)
    assert refused.exit_code == 1 and "--trust ROOT.pem" in refused.stderr and not out.exists()
    assert CliRunner().invoke(main, [*issue, "--trust", str(trusted)]).exit_code == 0
    check = [
        "certificate",
        "verify",
        str(out / "certificate.intoto.jsonl"),
        "--bundle",
        str(case.bundle),
    ]
    check += ["--key", str(case.folder / "issuer" / "key.pub")]
    refused = CliRunner().invoke(main, check)
    assert refused.exit_code == 1 and "--trust ROOT.pem" in refused.stderr
    found = CliRunner().invoke(main, [*check, "--trust", str(trusted)])
    assert found.exit_code == 0, found.output
