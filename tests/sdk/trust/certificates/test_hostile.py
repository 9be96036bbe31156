"""Certificates and policies from strangers: a typed error in one line, whatever they hold, in
bounded time and memory.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.mutations import mutated

from unplug.core import EARLIER, PLACE, CheckFailed, InputError, UnplugError, peak_rss_bytes
from unplug.trust.bundle import STATEMENT_TYPE, canonical, dsse, pae
from unplug.trust.certificates import (
    CertificatePolicy,
    check_certificate,
    open_certificate,
    read_policy,
)
from unplug.trust.certificates.statements import CERTIFICATE, KINDS, MAX_BYTES, payloads

from .conftest import LATER, Case

MANY = 300
MAX_GROWTH = 2**27  # bytes, over all of them


def envelope(case: Case, payload: bytes) -> dict[str, Any]:
    """What the case's key signs, whatever it is."""
    return dsse(payload, case.signer.sign(pae(payload)), case.signer.key.hint)


def lines(case: Case) -> list[dict[str, Any]]:
    return [envelope(case, payload) for payload in payloads(case.issued.certificate)]


def joined(envelopes: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(canonical(line) + b"\n" for line in envelopes)


def first(case: Case, payload: bytes) -> bytes:
    """The file with another first statement under the right signature."""
    return joined([envelope(case, payload), *lines(case)[1:]])


def statement(case: Case, **changed: Any) -> bytes:
    return canonical(json.loads(payloads(case.issued.certificate)[0]) | changed)


def stated(**changed: Any) -> Callable[[Case], bytes]:
    return lambda case: first(case, statement(case, **changed))


def enveloped(change: Callable[[dict[str, Any]], object]) -> Callable[[Case], bytes]:
    def made(case: Case) -> bytes:
        envelopes = lines(case)
        change(envelopes[0])
        return joined(envelopes)

    return made


def predicate(**changed: Any) -> Callable[[Case], bytes]:
    return lambda case: stated(predicate={**asdict(case.issued.certificate), **changed})(case)


DEEP = b"[" * 100_000 + b"]" * 100_000
HOSTILE: dict[str, Callable[[Case], bytes]] = {
    "nothing": lambda case: b"",
    "one line": lambda case: joined(lines(case)[:1]),
    "no end": lambda case: joined(lines(case))[:-1],
    "nine lines": lambda case: joined(lines(case) * 2),
    "another order": lambda case: joined(reversed(lines(case))),
    "huge": lambda case: b" " * (MAX_BYTES + 1),
    "deep": lambda case: DEEP + b"\n" * 4,
    "deep payload": lambda case: first(case, DEEP),
    "a key twice": lambda case: (
        b'{"payload":"e30=","payload":"e30=","payloadType":"x","signatures":[]}\n' + b"{}\n" * 3
    ),
    "not JSON": lambda case: b"certificate\n" * 4,
    "binary": lambda case: bytes(range(256)) * 4 + b"\n" * 4,
    "a list": lambda case: b"[]\n" * 4,
    "a field more": enveloped(lambda line: line.update(more=1)),
    "a foreign payload type": enveloped(lambda line: line.update(payloadType="text/plain")),
    "wrong base64": enveloped(lambda line: line.update(payload="e30")),
    "base64 of two spellings": enveloped(lambda line: line.update(payload="e31=")),
    "base64 that is a number": enveloped(lambda line: line.update(payload=7)),
    "no signature": enveloped(lambda line: line.update(signatures=[])),
    "too many signatures": enveloped(lambda line: line.update(signatures=line["signatures"] * 9)),
    "a signature of nothing": enveloped(lambda line: line["signatures"][0].update(sig="")),
    "a key that is a number": enveloped(lambda line: line["signatures"][0].update(keyid=1)),
    "another statement": stated(_type="https://in-toto.io/Statement/v0.1"),
    "another predicate": stated(predicateType="https://slsa.dev/provenance/v1"),
    "a place of nobody": stated(predicateType="urn:example:certificate/v1"),
    "no place": stated(predicateType=CERTIFICATE),
    "an earlier place beside today's": stated(predicateType=EARLIER[0] + CERTIFICATE),
    "no predicate": lambda case: first(
        case, canonical({"_type": STATEMENT_TYPE, "predicateType": PLACE + CERTIFICATE})
    ),
    "another schema": predicate(schema="unplug-certificate/2"),
    "a field unknown": predicate(name="Ada"),
    "a number beyond all": lambda case: first(
        case, statement(case).replace(b'"bytes":', b'"bytes":1e999,"x":')
    ),
    "a lone surrogate": lambda case: first(
        case, statement(case).replace(b"Example Ltd", b"\\ud800")
    ),
    "a checkpoint of nobody": predicate(ledger={"vkey": "x", "checkpoint": "", "entries": []}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_certificate_is_refused_in_one_line(case: Case, name: str) -> None:
    case.issued.file.write_bytes(HOSTILE[name](case))
    with pytest.raises((InputError, CheckFailed)) as caught:
        check_certificate(case.issued.file, case.signer.key, case.bundle)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


def test_views_that_do_not_belong_to_it_are_refused(case: Case) -> None:
    for number, kind in enumerate(KINDS[1:], 1):
        envelopes = lines(case)
        value = json.loads(payloads(case.issued.certificate)[number])
        value["predicate"]["more"] = 1
        envelopes[number] = envelope(case, canonical(value))
        case.issued.file.write_bytes(joined(envelopes))
        with pytest.raises(CheckFailed, match="does not say what its certificate says") as caught:
            open_certificate(case.issued.file, case.signer.key)
        assert kind in str(caught.value)


def test_all_four_of_an_earlier_place_are_the_certificate_that_they_were(case: Case) -> None:
    older = payloads(case.issued.certificate, EARLIER[0])
    assert not {*older} & {*payloads(case.issued.certificate)} - {older[1]}
    case.issued.file.write_bytes(joined(envelope(case, payload) for payload in older))
    checked = check_certificate(case.issued.file, case.signer.key, case.bundle, now=LATER)
    assert checked.problems == () and checked.certificate == case.issued.certificate


def test_a_second_signature_of_somebody_else_is_passed_over(case: Case) -> None:
    envelopes = lines(case)
    for line in envelopes:
        line["signatures"].insert(0, {"keyid": "somebody", "sig": "AAAA"})
    case.issued.file.write_bytes(joined(envelopes))
    assert open_certificate(case.issued.file, case.signer.key) == case.issued.certificate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": "unplug-certificate-policy/2"}',
        '{"schema": "unplug-certificate-policy/1", "max_auc": 1}',
        '{"schema": "unplug-certificate-policy/1", "shown_by": ["luck"]}',
        '{"schema": "unplug-certificate-policy/1", "max_auc_above": NaN}',
        '{"schema": "unplug-certificate-policy/1", "max_auc_above": 1, "max_auc_above": 0}',
        "[" * 10**5,
    ],
)
def test_a_policy_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "policy.json").write_text(text)
    with pytest.raises(InputError):
        read_policy(tmp_path / "policy.json")
    (tmp_path / "policy.json").write_text('{"schema": "unplug-certificate-policy/1"}')
    assert read_policy(tmp_path / "policy.json") == CertificatePolicy()


