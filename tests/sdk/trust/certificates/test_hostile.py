"""Certificates and policies from strangers: a typed error in one line, whatever they hold, in
bounded time and memory.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.mutations import mutated

from unplug.core import CheckFailed, InputError, UnplugError, peak_rss_bytes
from unplug.trust.bundle import canonical, pae
from unplug.trust.bundle.signed_json import PAYLOAD_TYPE, STATEMENT_TYPE
from unplug.trust.certificates import (
    CertificatePolicy,
    check_certificate,
    open_certificate,
    read_policy,
)
from unplug.trust.certificates.statements import CERTIFICATE, KINDS, MAX_BYTES, payloads

from .conftest import Case

MANY = 300
MAX_GROWTH = 2**27  # bytes, over all of them


def envelope(case: Case, payload: bytes, kind: str = PAYLOAD_TYPE) -> dict[str, Any]:
    """What the case's key signs, whatever it is."""
    signature = base64.b64encode(case.signer.sign(pae(payload))).decode()
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": kind,
        "signatures": [{"keyid": case.signer.key.hint, "sig": signature}],
    }


def lines(case: Case) -> list[dict[str, Any]]:
    return [envelope(case, payload) for payload in payloads(case.issued.certificate)]


def first(case: Case, payload: bytes) -> bytes:
    """The file with another first statement under the right signature."""
    return b"".join(canonical(item) + b"\n" for item in [envelope(case, payload), *lines(case)[1:]])


def statement(case: Case, **changed: Any) -> bytes:
    value = json.loads(payloads(case.issued.certificate)[0])
    return canonical(value | changed)


def changed_line(case: Case, change: Callable[[dict[str, Any]], object]) -> bytes:
    found = lines(case)
    change(found[0])
    return b"".join(json.dumps(item).encode() + b"\n" for item in found)


def predicate(case: Case, **changed: Any) -> bytes:
    return first(case, statement(case, predicate={**asdict(case.issued.certificate), **changed}))


HOSTILE: dict[str, Callable[[Case], bytes]] = {
    "nothing": lambda case: b"",
    "one line": lambda case: canonical(lines(case)[0]) + b"\n",
    "no end": lambda case: b"\n".join(canonical(item) for item in lines(case)),
    "nine lines": lambda case: b"".join(canonical(item) + b"\n" for item in lines(case) * 2),
    "another order": lambda case: b"".join(
        canonical(item) + b"\n" for item in reversed(lines(case))
    ),
    "huge": lambda case: b" " * (MAX_BYTES + 1),
    "deep": lambda case: b"[" * 100_000 + b"]" * 100_000 + b"\n" * 4,
    "deep payload": lambda case: first(case, b"[" * 100_000 + b"]" * 100_000),
    "a key twice": lambda case: (
        b'{"payload":"e30=","payload":"e30=","payloadType":"x","signatures":[]}\n' + b"{}\n" * 3
    ),
    "not JSON": lambda case: b"certificate\n" * 4,
    "binary": lambda case: bytes(range(256)) * 4 + b"\n" * 4,
    "a list": lambda case: b"[]\n" * 4,
    "a field more": lambda case: changed_line(case, lambda item: item.update(more=1)),
    "a foreign payload type": lambda case: changed_line(
        case, lambda item: item.update(payloadType="text/plain")
    ),
    "wrong base64": lambda case: changed_line(case, lambda item: item.update(payload="e30")),
    "base64 of two spellings": lambda case: changed_line(
        case, lambda item: item.update(payload="e31=")
    ),
    "base64 that is a number": lambda case: changed_line(case, lambda item: item.update(payload=7)),
    "no signature": lambda case: changed_line(case, lambda item: item.update(signatures=[])),
    "too many signatures": lambda case: changed_line(
        case, lambda item: item.update(signatures=item["signatures"] * 9)
    ),
    "a signature of nothing": lambda case: changed_line(
        case, lambda item: item["signatures"][0].update(sig="")
    ),
    "a key that is a number": lambda case: changed_line(
        case, lambda item: item["signatures"][0].update(keyid=1)
    ),
    "another statement": lambda case: first(
        case, statement(case, _type="https://in-toto.io/Statement/v0.1")
    ),
    "another predicate": lambda case: first(
        case, statement(case, predicateType="https://slsa.dev/provenance/v1")
    ),
    "no predicate": lambda case: first(
        case, canonical({"_type": STATEMENT_TYPE, "predicateType": CERTIFICATE})
    ),
    "another schema": lambda case: predicate(case, schema="unplug-certificate/2"),
    "a field unknown": lambda case: predicate(case, name="Ada"),
    "a number beyond all": lambda case: first(
        case, statement(case).replace(b'"bytes":', b'"bytes":1e999,"x":')
    ),
    "a lone surrogate": lambda case: first(
        case, statement(case).replace(b"Example Ltd", b"\\ud800")
    ),
    "a checkpoint of nobody": lambda case: predicate(
        case, ledger={"vkey": "x", "checkpoint": "", "entries": []}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_certificate_is_refused_in_one_line(case: Case, name: str) -> None:
    case.issued.file.write_bytes(HOSTILE[name](case))
    with pytest.raises((InputError, CheckFailed)) as caught:
        check_certificate(case.issued.file, case.signer.key, case.bundle)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


def test_views_that_do_not_belong_to_it_are_refused(case: Case) -> None:
    other = payloads(
        replace(case.issued.certificate, issuer="Another Ltd", issued="2020-01-01T00:00:00Z")
    )
    for number, kind in enumerate(KINDS[1:], 1):
        found = lines(case)
        value = json.loads(other[number])
        value["predicate"]["more"] = 1
        found[number] = envelope(case, canonical(value))
        case.issued.file.write_bytes(b"".join(canonical(item) + b"\n" for item in found))
        with pytest.raises(CheckFailed, match="does not say what its certificate says") as caught:
            open_certificate(case.issued.file, case.signer.key)
        assert kind.split("/", 3)[-1] in str(caught.value)


def test_a_second_signature_of_somebody_else_is_passed_over(case: Case) -> None:
    found = lines(case)
    for item in found:
        item["signatures"].insert(0, {"keyid": "somebody", "sig": "AAAA"})
    case.issued.file.write_bytes(b"".join(canonical(item) + b"\n" for item in found))
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
            found = check_certificate(file, case.signer.key, case.bundle)
        except UnplugError:
            return
        finally:
            assert [path.name for path in Path(folder).iterdir()] == [file.name]
        assert found.certificate == case.issued.certificate or found.problems


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