def judged(case: Case, raw: bytes) -> None:
    """A typed error, or what the key signed and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "certificate.intoto.jsonl"
        file.write_bytes(raw)
        try:
            checked = check_certificate(file, case.signer.key, case.bundle)
        except UnplugError:
            return
        finally:
            assert [path.name for path in Path(folder).iterdir()] == [file.name]
        assert checked.certificate == case.issued.certificate or checked.problems


@pytest.mark.long
def test_bytes_harmed_at_random(made: Case) -> None:
    """No crash, no write outside, bounded memory; where it still opens it is what was signed."""
    whole, before = made.issued.file.read_bytes(), peak_rss_bytes()

    @settings(max_examples=MANY, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def harmed(data: st.DataObject) -> None:
        raw = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, len(raw) - 1))
            kind = data.draw(st.sampled_from(["flip", "cut", "insert"]))
            if kind == "flip":
                raw[place] ^= data.draw(st.integers(1, 255))
            elif kind == "insert":
                raw[place:place] = data.draw(st.binary(min_size=1, max_size=40))
            elif place:
                del raw[place:]
        judged(made, bytes(raw))

    harmed()
    assert peak_rss_bytes() - before < MAX_GROWTH


@pytest.mark.long
def test_odd_statements_under_the_right_signature(made: Case) -> None:
    """Whatever a trusted issuer signs: a typed error, problems in lines, or the very certificate."""
    value = json.loads(payloads(made.issued.certificate)[0])
    for payload in mutated(value, MANY, "certificate"):
        judged(made, first(made, payload))
